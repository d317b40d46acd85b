//! Reads a guest's network configuration, versions 1 and 2, as cloud-init and netplan do.
//!
//! A configuration replaces cloud-init's default, which requests a lease for every adapter. An adapter without an
//! entry, or with an entry that doesn't request an address, therefore doesn't get an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::failure::{Failure, Reason};

/// The method by which a guest gets its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// A lease from the network.
    Leased,
    /// A static IPv4 address.
    Static(Ipv4Addr),
    /// A static IPv6 address. The guest doesn't get an IPv4 address.
    StaticV6(Ipv6Addr),
    /// The guest doesn't get an address.
    None,
}

/// The addresses that the configuration assigns: the first static address of each family, and true if an adapter
/// requests a lease.
#[derive(Default)]
struct Given {
    leases: bool,
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
}

impl Given {
    fn take(&mut self, address: &Value) -> Result<(), Failure> {
        let parsed = address.as_str().and_then(|address| address.parse::<ipnet::IpNet>().ok());
        match parsed.ok_or_else(|| wrong("has an address without its prefix"))?.addr() {
            IpAddr::V4(address) => self.v4 = self.v4.or(Some(address)),
            IpAddr::V6(address) => self.v6 = self.v6.or(Some(address)),
        }
        Ok(())
    }

    fn addressing(&self) -> AddressSource {
        match (self.v4, self.leases, self.v6) {
            (Some(address), ..) => AddressSource::Static(address),
            (None, true, _) => AddressSource::Leased,
            (None, false, Some(address)) => AddressSource::StaticV6(address),
            (None, false, None) => AddressSource::None,
        }
    }
}

fn wrong(what: &str) -> Failure {
    Failure::new(Reason::Metadata, format!("metadata's network {what}"))
}

/// Reads a network configuration for a guest whose network adapters have these MAC addresses.
pub fn read(network: &Value, macs: &[String]) -> Result<AddressSource, Failure> {
    let mut given = Given::default();
    match network["version"].as_i64() {
        Some(1) => version_1(network, macs, &mut given)?,
        Some(2) => version_2(network, macs, &mut given)?,
        _ => return Err(wrong("is of neither version 1 nor 2")),
    }
    Ok(given.addressing())
}

fn has(macs: &[String], mac: &str) -> bool {
    macs.iter().any(|own| own.eq_ignore_ascii_case(mac))
}

fn version_1(network: &Value, macs: &[String], given: &mut Given) -> Result<(), Failure> {
    let config = network["config"].as_array().ok_or_else(|| wrong("has no config"))?;
    let adapters = config.iter().filter(|entry| entry["type"] == "physical");
    for adapter in adapters.filter(|adapter| adapter["mac_address"].as_str().is_none_or(|mac| has(macs, mac)))
    {
        for subnet in adapter["subnets"].as_array().into_iter().flatten() {
            match subnet["type"].as_str().unwrap_or_default() {
                "dhcp" | "dhcp4" => given.leases = true,
                "static" | "static6" => given.take(&with_prefix(subnet))?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns a subnet's address with its prefix length. The configuration may specify the prefix length as a separate netmask.
fn with_prefix(subnet: &Value) -> Value {
    let prefix = subnet["netmask"]
        .as_str()
        .and_then(|mask| mask.parse::<Ipv4Addr>().ok())
        .map(|mask| mask.to_bits().count_ones());
    match (subnet["address"].as_str(), prefix) {
        (Some(address), Some(prefix)) if !address.contains('/') => format!("{address}/{prefix}").into(),
        _ => subnet["address"].clone(),
    }
}

fn version_2(network: &Value, macs: &[String], given: &mut Given) -> Result<(), Failure> {
    let ethernets = network["ethernets"].as_object().ok_or_else(|| wrong("has no ethernets"))?;
    for ethernet in ethernets.values() {
        if !ethernet["match"].is_object() {
            return Err(wrong("has an ethernet that matches no network adapter"));
        }
        if ethernet["match"]["macaddress"].as_str().is_some_and(|mac| !has(macs, mac)) {
            continue;
        }
        given.leases |= ethernet["dhcp4"] == true;
        for address in ethernet["addresses"].as_array().into_iter().flatten() {
            given.take(address)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MAC: &str = "00:50:56:AA:00:01";

    fn addressing(network: &Value) -> Result<AddressSource, Reason> {
        read(network, &[MAC.to_owned()]).map_err(|failure| failure.reason)
    }

    fn ethernet(ethernet: &Value) -> Result<AddressSource, Reason> {
        addressing(&json!({"version": 2, "ethernets": {"eth0": ethernet}}))
    }

    #[test]
    fn the_configuration_is_for_the_adapters_that_it_matches() {
        let (driver, mac) = (json!({"driver": "vmxnet3"}), json!({"macaddress": "00:50:56:aa:00:01"}));
        let other = json!({"macaddress": "00:50:56:aa:bb:cc"});
        let seven = Ok(AddressSource::Static(Ipv4Addr::new(10, 2, 0, 7)));
        let addresses = json!(["fd00::7/64", "10.2.0.7/16"]);
        for found in [&driver, &mac] {
            assert_eq!(ethernet(&json!({"match": found, "addresses": addresses})), seven);
            assert_eq!(ethernet(&json!({"match": found, "dhcp4": true})), Ok(AddressSource::Leased));
        }
        assert_eq!(ethernet(&json!({"match": other, "addresses": addresses})), Ok(AddressSource::None));
        assert_eq!(ethernet(&json!({"match": driver})), Ok(AddressSource::None));
        let v6 = Ok(AddressSource::StaticV6("fd00::7".parse().unwrap()));
        assert_eq!(ethernet(&json!({"match": driver, "addresses": ["fd00::7/64"]})), v6);
    }

    #[test]
    fn version_1_is_read_too() {
        let physical = |subnet: Value| {
            addressing(
                &json!({"version": 1, "config": [{"type": "physical", "name": "eth0", "subnets": [subnet]}]}),
            )
        };
        let expected = Ok(AddressSource::Static(Ipv4Addr::new(10, 251, 0, 41)));
        assert_eq!(physical(json!({"type": "static", "address": "10.251.0.41/24"})), expected);
        assert_eq!(
            physical(json!({"type": "static", "address": "10.251.0.41", "netmask": "255.255.255.0"})),
            expected
        );
        assert_eq!(physical(json!({"type": "dhcp"})), Ok(AddressSource::Leased));
    }

    #[test]
    fn what_cloud_init_does_not_understand_ends_the_boot() {
        for wrong in [
            json!({"version": 3}),
            json!({"version": 1}),
            json!({"version": 2}),
            json!({"version": 2, "ethernets": {"eth0": {"addresses": ["10.2.0.7/16"]}}}),
            json!({"version": 2, "ethernets": {"eth0": {"match": {"name": "e*"}, "addresses": ["10.2.0.7"]}}}),
        ] {
            assert_eq!(addressing(&wrong), Err(Reason::Metadata), "{wrong}");
        }
    }
}
