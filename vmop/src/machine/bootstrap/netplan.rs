//! Cloud-init's network configuration, version 2, of the cards of a machine.

use api::vmop::VirtualMachine;
use serde_json::{Map, Value, json};
use vsphere::EthernetKind;

use super::{Surroundings, search};
use crate::machine::needs::{Addressing, Card};

/// The network of the guest; `None` where nothing is known that it would not do by itself.
pub(super) fn network(vm: &VirtualMachine, around: &Surroundings<'_>) -> Option<Value> {
    let told = around.network;
    let plain = |card: &Card| card.mac.is_none() && card.addressing == Addressing::Dhcp;
    if around.cards.iter().all(plain) && told.nameservers.is_empty() && told.mtu.is_none() {
        return None;
    }
    let alone = around.cards.len() == 1;
    let ethernets: Map<_, _> = around
        .cards
        .iter()
        .enumerate()
        .map(|(at, card)| {
            let name = format!("eth{at}");
            let ethernet = ethernet(&name, card, alone, vm, around);
            (name, ethernet)
        })
        .collect();
    (!ethernets.is_empty()).then(|| json!({ "version": 2, "ethernets": ethernets }))
}

fn ethernet(name: &str, card: &Card, alone: bool, vm: &VirtualMachine, around: &Surroundings<'_>) -> Value {
    let mut map = Map::new();
    match &card.mac {
        Some(mac) => {
            map.insert("match".into(), json!({ "macaddress": mac }));
            map.insert("set-name".into(), name.into());
        }
        None if alone => drop(map.insert("match".into(), json!({ "driver": driver(card.kind) }))),
        None => drop(map.insert("match".into(), json!({ "name": name }))),
    }
    match &card.addressing {
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
    if let Some(mtu) = around.network.mtu {
        map.insert("mtu".into(), mtu.into());
    }
    let search = search(vm, around);
    if !around.network.nameservers.is_empty() || !search.is_empty() {
        let mut servers = Map::new();
        servers.insert("addresses".into(), around.network.nameservers.clone().into());
        if !search.is_empty() {
            servers.insert("search".into(), search.to_vec().into());
        }
        map.insert("nameservers".into(), servers.into());
    }
    map.into()
}

/// The kernel's driver of a card.
fn driver(kind: EthernetKind) -> &'static str {
    match kind {
        EthernetKind::Vmxnet3 => "vmxnet3",
        EthernetKind::Vmxnet2 => "vmxnet",
        EthernetKind::E1000 => "e1000",
        EthernetKind::E1000e => "e1000e",
        EthernetKind::Pcnet32 => "pcnet32",
    }
}
