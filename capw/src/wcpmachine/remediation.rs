//! Annotates Machines for remediation if their VM is lost. The annotation makes Cluster API's MachineHealthCheck replace such
//! Machines at once, within the limits of the MachineHealthCheck, without waiting for the node to become unhealthy.

use api::capi::Machine;
use api::conditions::{self, metav1, vmop};
use api::names::annotation;
use api::vmop::VirtualMachine;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::json;

use super::act::Done;
use super::context::Context;
use crate::error::Error;

/// The maximum length of the annotated cause, in characters.
const LONGEST_CAUSE: usize = 1024;

/// Returns true if the VM operator has verified that vCenter lost the VM.
pub fn is_lost(vm: &VirtualMachine) -> bool {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::find(conditions, vmop::VIRTUAL_MACHINE_CREATED)
        .is_some_and(|created| created.reason.as_deref() == Some(vmop::VIRTUAL_MACHINE_LOST))
}

/// Returns true if the VM is lost and the Machine is neither annotated nor being deleted yet.
fn is_due(done: Option<&Done>, machine: &Machine) -> bool {
    let lost = match done {
        Some(Done::Lost) => true,
        Some(Done::Asked(vm)) => is_lost(vm),
        None => false,
    };
    let marked = machine.annotations().contains_key(annotation::REMEDIATE_MACHINE);
    lost && !marked && machine.metadata.deletion_timestamp.is_none()
}

/// Annotates the Machine for remediation if its VM is lost. The annotation only has an effect if a MachineHealthCheck exists.
///
/// The annotation's value is the cause, because the conditions are deleted with the WCPMachine. Cluster API ignores the value.
pub async fn request(
    done: Option<&Done>,
    machine: Option<&Machine>,
    status: &[Condition],
    ctx: &Context,
) -> Result<(), Error> {
    let Some(machine) = machine.filter(|machine| is_due(done, machine)) else { return Ok(()) };
    let mark = json!({ "metadata": { "annotations": { annotation::REMEDIATE_MACHINE: cause(status) } } });
    ctx.api.patch(machine, mark).await.map_err(Error::api(machine, "marking"))?;
    Ok(())
}

/// Returns the `Ready` condition's reason and message as `REASON: MESSAGE` in one line.
fn cause(status: &[Condition]) -> String {
    let ready = metav1::find(status, conditions::READY);
    let cause = ready.map(|ready| format!("{}: {}", ready.reason, ready.message)).unwrap_or_default();
    bounds::printable(&cause, LONGEST_CAUSE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::conditions::{Condition, ERROR};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixtures;

    fn asked(reason: &str) -> Done {
        let mut vm = VirtualMachine::default();
        let created = Condition::is_false(vmop::VIRTUAL_MACHINE_CREATED, ERROR, reason, "");
        vm.status.get_or_insert_default().conditions = vec![created];
        Done::Asked(Arc::new(vm))
    }

    #[test]
    fn the_mark_contains_the_cause_in_one_line() {
        let ready = json!({
            "type": "Ready", "status": "False", "reason": "VirtualMachineLost", "message": "it was removed\nby hand",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let ready: k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition =
            serde_json::from_value(ready).unwrap();
        assert_eq!(cause(&[ready]), "VirtualMachineLost: it was removed by hand");
        assert_eq!(cause(&[]), "");
    }

    #[test]
    fn a_machine_is_replaced_when_its_vm_is_lost_and_not_when_nobody_knows() {
        let machine = fixtures::machine(false);
        for (done, due) in [
            (Some(Done::Lost), true),
            (Some(asked(vmop::VIRTUAL_MACHINE_LOST)), true),
            (Some(asked(conditions::vcenter::UNREACHABLE)), false),
            (None, false),
        ] {
            assert_eq!(is_due(done.as_ref(), &machine), due);
        }
        let mut marked = machine.clone();
        marked.annotations_mut().insert(annotation::REMEDIATE_MACHINE.to_owned(), String::new());
        assert!(!is_due(Some(&Done::Lost), &marked), "once is enough");
        let mut going = machine;
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(!is_due(Some(&Done::Lost), &going));
    }
}
