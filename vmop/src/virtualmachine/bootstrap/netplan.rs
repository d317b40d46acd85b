//! Cloud-init's network configuration, version 2, of the NICs of a VM.

use std::net::IpAddr;

use api::vmop::VirtualMachine;
use serde_json::{Map, Value, json};

use super::data::{BootstrapInput, search_domains};
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::nic::adapter::{Address, Addressing, Nic};

/// Whether the guest's network needs configuration: something that it would not do by itself.
pub(super) fn is_configured(nics: &[Nic], network: &GuestNetwork) -> bool {
    let for_all = !network.nameservers.is_empty() || network.mtu.is_some();
    !nics.is_empty() && (for_all || !nics.iter().all(Nic::is_plain))
}

/// The network of the guest; `None` where nothing is known that it would not do by itself.
pub(super) fn network(vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Option<Value> {
    if !is_configured(input.nics, input.network) {
        return None;
    }
    let ethernets: Map<_, _> = input
        .nics
        .iter()
        .enumerate()
        .map(|(at, nic)| {
            let name = format!("eth{at}");
            let ethernet = ethernet(&name, nic, vm, input);
            (name, ethernet)
        })
        .collect();
    Some(json!({ "version": 2, "ethernets": ethernets }))
}

/// One NIC in netplan's words, key by key; longer than a procedure may be.
fn ethernet(name: &str, nic: &Nic, vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Value {
    let mut map = Map::new();
    if let Some(mac) = &nic.mac {
        // A driver or a name won't do: cloud-init then writes for systemd-networkd that the NIC's name is `ethN`, whatever it is.
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
            let routes = routes(addresses);
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

/// The ways out by the first router of each kind of address.
///
/// Cloud-init deprecates `gateway4` and `gateway6`, and refuses `to: default` where it writes for systemd-networkd. 22.4
/// writes `::/64` there for `::/0`; the two halves of all addresses lead out in any case.
fn routes(addresses: &[Address]) -> Vec<Value> {
    let first =
        |is_v4: bool| addresses.iter().filter_map(|address| address.gateway).find(|to| to.is_ipv4() == is_v4);
    let to = |all: &[&str], via: Option<IpAddr>| -> Vec<Value> {
        via.map(|via| all.iter().map(|to| json!({ "to": to, "via": via })).collect()).unwrap_or_default()
    };
    [to(&["0.0.0.0/0"], first(true)), to(&["::/0", "::/1", "8000::/1"], first(false))].concat()
}
