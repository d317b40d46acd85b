//! Cloud-init's network configuration, version 2, of the NICs of a VM.

use api::vmop::VirtualMachine;
use serde_json::{Map, Value, json};
use vsphere::NicKind;

use super::data::{BootstrapInput, search_domains};
use crate::virtualmachine::nic::adapter::{Addressing, Nic};

/// The network of the guest; `None` where nothing is known that it would not do by itself.
pub(super) fn network(vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Option<Value> {
    let configured = input.network;
    let plain = |nic: &Nic| nic.mac.is_none() && nic.addressing == Addressing::Dhcp;
    if input.nics.iter().all(plain) && configured.nameservers.is_empty() && configured.mtu.is_none() {
        return None;
    }
    let ethernets: Map<_, _> = input
        .nics
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_configured_before(input.nics, *at))
        .map(|(at, nic)| {
            let name = format!("eth{at}");
            let ethernet = ethernet(&name, nic, vm, input);
            (name, ethernet)
        })
        .collect();
    (!ethernets.is_empty()).then(|| json!({ "version": 2, "ethernets": ethernets }))
}

/// Whether an earlier NIC of the same driver and configuration stands for this one.
fn is_configured_before(nics: &[Nic], at: usize) -> bool {
    nics.get(at).is_some_and(|nic| {
        by_driver(nics, nic) && nics.iter().take(at).any(|other| driver(other.kind) == driver(nic.kind))
    })
}

/// Whether the driver is enough to match a NIC: all that have it are configured alike, or there is one only.
///
/// A name would match better, but what a NIC is called depends on the guest.
fn by_driver(nics: &[Nic], nic: &Nic) -> bool {
    let alike: Vec<_> = nics.iter().filter(|other| driver(other.kind) == driver(nic.kind)).collect();
    let plain = |nic: &&Nic| nic.mac.is_none() && nic.addressing == Addressing::Dhcp;
    nic.mac.is_none() && (alike.len() == 1 || alike.iter().all(plain))
}

/// One NIC in netplan's words, key by key; longer than a procedure may be.
fn ethernet(name: &str, nic: &Nic, vm: &VirtualMachine, input: &BootstrapInput<'_>) -> Value {
    let mut map = Map::new();
    match &nic.mac {
        Some(mac) => {
            map.insert("match".into(), json!({ "macaddress": mac }));
            map.insert("set-name".into(), name.into());
        }
        None if by_driver(input.nics, nic) => {
            drop(map.insert("match".into(), json!({ "driver": driver(nic.kind) })));
        }
        None => drop(map.insert("match".into(), json!({ "name": name }))),
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
            for address in addresses {
                let Some(gateway) = address.gateway else { continue };
                let key = if gateway.is_ipv4() { "gateway4" } else { "gateway6" };
                map.entry(key).or_insert_with(|| gateway.to_string().into());
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

/// The kernel's driver of a NIC.
fn driver(kind: NicKind) -> &'static str {
    match kind {
        NicKind::Vmxnet3 => "vmxnet3",
        NicKind::Vmxnet2 => "vmxnet",
        NicKind::E1000 => "e1000",
        NicKind::E1000e => "e1000e",
        NicKind::Pcnet32 => "pcnet32",
    }
}
