//! The power state that the spec asks for.

use api::vmop::{POWERED_OFF, POWERED_ON, SUSPENDED, VirtualMachine};
use kube::ResourceExt;
use vsphere::inventory::PowerState;

/// Whether the spec asks for a VM that runs; it does where it names no state.
pub fn wants_power_on(vm: &VirtualMachine) -> bool {
    vm.spec.power_state.as_deref().is_none_or(|state| state.is_empty() || state == POWERED_ON)
}

/// The power state that the spec asks for.
pub fn wanted_power(vm: &VirtualMachine) -> PowerState {
    if wants_power_on(vm) {
        PowerState::On
    } else if vm.spec.power_state.as_deref() == Some(SUSPENDED) {
        PowerState::Suspended
    } else {
        PowerState::Off
    }
}

/// The word of the API for a power state.
pub fn power_word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => POWERED_ON,
        PowerState::Off => POWERED_OFF,
        PowerState::Suspended => SUSPENDED,
    }
}

/// The annotations with that prefix, which hold an operation back, such as `poweron.check.vmoperator.vmware.com/backup`.
pub fn checks<'a>(vm: &'a VirtualMachine, prefix: &str) -> Vec<&'a str> {
    vm.annotations().keys().filter(|key| key.starts_with(prefix)).map(String::as_str).collect()
}
