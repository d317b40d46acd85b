//! Determines if an object in a folder or pool belongs to a policy's namespace.

use vsphere::MoRef;
use vsphere::inventory::{Configuration, Presence};

use crate::vcenter::{VCenter, mark};

/// Returns true if `object` is a VM of the namespace, or may be one. The result depends on the VM's mark, which only the operator
/// writes.
pub fn may_be_of(namespace: &str, object: &MoRef, vcenter: &VCenter) -> bool {
    let vm = match vcenter.inventory.vm(object) {
        // A VM whose configuration was never read can belong to anyone.
        Presence::Unavailable(vm) if vm.configuration == Configuration::NeverRead => return true,
        Presence::Present(vm) | Presence::Unavailable(vm) => vm,
        Presence::Unknown => return object.kind() == "VirtualMachine",
        Presence::Absent => return false,
    };
    let owner = mark::owner(&vm, &vcenter.settings.stack);
    owner.is_some_and(|owner| owner.namespace.as_deref() == Some(namespace))
}
