//! The condition that shows if a VM is in its folder and resource pool.

use api::conditions::{Condition, WARNING, vmop as known};
use vsphere::Vm;

use crate::vcenter::Placement;
use crate::virtualmachine::condition_types;

pub fn location_condition(vsphere_vm: &Vm, placement: &Placement) -> Condition {
    let (folder, pool) = (
        vsphere_vm.folder.as_ref() == Some(&placement.folder),
        vsphere_vm.pool.as_ref() == Some(&placement.pool),
    );
    let (reason, what) = match (pool, folder) {
        (true, true) => return Condition::is_true(condition_types::LOCATION),
        (false, true) => (known::RESOURCE_POOL_MISMATCH, format!("resource pool {}", placement.pool.id())),
        (true, false) => (known::FOLDER_MISMATCH, format!("folder {}", placement.folder.id())),
        (false, false) => (
            known::RESOURCE_POOL_AND_FOLDER_MISMATCH,
            format!("resource pool {} and folder {}", placement.pool.id(), placement.folder.id()),
        ),
    };
    let message = format!("The VM was moved in vCenter: it must be in {what}. Move it back");
    Condition::is_false(condition_types::LOCATION, WARNING, reason, message)
}
