//! Cloud-init network configuration, version 2, for a VM's NICs.

use std::net::IpAddr;

use api::vmop::VirtualMachine;
use serde_json::{Map, Value, json};

use super::data::{BootstrapInput, search_domains};
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::nic::adapter::{Addressing, Nic, StaticAddress};

/// Returns true if the VM has NICs and the guest's default network configuration isn't enough: there are name servers, an MTU,
/// MACs or static addresses to set.
pub(super) fn is_configured(nics: &[Nic], network: &GuestNetwork) -> bool {
    let for_all = !network.nameservers.is_empty() || network.mtu.is_some();
    !nics.is_empty() && (for_all || !nics.iter().all(Nic::is_plain))
}

/// Returns the guest's network configuration, or `None` if the guest's default configuration is enough.
pub(super) fn build_network(vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Option<Value> {
    if !is_configured(input.nics, input.network) {
        return None;
    }
    let ethernets: Map<_, _> = input
        .nics
        .iter()
        .enumerate()
        .map(|(at, nic)| {
            let name = format!("eth{at}");
            let ethernet = build_ethernet(&name, nic, vm, input);
            (name, ethernet)
        })
        .collect();
    Some(json!({ "version": 2, "ethernets": ethernets }))
}

/// Returns the netplan configuration for a NIC. `name` is the interface name that the guest sets if the NIC's MAC is known.
fn build_ethernet(name: &str, nic: &Nic, vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Value {
    let mut map = Map::new();
    if let Some(mac) = &nic.mac {
        // Match by MAC: for a driver or name match, cloud-init's systemd-networkd output assumes that the NIC's name is `ethN`.
        map.insert("match".into(), json!({ "macaddress": mac.to_ascii_lowercase().replace('-', ":") }));
        map.insert("set-name".into(), name.into());
    }
    match &nic.addressing {
        Addressing::Dhcp => drop(map.insert("dhcp4".into(), true.into())),
        Addressing::Unaddressed => {
            map.insert("dhcp4".into(), false.into());
            map.insert("dhcp6".into(), false.into());
        }
        Addressing::Static(addresses) => {
            map.insert("dhcp4".into(), false.into());
            let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            map.insert("addresses".into(), all.into());
            let routes = build_routes(addresses);
            if !routes.is_empty() {
                map.insert("routes".into(), routes.into());
            }
        }
    }
    if let Some(mtu) = input.network.mtu {
        map.insert("mtu".into(), mtu.into());
    }
    let search = search_domains(vm, input);
    if !input.network.nameservers.is_empty() || !search.is_empty() {
        let mut servers = Map::new();
        servers.insert("addresses".into(), input.network.nameservers.clone().into());
        if !search.is_empty() {
            servers.insert("search".into(), search.to_vec().into());
        }
        map.insert("nameservers".into(), servers.into());
    }
    map.into()
}

/// Returns default routes through the first gateway of each address family.
///
/// Cloud-init deprecates `gateway4` and `gateway6`, and rejects `to: default` in configurations for systemd-networkd. For
/// these, version 22.4 converts `::/0` to `::/64`, so both halves of the IPv6 address space are routed as well.
fn build_routes(addresses: &[StaticAddress]) -> Vec<Value> {
    let first =
        |is_v4: bool| addresses.iter().filter_map(|address| address.gateway).find(|to| to.is_ipv4() == is_v4);
    let to = |all: &[&str], via: Option<IpAddr>| -> Vec<Value> {
        via.map(|via| all.iter().map(|to| json!({ "to": to, "via": via })).collect()).unwrap_or_default()
    };
    [to(&["0.0.0.0/0"], first(true)), to(&["::/0", "::/1", "8000::/1"], first(false))].concat()
}
