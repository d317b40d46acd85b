//! Determines who owns the VMs in a folder or pool.

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use vsphere::MoRef;
use vsphere::inventory::{Configuration, Presence};

use crate::caches::Caches;
use crate::policy::children::Occupant;
use crate::vcenter::{VCenter, mark};

/// Returns who owns `object`, as seen from the policy. The result depends on the VM's mark, which only the operator writes, and
/// on the VirtualMachine that the mark names.
pub fn occupant(
    object: &MoRef,
    policy: &VirtualMachineSetResourcePolicy,
    caches: &Caches,
    vcenter: &VCenter,
) -> Occupant {
    let vm = match vcenter.inventory.vm(object) {
        // A VM whose configuration was never read can belong to anyone.
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
