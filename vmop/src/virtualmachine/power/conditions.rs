//! Conditions for the power state and restarts.

use api::conditions::{Condition, ERROR, INFO, WARNING, vmop as known};
use api::names::annotation;
use api::vmop::VirtualMachine;
use jiff::Timestamp;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use super::operation::{PowerOperation, SOFT_TIMEOUT, power_operation, restart_due, tools_running};
use super::state::{checks, power_word, wanted_power};
use crate::virtualmachine::condition_types;
use crate::virtualmachine::error::{Error, UNREACHABLE};
use crate::virtualmachine::step::PowerMode;

pub fn power_condition(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    now: Timestamp,
    stopped: Option<&Error>,
) -> Condition {
    let wanted = power_word(wanted_power(vm));
    match (stopped, vsphere_vm.power_state) {
        (Some(error), _) if vsphere_vm.power_state != Some(wanted_power(vm)) => {
            let severity = error.severity();
            let message = if severity == INFO {
                format!("The power state is not changed to {wanted} yet: {}", error.advised())
            } else {
                format!("The power state can't be changed to {wanted}: {}", error.advised())
            };
            Condition::is_false(condition_types::POWER, severity, error.reason(), message)
        }
        (_, None) => {
            let message =
                format!("vCenter reports that the VM is {}. Check its host", vsphere_vm.connection_state);
            Condition::is_unknown(condition_types::POWER, UNREACHABLE, message)
        }
        (_, Some(is)) if is == wanted_power(vm) => Condition::is_true(condition_types::POWER),
        (_, Some(is)) => power_pending(vm, vsphere_vm, is, now),
    }
}

/// Returns the condition for a power state change that isn't complete. The function is long because it is a table of cases.
fn power_pending(vm: &VirtualMachine, vsphere_vm: &Vm, is: PowerState, now: Timestamp) -> Condition {
    let (wanted, is_word) = (wanted_power(vm), power_word(is));
    let word = power_word(wanted);
    let checks = checks(vm, annotation::POWER_ON_CHECK);
    let pending =
        |severity, reason, message| Condition::is_false(condition_types::POWER, severity, reason, message);
    if wanted == PowerState::On && !checks.is_empty() {
        let message = format!(
            "The VM is {is_word}. Power-on is blocked by annotation {}. The component that added it must remove it",
            checks.join(", ")
        );
        return pending(INFO, known::POWER_ON_HELD_BACK, message);
    }
    if is == PowerState::Off && wanted == PowerState::Suspended {
        let message = "The VM is off, and only a running VM can be suspended. Power it on first".to_owned();
        return pending(INFO, known::POWERED_OFF, message);
    }
    match power_operation(vm, vsphere_vm, wanted, PowerMode::into_state(vm, wanted), now) {
        PowerOperation::ToolsNotRunning => {
            let (operation, field) = if wanted == PowerState::Suspended {
                ("suspend", "suspendMode")
            } else {
                ("power-off", "powerOffMode")
            };
            let message = format!(
                "The VM is {is_word}. A soft {operation} needs VMware Tools, which are not running in the guest. Start VMware Tools, or set {field} to trySoft or hard"
            );
            pending(WARNING, known::VIRTUAL_MACHINE_TOOLS_NOT_RUNNING, message)
        }
        PowerOperation::Guest(until) => {
            let then = match until {
                Some(_) => format!(
                    "; after {} minutes, VM Operator does it without the guest",
                    SOFT_TIMEOUT.as_mins()
                ),
                None => ". If this persists, check the guest, or set the mode to trySoft or hard".to_owned(),
            };
            let message = format!("Waiting for the guest to change the power state to {word}{then}");
            pending(INFO, known::WAITING_FOR_GUEST, message)
        }
        PowerOperation::Hard => pending(
            INFO,
            known::POWER_STATE_CHANGING,
            format!("The VM is {is_word}; its power state is being changed to {word}"),
        ),
    }
}

/// Returns a condition if a requested restart can't be done: its time is invalid, or a soft restart is due and VMware Tools
/// aren't running.
pub fn restart_condition(vm: &VirtualMachine, vsphere_vm: &Vm, now: jiff::Timestamp) -> Option<Condition> {
    let asked = vm.spec.next_restart_time.as_deref().filter(|time| !time.is_empty())?;
    if asked != "now" && asked.parse::<jiff::Timestamp>().is_err() {
        let message = format!(
            "spec.nextRestartTime {asked:?} is not a time. Use a time such as 2026-01-31T12:00:00Z, or now"
        );
        return Some(Condition::is_false(condition_types::RESTART, ERROR, known::INVALID_SPEC, message));
    }
    restart_due(vm, vsphere_vm, now)?;
    let unreachable =
        PowerMode::of(vm.spec.restart_mode.as_deref()) == PowerMode::Soft && !tools_running(vsphere_vm);
    (unreachable && vsphere_vm.power_state == Some(PowerState::On)).then(|| {
        let message = "A soft restart needs VMware Tools, which are not running in the guest. Start VMware Tools, or set restartMode to trySoft or hard";
        Condition::is_false(condition_types::RESTART, WARNING, known::VIRTUAL_MACHINE_TOOLS_NOT_RUNNING, message)
    })
}
