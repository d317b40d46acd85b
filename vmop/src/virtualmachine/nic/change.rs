//! The network cards of a machine that is there, where its spec names others than it was made with.

use std::fmt::Write as _;

use api::vmop::VirtualMachine;
use sha2::{Digest, Sha256};
use vsphere::{ConfigSpec, DeviceChange, VirtualNic, Vm};

use crate::virtualmachine::clone::{plugged, removed, without_cards};
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::step::Step;

/// ExtraConfig: which interfaces the spec named when the machine got its cards.
const INTERFACES: &str = "layercake.networkInterfaces";

/// The cards that a machine that is off gets before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewired {
    /// What makes the present cards the wanted ones.
    changes: Vec<DeviceChange>,
    /// The wanted cards, with the MACs that they have already.
    pub cards: Vec<Card>,
    note: (String, String),
}

/// The note that the machine has the cards of its spec.
pub fn noted(vm: &VirtualMachine) -> (String, String) {
    // A list of strings and numbers can't fail to serialise.
    let named = serde_json::to_vec(&vm.spec.network_interfaces).unwrap_or_default();
    let hash = Sha256::digest(named).iter().take(8).fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail either.
        let _ = write!(text, "{byte:02x}");
        text
    });
    (INTERFACES.to_owned(), hash)
}

/// Whether the spec names other interfaces than the machine got its cards for. Where nobody noted them, it does not.
pub fn differs(vm: &VirtualMachine, machine: &Vm) -> bool {
    machine.extra_config.get(INTERFACES).is_some_and(|was| !was.is_empty() && *was != noted(vm).1)
}

impl Rewired {
    /// The `present` cards become the `wanted` ones.
    ///
    /// A card stays with whom its MAC names, else with whom is plugged in where it is, else with the next of its kind:
    /// its guest knows it by its MAC.
    pub fn new(vm: &VirtualMachine, present: &[VirtualNic], wanted: Vec<Card>) -> Self {
        // A machine that names no card and is to have no other keeps what it has.
        let left = if wanted.is_empty() && !without_cards(vm) { &[] } else { present };
        let mut left: Vec<_> = left.iter().collect();
        let mut kept = vec![None; wanted.len()];
        let named = |here: &VirtualNic, card: &Card| card.mac.is_some() && here.address == card.mac;
        let there = |here: &VirtualNic, card: &Card| here.backing.as_ref() == Some(&card.backing);
        for fits in [named, there, |_: &VirtualNic, _: &Card| true] {
            for (kept, card) in kept.iter_mut().zip(&wanted).filter(|(kept, _)| kept.is_none()) {
                let fitting = left.iter().position(|here| here.kind == card.kind && fits(here, card));
                *kept = fitting.map(|at| left.remove(at));
            }
        }
        let mut changes: Vec<_> = left.into_iter().map(removed).collect();
        let mut added = 0;
        let cards = kept.into_iter().zip(wanted).map(|(kept, card)| {
            let Some(here) = kept else {
                added -= 1;
                changes.push(DeviceChange::Add(plugged(added * 100, &card)));
                return card;
            };
            let mac = card.mac.clone().or_else(|| here.address.clone());
            let stays = there(here, &card)
                && mac == here.address
                && (card.external_id.is_none() || card.external_id == here.external_id);
            if !stays {
                changes.push(DeviceChange::Edit(plugged(here.key, &card)));
            }
            Card { mac, ..card }
        });
        let cards = cards.collect();
        Self { changes, cards, note: noted(vm) }
    }

    /// The change of the cards, if there is one. The guest is told of them when there is none left: their MACs are known then.
    pub fn change(&self) -> Option<Step> {
        let spec = ConfigSpec { device_change: self.changes.clone(), ..ConfigSpec::default() };
        (!self.changes.is_empty()).then(|| Step::Reconfigure(Box::new(spec)))
    }

