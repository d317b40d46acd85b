//! Endpoint addresses: VM addresses to which traffic may be sent.
//!
//! A guest can report any address. Services, machines and probes only use addresses that the network provider assigned or
//! that are in a range that the administrator assigned to guests.

use std::net::IpAddr;

use ipnet::IpNet;
use vsphere::Vm;
use vsphere::inventory::PowerState;

/// Returns true if other computers can connect to the address: it isn't a loopback, link-local, unspecified, multicast or
/// broadcast address.
pub fn is_routable(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            !(ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_broadcast())
        }
        IpAddr::V6(ip) => {
            !(ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast())
        }
    }
}

/// Returns the endpoint addresses of a VM that is on. These are the routable addresses that its guest reports, if the network
/// provider `assigned` them or one of the `ranges` contains them. The guest's primary address is the first one.
pub fn endpoint_addresses(vsphere_vm: &Vm, assigned: &[IpAddr], ranges: &[IpNet]) -> Vec<IpAddr> {
    if vsphere_vm.power_state != Some(PowerState::On) {
        return Vec::new();
    }
    let guest = &vsphere_vm.guest;
    let reported = guest.ip.iter().chain(guest.nics.iter().flat_map(|nic| &nic.addresses));
    let parsed = reported.filter_map(|text| text.split('/').next()?.parse::<IpAddr>().ok());
    let mut addresses = Vec::new();
    for ip in parsed.map(|ip| ip.to_canonical()) {
        let is_known = assigned.contains(&ip) || ranges.iter().any(|range| range.contains(&ip));
        if is_known && is_routable(ip) && !addresses.contains(&ip) {
            addresses.push(ip);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use vsphere::inventory::GuestNic;

    use super::*;
    use crate::testing::fixtures;

    fn reporting(ip: &str, addresses: &[&str]) -> Vm {
        let mut vsphere_vm = fixtures::unmarked_vm("vm-1", "web");
        vsphere_vm.guest.ip = Some(ip.to_owned());
        let addresses = addresses.iter().map(|&address| address.to_owned()).collect();
        vsphere_vm.guest.nics = vec![GuestNic {
            device_key: 4000,
            mac: String::new(),
            network: String::new(),
            connected: true,
            addresses,
        }];
        vsphere_vm
    }

    #[test]
    fn an_address_counts_where_somebody_else_than_the_guest_answers_for_it() {
        let ranges: Vec<IpNet> = vec!["10.1.0.0/16".parse().unwrap(), "fd00::/64".parse().unwrap()];
        let assigned: Vec<IpAddr> = vec!["192.0.2.7".parse().unwrap()];
        let of = |ip: &str, addresses: &[&str]| -> Vec<String> {
            let found = endpoint_addresses(&reporting(ip, addresses), &assigned, &ranges);
            found.iter().map(ToString::to_string).collect()
        };
        assert_eq!(of("10.1.0.9", &["10.1.0.9/16", "fe80::1/64", "fd00::9/64"]), ["10.1.0.9", "fd00::9"]);
        assert_eq!(of("192.0.2.7", &["192.0.2.8/24"]), ["192.0.2.7"], "the provider assigned it");
        assert!(of("10.2.0.1", &["172.16.0.1/12"]).is_empty(), "nobody answers for it");
        assert_eq!(of("10.96.0.1", &["10.1.0.9/16"]), ["10.1.0.9"]);
        assert_eq!(of("::ffff:10.1.0.9", &[]), ["10.1.0.9"]);
        let mut off = reporting("10.1.0.9", &[]);
        off.power_state = Some(PowerState::Off);
        assert!(endpoint_addresses(&off, &assigned, &ranges).is_empty());
    }

    #[test]
    fn addresses_that_lead_elsewhere_never_count() {
        let all: Vec<IpNet> = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let loopback = ["127.0.0.1", "127.3.255.1", "::1", "::ffff:127.0.0.1"];
        let link_local = ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"];
        let to_many = ["224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1"];
        let nobodys = ["0.0.0.0", "::", "nonsense", ""];
        for &text in loopback.iter().chain(&link_local).chain(&to_many).chain(&nobodys) {
            let vsphere_vm = reporting(text, &[text]);
            assert!(endpoint_addresses(&vsphere_vm, &[], &all).is_empty(), "{text}");
            if let Ok(ip) = text.parse::<IpAddr>() {
                assert!(endpoint_addresses(&vsphere_vm, &[ip], &all).is_empty(), "{text}, assigned");
            }
        }
        let mixed = reporting("127.0.0.1", &["127.0.0.1/8", "10.1.0.9/16"]);
        let ips: Vec<IpAddr> = vec!["10.1.0.9".parse().unwrap()];
        assert_eq!(endpoint_addresses(&mixed, &[], &all), ips, "one bad address stops no other");
    }
}
