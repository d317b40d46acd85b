//! The changes of a template's devices that give its clone the wanted NICs.

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{DeviceChange, NicBacking, VirtualNic};

use super::adapter::Nic;

/// Whether the VM shall have no NIC, whatever its template has.
pub fn without_nics(vm: &VirtualMachine) -> bool {
    vm.spec.network_interfaces.is_empty() && vm.annotations().contains_key(annotation::NO_DEFAULT_NIC)
}

/// How a clone gets its NICs, each in the part of its specification that vCenter reads it in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloneNics {
    /// For the location: the networks of the template's NICs that fit.
    pub backings: Vec<NicBacking>,
    /// For the settings: everything else.
    pub changes: Vec<DeviceChange>,
}

/// Turns the template's NICs into the wanted ones: connects those that fit anew, swaps and adds the others.
///
/// Without wanted NICs the template's stay as they are, unless there shall be `none`.
pub fn clone_nics(present: &[VirtualNic], wanted: &[Nic], none: bool) -> CloneNics {
    let mut nics = CloneNics::default();
    if wanted.is_empty() && !none {
        return nics;
    }
    let mut new_keys = new_keys();
    for (at, nic) in wanted.iter().enumerate() {
        let here = present.get(at);
        if let Some(same) = here.filter(|here| here.kind == nic.kind) {
            nics.backings.push(NicBacking { key: same.key, kind: nic.kind, backing: nic.backing.clone() });
            if nic.mac.is_some() || nic.external_id.is_some() || !same.connects {
                nics.changes.push(DeviceChange::Edit(connected(same.key, nic)));
            }
            continue;
        }
        nics.changes.extend(here.map(removed));
        nics.changes.extend(new_keys.next().map(|key| DeviceChange::Add(connected(key, nic))));
    }
    nics.changes.extend(present.iter().skip(wanted.len()).map(removed));
    nics
}

/// The keys of new NICs, unlike those of devices that are passed through (from -200 down).
pub fn new_keys() -> impl Iterator<Item = i32> {
    (-199..=-100).rev()
}

pub fn connected(key: i32, nic: &Nic) -> VirtualNic {
    VirtualNic {
        key,
        kind: nic.kind,
        backing: Some(nic.backing.clone()),
        mac: nic.mac.clone(),
        address: None,
        external_id: nic.external_id.clone(),
        connects: true,
    }
}

pub fn removed(nic: &VirtualNic) -> DeviceChange {
    DeviceChange::Remove(VirtualNic {
        backing: None,
        mac: None,
        address: None,
        external_id: None,
        ..nic.clone()
    })
}