    /// The note that the guest was told, too; comes last, so that after a crash in between it is told once more.
    pub fn done(&self) -> Step {
        let spec = ConfigSpec { extra_config: vec![self.note.clone()].into(), ..ConfigSpec::default() };
        Step::Reconfigure(Box::new(spec))
    }
}

#[cfg(test)]
mod tests {
    use vsphere::{Backing, NicKind};

    use super::*;
    use crate::testing::fixtures;

    fn backing(name: &str) -> Backing {
        Backing::Network { name: name.to_owned(), network: None }
    }

    fn here(key: i32, network: &str, mac: &str) -> VirtualNic {
        let (backing, address) = (Some(backing(network)), Some(mac.to_owned()));
        VirtualNic { key, kind: NicKind::Vmxnet3, backing, mac: None, address, external_id: None }
    }

    fn wanted(network: &str, mac: Option<&str>) -> Card {
        Card { mac: mac.map(str::to_owned), ..Card::plain(NicKind::Vmxnet3, backing(network)) }
    }

    /// The changes in short, and the MACs that the guest is told of.
    fn rewired(present: &[VirtualNic], wanted: Vec<Card>) -> (String, Vec<Option<String>>) {
        let rewired = Rewired::new(&fixtures::virtual_machine(), present, wanted);
        let network = |card: &VirtualNic| match &card.backing {
            Some(Backing::Network { name, .. }) => name.clone(),
            _ => String::new(),
        };
        let changes = rewired.changes.iter().map(|change| match change {
            DeviceChange::Add(card) => format!("+{}", network(card)),
            DeviceChange::Edit(card) => format!("{}={}", card.key, network(card)),
            DeviceChange::Remove(card) => format!("-{}", card.key),
            other => panic!("{other:?}"),
        });
        (changes.collect::<Vec<_>>().join(" "), rewired.cards.into_iter().map(|card| card.mac).collect())
    }

    #[test]
    fn a_card_stays_with_whom_it_was_made_for() {
        let present = [here(4000, "a", "m-0"), here(4001, "b", "m-1")];
        let (a, b, c) = (wanted("a", None), wanted("b", None), wanted("c", None));
        let macs =
            |macs: &[Option<&str>]| -> Vec<_> { macs.iter().map(|mac| mac.map(str::to_owned)).collect() };
        for (wanted, changes, told) in [
            (vec![a.clone(), b.clone()], "", macs(&[Some("m-0"), Some("m-1")])),
            (vec![b.clone(), a.clone()], "", macs(&[Some("m-1"), Some("m-0")])),
            (vec![b.clone()], "-4000", macs(&[Some("m-1")])),
            (vec![c.clone(), b.clone()], "4000=c", macs(&[Some("m-0"), Some("m-1")])),
            (vec![a.clone(), b.clone(), c.clone()], "+c", macs(&[Some("m-0"), Some("m-1"), None])),
            (vec![wanted("c", Some("m-1")), a], "4001=c", macs(&[Some("m-1"), Some("m-0")])),
            (vec![wanted("b", Some("m-9"))], "-4000 4001=b", macs(&[Some("m-9")])),
            (Vec::new(), "", Vec::new()),
        ] {
            assert_eq!(rewired(&present, wanted), (changes.to_owned(), told));
        }
        let other = Card { kind: NicKind::E1000e, ..c };
        assert_eq!(rewired(&present[..1], vec![other]), ("-4000 +c".to_owned(), macs(&[None])));
    }

    #[test]
    fn a_machine_whose_interfaces_nobody_noted_keeps_its_cards() {
        let (mut vm, mut machine) = (fixtures::virtual_machine(), fixtures::vsphere_vm());
        assert!(!differs(&vm, &machine));
        machine.extra_config.extend([noted(&vm)]);
        assert!(!differs(&vm, &machine));
        vm.spec.network_interfaces = serde_json::from_value(serde_json::json!([{}, {}])).unwrap();
        assert!(differs(&vm, &machine));
    }
}
