//! Reads who paused a VM: the annotation on its object, or the key in its ExtraConfig.

use api::names::annotation;
use kube::{Resource, ResourceExt};
use vsphere::Vm;

/// ExtraConfig by which a vSphere admin has a VM left alone, as vm-operator reads it.
const BY_ADMIN: &str = "vmservice.virtualmachine.pause";

/// Annotations by which a user pauses an object.
const BY_DEVOPS: [&str; 2] = [annotation::VMOP_PAUSED, annotation::VMOP_PAUSE];

/// Whether somebody asked on the object that it be left alone: a user, or Cluster API.
pub fn paused<K: Resource>(object: &K) -> bool {
    object.annotations().contains_key(annotation::PAUSED) || by_devops(object)
}

/// Whether a user asked on the object that it be left alone.
pub fn by_devops<K: Resource>(object: &K) -> bool {
    BY_DEVOPS.iter().any(|key| object.annotations().contains_key(*key))
}

/// Whether an admin asked in vCenter that the VM be left alone.
pub fn by_admin(vsphere_vm: &Vm) -> bool {
    vsphere_vm.extra_config.get(BY_ADMIN).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the annotations and the ExtraConfig key that pause the VM, each with its location.
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

/// The label's value: who asked, if somebody did.
pub fn label<K: Resource>(object: &K, vsphere_vm: Option<&Vm>) -> Option<&'static str> {
    match (by_devops(object), vsphere_vm.is_some_and(by_admin)) {
        (true, true) => Some("both"),
        (true, false) => Some("devops"),
        (false, true) => Some("admin"),
        (false, false) => None,
    }
}
