//! Whose the VMs are that lie in a folder or a pool.

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use vsphere::MoRef;
use vsphere::inventory::{Configuration, Presence};

use crate::caches::Caches;
use crate::policy::children::Occupant;
use crate::vcenter::{VCenter, mark};

/// Whose `object` is, as `policy` sees it. Marks are read, which nobody but us writes, and the objects that they name.
pub fn occupant(
    object: &MoRef,
    policy: &VirtualMachineSetResourcePolicy,
    caches: &Caches,
    vcenter: &VCenter,
) -> Occupant {
    let vm = match vcenter.inventory.vm(object) {
        // One that was never read may be any.
        Presence::Unavailable(vm) if vm.configuration == Configuration::NeverRead => {
            return Occupant::Unknown;
        }
        Presence::Present(vm) | Presence::Unavailable(vm) => vm,
        Presence::Unknown if object.kind() == "VirtualMachine" => return Occupant::Unknown,
        Presence::Unknown | Presence::Absent => return Occupant::Stranger,
    };
    let namespace = policy.namespace();
    let owner = mark::owner(&vm, &vcenter.settings.stack).filter(|owner| owner.namespace == namespace);
    let Some(owner) = owner else { return Occupant::Stranger };
    let object = caches.vms.get(namespace.as_deref(), &owner.name);
    let named = object.as_ref().and_then(|vm| vm.spec.resource_policy_name.as_deref());
    if named == Some(&*policy.name_any()) { Occupant::OfPolicy } else { Occupant::OfNamespace }
}
