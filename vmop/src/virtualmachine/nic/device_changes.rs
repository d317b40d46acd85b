//! The changes of a template's or a VM's devices that give it the wanted NICs.

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{DeviceChange, VirtualNic};

use super::adapter::Nic;

/// Whether the VM shall have no NIC, whatever its template has.
pub fn without_nics(vm: &VirtualMachine) -> bool {
    vm.spec.network_interfaces.is_empty() && vm.annotations().contains_key(annotation::NO_DEFAULT_NIC)
}

/// Turns the template's NICs into the wanted ones: connects those that fit anew, swaps and adds the others.
///
/// Without wanted NICs the template's stay as they are, unless there shall be `none`.
pub fn device_changes(present: &[VirtualNic], wanted: &[Nic], none: bool) -> Vec<DeviceChange> {
    if wanted.is_empty() && !none {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let mut added = 0;
    for (at, nic) in wanted.iter().enumerate() {
        let here = present.get(at);
        if let Some(same) = here.filter(|here| here.kind == nic.kind) {
            changes.push(DeviceChange::Edit(connected(same.key, nic)));
            continue;
        }
        changes.extend(here.map(removed));
        added -= 1;
        changes.push(DeviceChange::Add(connected(added * 100, nic)));
    }
    changes.extend(present.iter().skip(wanted.len()).map(removed));
    changes
}

pub fn connected(key: i32, nic: &Nic) -> VirtualNic {
    VirtualNic {
        key,
        kind: nic.kind,
        backing: Some(nic.backing.clone()),
        mac: nic.mac.clone(),
        address: None,
        external_id: nic.external_id.clone(),
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
