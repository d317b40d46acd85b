//! The status of a VirtualMachine that is being deleted. `Ready` shows what the deletion waits for; the rest is left unchanged.

use api::conditions::{Condition, ERROR, INFO, READY, WARNING, vmop as known};
use api::names::finalizer;
use api::vmop::{VirtualMachine, VirtualMachineStatus, vm_phase};

use crate::virtualmachine::error::{Blocked, Error};

/// Returns the status of a VirtualMachine whose VM can't be destroyed yet.
pub fn blocked_status(vm: &VirtualMachine, error: &Error) -> VirtualMachineStatus {
    let severity = match error {
        Error::Vcenter(error) if error.retryable() => WARNING,
        Error::Blocked(Blocked::Unavailable(_)) => WARNING,
        Error::Unsettled(_) | Error::Guest(..) | Error::Draining(_) => INFO,
        _ => ERROR,
    };
    let reason = if severity == INFO { known::DELETING } else { known::DELETION_FAILED };
    build_deletion_status(vm, Condition::is_false(READY, severity, reason, error.advised()))
}

/// Returns the status of a VirtualMachine that only has finalizers of other controllers, or `None` without such finalizers.
/// Except for the phase and `Ready`, the status keeps its last values.
pub fn let_go_status(vm: &VirtualMachine) -> Option<VirtualMachineStatus> {
    let finalizers = finalizer::strangers(&vm.metadata)?;
    let message = format!(
        "The VM is gone from vCenter. Deletion of the object is blocked by finalizer {finalizers}, which this controller does not own. Its owner must remove it"
    );
    Some(build_deletion_status(vm, Condition::is_false(READY, WARNING, known::DELETION_HELD, message)))
}

fn build_deletion_status(vm: &VirtualMachine, ready: Condition) -> VirtualMachineStatus {
    let mut status = vm.status.clone().unwrap_or_default();
    status.phase = Some(vm_phase::DELETING.to_owned());
    status.conditions.retain(|condition| condition.type_ != READY);
    status.conditions.insert(0, ready);
    status
}
