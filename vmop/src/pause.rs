//! Detects if a VM is paused: by a user, through an annotation on the VirtualMachine, or by a vSphere administrator, through a
//! key in the VM's ExtraConfig.

use api::names::annotation;
use kube::{Resource, ResourceExt};
use vsphere::Vm;

/// The ExtraConfig key with which a vSphere administrator pauses a VM. vm-operator uses the same key.
const BY_ADMIN: &str = "vmservice.virtualmachine.pause";

/// The annotations with which a user pauses an object.
const BY_DEVOPS: [&str; 2] = [annotation::VMOP_PAUSED, annotation::VMOP_PAUSE];

/// Returns true if a user or Cluster API paused the object.
pub fn paused<K: Resource>(object: &K) -> bool {
    object.annotations().contains_key(annotation::PAUSED) || by_devops(object)
}

/// Returns true if a user paused the object.
pub fn by_devops<K: Resource>(object: &K) -> bool {
    BY_DEVOPS.iter().any(|key| object.annotations().contains_key(*key))
}

/// Returns true if an administrator paused the VM in vCenter.
pub fn by_admin(vsphere_vm: &Vm) -> bool {
    vsphere_vm.extra_config.get(BY_ADMIN).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the annotations and the ExtraConfig key that pause the VM, each described with its location.
pub fn keys<K: Resource>(object: &K, vsphere_vm: Option<&Vm>) -> Vec<String> {
    let annotations = BY_DEVOPS
        .into_iter()
        .filter(|key| object.annotations().contains_key(*key))
        .map(|key| format!("annotation {key} from this object"));
    let extra_config = vsphere_vm
        .filter(|vsphere_vm| by_admin(vsphere_vm))
        .map(|_| format!("ExtraConfig key {BY_ADMIN} from the VM in vCenter"));
    annotations.chain(extra_config).collect()
}

/// Returns the label value that says who paused the VM, or `None` if it isn't paused.
pub fn label<K: Resource>(object: &K, vsphere_vm: Option<&Vm>) -> Option<&'static str> {
    match (by_devops(object), vsphere_vm.is_some_and(by_admin)) {
        (true, true) => Some("both"),
        (true, false) => Some("devops"),
        (false, true) => Some("admin"),
        (false, false) => None,
    }
}
