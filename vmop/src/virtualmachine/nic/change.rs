//! The NIC change for an existing VM whose spec names different interfaces than before.

use api::vmop::VirtualMachine;
use vsphere::{Backing, ConfigSpec, DeviceChange, VirtualNic};

use super::adapter::Nic;
use super::device_changes::{build_removal, build_virtual_nic, new_keys, without_nics};
use crate::device_check::{changing_note, nics_note};
use crate::virtualmachine::step::Step;

/// The NIC change for a VM that is off, carried out before power-on.
#[derive(Clone, Debug, PartialEq)]
pub struct NicChange {
    /// The device changes from the present to the wanted NICs.
    changes: Vec<DeviceChange>,
    /// The wanted NICs, with the MACs that are already known.
    pub nics: Vec<Nic>,
    note: (String, String),
}

/// A function that returns true if a present NIC can become the wanted one.
type Fits<'a> = &'a dyn Fn(&VirtualNic, &Nic) -> bool;

impl NicChange {
    /// Plans the change from the `present` to the `wanted` NICs.
    ///
    /// The guest identifies NICs by MAC. Therefore a wanted NIC reuses the present NIC of its kind that has the same MAC,
    /// otherwise one that has the same backing, otherwise the next one. If the change was already requested (`asked`), a port
    /// group in place of an opaque network isn't a difference, because vCenter may convert an opaque network to a port group.
    pub fn new(vm: &VirtualMachine, present: &[VirtualNic], wanted: Vec<Nic>, asked: bool) -> Self {
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|nic| Nic { mac: nic.mac.map(|mac| mac.to_ascii_lowercase()), ..nic })
            .collect();
        // Without wanted NICs, the VM keeps its NICs, unless it must not have any.
        let left = if wanted.is_empty() && !without_nics(vm) { &[] } else { present };
        let mut left: Vec<_> = left.iter().collect();
        let mut kept = vec![None; wanted.len()];
        let named = |here: &VirtualNic, nic: &Nic| nic.mac.is_some() && here.address == nic.mac;
        let there = |here: &VirtualNic, nic: &Nic| match (&here.backing, &nic.backing) {
            (Some(Backing::Portgroup { .. }), Backing::Opaque { .. }) if asked => true,
            (here, wanted) => here.as_ref() == Some(wanted),
        };
        let fits: [Fits<'_>; 3] = [&named, &there, &|_, _| true];
        for fits in fits {
            for (kept, nic) in kept.iter_mut().zip(&wanted).filter(|(kept, _)| kept.is_none()) {
                let fitting = left.iter().position(|here| here.kind == nic.kind && fits(here, nic));
                *kept = fitting.map(|at| left.remove(at));
            }
        }
        let mut changes: Vec<_> = left.into_iter().map(build_removal).collect();
        let mut new_keys = new_keys();
        let nics = kept.into_iter().zip(wanted).map(|(kept, nic)| {
            let Some(here) = kept else {
                changes.extend(new_keys.next().map(|key| DeviceChange::Add(build_virtual_nic(key, &nic))));
                return nic;
            };
            let mac = nic.mac.clone().or_else(|| here.address.clone());
            let stays = there(here, &nic)
                && mac == here.address
                && here.connects
                && (nic.external_id.is_none() || nic.external_id == here.external_id);
            if !stays {
                changes.push(DeviceChange::Edit(build_virtual_nic(here.key, &nic)));
            }
            Nic { mac, ..nic }
        });
        let nics = nics.collect();
        Self { changes, nics, note: nics_note(vm) }
    }

    /// Returns the step that changes the NICs, or `None` if they match. The guest gets its bootstrap data only after the NICs
    /// match, because only then are all MACs known.
    pub fn step(&self) -> Option<Step> {
        let spec = ConfigSpec {
            device_change: self.changes.clone(),
            extra_config: vec![changing_note()].into(),
            ..ConfigSpec::default()
        };
        (!self.changes.is_empty()).then(|| Step::Reconfigure(Box::new(spec)))
    }

    /// Returns the step that records that the guest got the NICs. It is the last step, so that a crash before it repeats the
    /// update.
    pub fn note_step(&self) -> Step {
        Step::set_options(vec![self.note.clone()])
    }
}

#[cfg(test)]
mod tests {
    use vsphere::NicKind;

    use super::*;
    use crate::testing::fixtures;

    fn backing(name: &str) -> Backing {
        Backing::Network { name: name.to_owned(), network: None }
    }

    fn here(key: i32, network: &str, mac: &str) -> VirtualNic {
        let (backing, address) = (Some(backing(network)), Some(mac.to_owned()));
        VirtualNic { backing, address, ..fixtures::virtual_nic(key, NicKind::Vmxnet3) }
    }

    fn wanted(network: &str, mac: Option<&str>) -> Nic {
        Nic { mac: mac.map(str::to_owned), ..Nic::plain(NicKind::Vmxnet3, backing(network)) }
    }

    /// Returns the changes in short form, and the MACs that the guest gets.
    fn change_nics(present: &[VirtualNic], wanted: Vec<Nic>) -> (String, Vec<Option<String>>) {
        let change = NicChange::new(&fixtures::virtual_machine(), present, wanted, false);
        let network = |nic: &VirtualNic| match &nic.backing {
            Some(Backing::Network { name, .. }) => name.clone(),
            _ => String::new(),
        };
        let changes = change.changes.iter().map(|change| match change {
            DeviceChange::Add(nic) => format!("+{}", network(nic)),
            DeviceChange::Edit(nic) => format!("{}={}", nic.key, network(nic)),
            DeviceChange::Remove(nic) => format!("-{}", nic.key),
            other => panic!("{other:?}"),
        });
        (changes.collect::<Vec<_>>().join(" "), change.nics.into_iter().map(|nic| nic.mac).collect())
    }

    #[test]
    fn a_nic_stays_with_whom_it_was_made_for() {
        let present = [here(4000, "a", "m-0"), here(4001, "b", "m-1")];
        let (a, b, c) = (wanted("a", None), wanted("b", None), wanted("c", None));
        let macs =
            |macs: &[Option<&str>]| -> Vec<_> { macs.iter().map(|mac| mac.map(str::to_owned)).collect() };
        for (wanted, changes, macs) in [
            (vec![a.clone(), b.clone()], "", macs(&[Some("m-0"), Some("m-1")])),
            (vec![b.clone(), a.clone()], "", macs(&[Some("m-1"), Some("m-0")])),
            (vec![b.clone()], "-4000", macs(&[Some("m-1")])),
            (vec![c.clone(), b.clone()], "4000=c", macs(&[Some("m-0"), Some("m-1")])),
            (vec![a.clone(), b.clone(), c.clone()], "+c", macs(&[Some("m-0"), Some("m-1"), None])),
            (vec![wanted("c", Some("m-1")), a], "4001=c", macs(&[Some("m-1"), Some("m-0")])),
            (vec![wanted("b", Some("m-9"))], "-4000 4001=b", macs(&[Some("m-9")])),
            (Vec::new(), "", Vec::new()),
        ] {
            assert_eq!(change_nics(&present, wanted), (changes.to_owned(), macs));
        }
        let other = Nic { kind: NicKind::E1000e, ..c };
        assert_eq!(change_nics(&present[..1], vec![other]), ("-4000 +c".to_owned(), macs(&[None])));
    }
}
