//! The power state that the spec requests.

use api::vmop::{POWERED_OFF, POWERED_ON, SUSPENDED, VirtualMachine};
use kube::ResourceExt;
use vsphere::inventory::PowerState;

/// Returns true if the spec requests a running VM, which is the default.
pub fn wants_power_on(vm: &VirtualMachine) -> bool {
    vm.spec.power_state.as_deref().is_none_or(|state| state.is_empty() || state == POWERED_ON)
}

/// Returns the power state that the spec requests.
pub fn wanted_power(vm: &VirtualMachine) -> PowerState {
    if wants_power_on(vm) {
        PowerState::On
    } else if vm.spec.power_state.as_deref() == Some(SUSPENDED) {
        PowerState::Suspended
    } else {
        PowerState::Off
    }
}

/// Returns the API's name for a power state.
pub fn power_word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => POWERED_ON,
        PowerState::Off => POWERED_OFF,
        PowerState::Suspended => SUSPENDED,
    }
}

/// Returns the annotations with this prefix, which block an operation, such as `poweron.check.vmoperator.vmware.com/backup`.
pub fn checks<'a>(vm: &'a VirtualMachine, prefix: &str) -> Vec<&'a str> {
    vm.annotations().keys().filter(|key| key.starts_with(prefix)).map(String::as_str).collect()
}
