//! Cloud-init's network configuration, version 2, of the cards of a machine.

use api::vmop::VirtualMachine;
use serde_json::{Map, Value, json};
use vsphere::NicKind;

use crate::virtualmachine::bootstrap::{Surroundings, search};
use crate::virtualmachine::nic::nic::{Addressing, Card};

/// The network of the guest; `None` where nothing is known that it would not do by itself.
pub(super) fn network(vm: &VirtualMachine, around: &Surroundings<'_>) -> Option<Value> {
    let told = around.network;
    let plain = |card: &Card| card.mac.is_none() && card.addressing == Addressing::Dhcp;
    if around.cards.iter().all(plain) && told.nameservers.is_empty() && told.mtu.is_none() {
        return None;
    }
    let ethernets: Map<_, _> = around
        .cards
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_told_before(around.cards, *at))
        .map(|(at, card)| {
            let name = format!("eth{at}");
            let ethernet = ethernet(&name, card, vm, around);
            (name, ethernet)
        })
        .collect();
    (!ethernets.is_empty()).then(|| json!({ "version": 2, "ethernets": ethernets }))
}

/// Whether everything about a card is said with an earlier one, which has the same driver and is told the same.
fn is_told_before(cards: &[Card], at: usize) -> bool {
    cards.get(at).is_some_and(|card| {
        by_driver(cards, card) && cards.iter().take(at).any(|other| driver(other.kind) == driver(card.kind))
    })
}

/// Whether the driver tells enough of a card: all that have it are told the same, or there is one only.
///
/// A name would tell more, but what a card is called depends on the guest.
fn by_driver(cards: &[Card], card: &Card) -> bool {
    let alike: Vec<_> = cards.iter().filter(|other| driver(other.kind) == driver(card.kind)).collect();
    let plain = |card: &&Card| card.mac.is_none() && card.addressing == Addressing::Dhcp;
    card.mac.is_none() && (alike.len() == 1 || alike.iter().all(plain))
}

fn ethernet(name: &str, card: &Card, vm: &VirtualMachine, around: &Surroundings<'_>) -> Value {
    let mut map = Map::new();
    match &card.mac {
        Some(mac) => {
            map.insert("match".into(), json!({ "macaddress": mac }));
            map.insert("set-name".into(), name.into());
        }
        None if by_driver(around.cards, card) => {
            drop(map.insert("match".into(), json!({ "driver": driver(card.kind) })));
        }
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
fn driver(kind: NicKind) -> &'static str {
    match kind {
        NicKind::Vmxnet3 => "vmxnet3",
        NicKind::Vmxnet2 => "vmxnet",
        NicKind::E1000 => "e1000",
        NicKind::E1000e => "e1000e",
        NicKind::Pcnet32 => "pcnet32",
    }
}
