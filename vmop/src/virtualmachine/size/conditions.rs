//! Conditions that show if a VM has its class's size and the requested virtual hardware.

use api::conditions::{Condition, INFO, vmop as known};
use api::names::annotation;
use api::vmop::VirtualMachine;
use vsphere::Vm;

use super::class::Size;
use super::resize::{Sized, compare_size, has_outdated_hardware};
use crate::virtualmachine::condition_types;

pub fn class_condition(vm: &VirtualMachine, vsphere_vm: &Vm, size: &Size) -> Condition {
    let class = &vm.spec.class_name;
    let at_power_off =
        |what: &str| format!("{what}. PowerOffRequired: the VM is resized when it is powered off");
    let (reason, message) = match compare_size(vm, vsphere_vm, size) {
        Sized::Synced => return Condition::is_true(condition_types::CLASS_SYNCED),
        Sized::Renamed => (known::CLASS_NAME_CHANGED, at_power_off(&format!("The class is now {class}"))),
        Sized::Follows => (known::SAME_CLASS_RESIZE, at_power_off(&format!("The class {class} was changed"))),
        Sized::Updated => (
            known::CLASS_UPDATED,
            format!(
                "The class {class} was changed after the VM was created, and the VM keeps its size. To resize the VM, set the annotation {} on the object",
                annotation::SAME_CLASS_RESIZE
            ),
        ),
    };
    Condition::is_false(condition_types::CLASS_SYNCED, INFO, reason, message)
}

pub fn hardware_condition(vm: &VirtualMachine, vsphere_vm: &Vm) -> Option<Condition> {
    has_outdated_hardware(vm, vsphere_vm).then(|| {
        let least = vm.spec.min_hardware_version.unwrap_or_default();
        let message = format!(
            "The VM has virtual hardware version {}. To upgrade it to vmx-{least}, power off the VM",
            vsphere_vm.hardware_version
        );
        Condition::is_false(condition_types::COMPUTE_SYNCED, INFO, known::POWER_OFF_REQUIRED, message)
    })
}
