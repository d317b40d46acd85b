//! Computes a WCPMachine's status, without I/O.
//!
//! The status quotes the first cause that blocks the VirtualMachine, so that readers don't have to look at the VirtualMachine.

use api::capw::{Initialization, MachineAddress, WCPMachine, WCPMachineStatus, vm_status};
use api::conditions::severity::Severity;
use api::conditions::{self, cause, contract, vcenter, vmop, wcp_machine as reasons};
use api::names::label;
use api::vmop::{POWERED_ON, VirtualMachine, VirtualMachineStatus, vm_phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::events::{Events, describe_object};
use kit::reconcile::ReconcileOutcome;
use kit::status::condition;
use kube::{Resource, ResourceExt};

use super::act::Done;
use super::first_boot::{FirstBoot, first_boot};
use super::gather::Facts;
use super::identity::whose;
use super::plan::failure_domain;
use crate::error::Error;
use crate::upstream::{self, NameAvailability, paused_condition};

/// The state of the machine as one word, with a reason and a message.
struct Verdict {
    vm_status: &'static str,
    provisioned: bool,
    reason: String,
    message: String,
}

impl Verdict {
    fn not_yet(vm_status: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { vm_status, provisioned: false, reason: reason.to_owned(), message: message.into() }
    }

    /// Replaces the verdict with the guest's first-boot report, if there is one and the VM is powered on but not ready.
    fn or_of_guest(self, boot: Option<&FirstBoot>) -> Self {
        match boot {
            Some(boot) if self.vm_status == vm_status::POWERED_ON => {
                Self::not_yet(self.vm_status, boot.reason, boot.message.clone())
            }
            _ => self,
        }
    }
}

/// Computes the status from the facts and the outcome.
pub fn status(
    wcp_machine: &WCPMachine,
    facts: &Facts,
    outcome: &ReconcileOutcome<Done, Error>,
) -> WCPMachineStatus {
    let old = wcp_machine.status.clone().unwrap_or_default();
    let vm = match outcome {
        ReconcileOutcome::Done(Done::Asked(vm)) => Some(&**vm),
        // Another owner's VirtualMachine doesn't describe this machine.
        _ => facts.vm.as_deref().filter(|vm| whose(wcp_machine, Some(vm)) == NameAvailability::Free),
    };
    let seen = vm.and_then(|vm| vm.status.as_ref());
    let boot = vm.and_then(|vm| first_boot(vm, facts.machine.as_deref()));
    let verdict = verdict(wcp_machine, vm, outcome, &old).or_of_guest(boot.as_ref());
    let provisioned_once =
        verdict.provisioned || old.initialization.as_ref().and_then(|it| it.provisioned).unwrap_or(false);
    let conditions = conditions(wcp_machine, facts, &verdict, boot.as_ref());
    let known = |new: Option<String>, old: &Option<String>| new.or_else(|| old.clone());
    let ip = seen.and_then(|seen| seen.vm_ip.clone());
    WCPMachineStatus {
        initialization: provisioned_once.then_some(Initialization { provisioned: Some(true) }),
        ready: Some(verdict.provisioned),
        vm_id: known(seen.and_then(|seen| seen.bios_uuid.clone()), &old.vm_id),
        addresses: vm.map_or_else(|| old.addresses.clone(), addresses),
        vm_ip: if vm.is_some() { ip } else { old.vm_ip },
        vm_status: Some(verdict.vm_status.to_owned()),
        failure_domain: known(placed(wcp_machine, facts, seen), &old.failure_domain),
        conditions,
        observed_generation: wcp_machine.meta().generation,
    }
}

/// Publishes events when `VirtualMachineProvisioned` changes, or when `Ready` reports a bootstrap failure. In all other
/// cases, `Ready` only repeats `VirtualMachineProvisioned`.
pub fn publish_changes(events: &Events, wcp_machine: &WCPMachine, old: &[Condition], new: &[Condition]) {
    let of_guest = |c: &Condition| c.type_ == contract::READY && c.reason == vmop::BOOTSTRAP_FAILED;
    let of_vm = |conditions: &[Condition]| -> Vec<Condition> {
        let counts = |c: &&Condition| c.type_ == contract::VIRTUAL_MACHINE_PROVISIONED || of_guest(c);
        conditions.iter().filter(counts).cloned().collect()
    };
    let expected = [
        contract::PROVISIONED,
        contract::PROVISIONING,
        contract::DELETING,
        contract::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY,
        reasons::WAITING_FOR_OWNER_MACHINE,
        reasons::WAITING_FOR_BOOTSTRAP_DATA,
        reasons::POWERING_ON,
        reasons::WAITING_FOR_NETWORK_ADDRESS,
        reasons::WAITING_FOR_BIOS_UUID,
    ];
    events.transitions(wcp_machine, &of_vm(old), &of_vm(new), |c| !expected.contains(&c.reason.as_str()));
}

/// Returns the conditions. A running machine with a first-boot report is provisioned but not ready.
fn conditions(
    wcp_machine: &WCPMachine,
    facts: &Facts,
    verdict: &Verdict,
    boot: Option<&FirstBoot>,
) -> Vec<Condition> {
    let generation = wcp_machine.meta().generation;
    let Verdict { vm_status: _, provisioned, reason, message } = verdict;
    let ready = if let Some(boot) = boot.filter(|_| *provisioned) {
        condition(contract::READY, false, boot.reason, &boot.message, generation)
    } else {
        let reason = if *provisioned { contract::READY } else { reason };
        condition(contract::READY, *provisioned, reason, message, generation)
    };
    vec![
        ready,
        condition(contract::VIRTUAL_MACHINE_PROVISIONED, *provisioned, reason, message, generation),
        paused_condition(facts.paused, generation),
    ]
}

fn verdict(
    wcp_machine: &WCPMachine,
    vm: Option<&VirtualMachine>,
    outcome: &ReconcileOutcome<Done, Error>,
    old: &WCPMachineStatus,
) -> Verdict {
    if wcp_machine.meta().deletion_timestamp.is_some() && !matches!(outcome, ReconcileOutcome::Paused) {
        return deleting(vm, outcome.error());
    }
    let pending = if vm.is_some() { vm_status::CREATED } else { vm_status::PENDING };
    match outcome {
        ReconcileOutcome::Done(Done::Asked(vm)) => of_vm(wcp_machine, vm),
        ReconcileOutcome::Done(Done::Lost) => {
            Verdict::not_yet(vm_status::NOT_FOUND, reasons::VM_LOST, lost(wcp_machine))
        }
        ReconcileOutcome::Failed(Error::Invalid(invalid)) => {
            Verdict::not_yet(vm_status::ERROR, invalid.reason(), invalid.to_string())
        }
        ReconcileOutcome::Failed(Error::Waiting(waiting)) => {
            Verdict::not_yet(pending, waiting.reason(), waiting.to_string())
        }
        ReconcileOutcome::Failed(error @ Error::Api { .. }) => {
            Verdict::not_yet(vm_status::ERROR, reasons::VM_CREATION_FAILED, error.to_string())
        }
        // Nothing was done, so the state is unchanged.
        ReconcileOutcome::Paused | ReconcileOutcome::Failed(Error::Behind(_)) => as_it_was(old),
    }
}

/// Returns the verdict during deletion: the object that the deletion waits for, or the reason why the VM can't be deleted or
/// why its deletion is held.
fn deleting(vm: Option<&VirtualMachine>, error: Option<&Error>) -> Verdict {
    let seen =
        vm.and_then(|vm| vm.status.as_ref()).map(|seen| seen.conditions.as_slice()).unwrap_or_default();
    let halted = conditions::find(seen, conditions::READY).filter(|ready| {
        [vmop::DELETION_FAILED, vmop::DELETION_HELD].map(Some).contains(&ready.reason.as_deref())
    });
    if let (Some(cause), Some(vm)) = (halted, vm) {
        return blocked_by(vm_status::DELETING, cause, &describe_object(vm));
    }
    let message = error.map(ToString::to_string).unwrap_or_default();
    Verdict::not_yet(vm_status::DELETING, contract::DELETING, message)
}

fn as_it_was(old: &WCPMachineStatus) -> Verdict {
    let before = kit::status::find(&old.conditions, contract::VIRTUAL_MACHINE_PROVISIONED);
    let word = |of: &str| {
        let all = [
            vm_status::NOT_FOUND,
            vm_status::CREATED,
            vm_status::POWERED_ON,
            vm_status::READY,
            vm_status::DELETING,
            vm_status::ERROR,
        ];
        all.into_iter().find(|word| *word == of)
    };
    Verdict {
        vm_status: old.vm_status.as_deref().and_then(word).unwrap_or(vm_status::PENDING),
        provisioned: before.is_some_and(|before| before.status == conditions::TRUE),
        reason: before.map_or(contract::PAUSED.to_owned(), |before| before.reason.clone()),
        message: before.map(|before| before.message.clone()).unwrap_or_default(),
    }
}

fn lost(wcp_machine: &WCPMachine) -> String {
    let uuid = wcp_machine.spec.provider_id.as_deref().unwrap_or_default();
    format!(
        "the VirtualMachine of {} ({uuid}) no longer exists and will not be recreated. {}",
        describe_object(wcp_machine),
        replacement(wcp_machine)
    )
}

fn machine_of(wcp_machine: &WCPMachine) -> &str {
    upstream::owner(wcp_machine, "Machine").unwrap_or_default()
}

/// Describes how a lost machine is replaced and what the user can do.
fn replacement(wcp_machine: &WCPMachine) -> String {
    let machine = machine_of(wcp_machine);
    let replaced =
        format!("A MachineHealthCheck replaces Machine {machine}; without one, delete Machine {machine}");
    if !wcp_machine.labels().contains_key(label::CONTROL_PLANE) {
        return replaced;
    }
    format!(
        "If it was the only control plane node, nothing replaces it: restore the VM in vCenter from a backup, or delete the cluster. Otherwise: {replaced}"
    )
}

/// Returns the verdict for an existing VirtualMachine: ready, the first cause that blocks it, or the next missing step.
fn of_vm(wcp_machine: &WCPMachine, vm: &VirtualMachine) -> Verdict {
    let name = describe_object(vm);
    let default = VirtualMachineStatus::default();
    let seen = vm.status.as_ref().unwrap_or(&default);
    let on = seen.power_state.as_deref() == Some(POWERED_ON);
    let made = seen.phase.as_deref() == Some(vm_phase::CREATED);
    let blocking = blocking(seen);
    if let Some(lost) = blocking.filter(|cause| cause.reason.as_deref() == Some(vmop::VIRTUAL_MACHINE_LOST)) {
        let message = format!("{}. {}", text_of(lost, &name), replacement(wcp_machine));
        return Verdict::not_yet(vm_status::NOT_FOUND, vmop::VIRTUAL_MACHINE_LOST, message);
    }
    if made && on && seen.vm_ip.is_some() && seen.bios_uuid.is_some() {
        // If vCenter is unreachable, the VM presumably still runs. The Node's conditions may say more.
        let unseen = blocking.filter(|cause| cause.reason.as_deref() == Some(vcenter::UNREACHABLE));
        let message = unseen.map(|cause| text_of(cause, &name)).unwrap_or_default();
        let reason = contract::PROVISIONED.to_owned();
        return Verdict { vm_status: vm_status::READY, provisioned: true, reason, message };
    }
    let stage = match (made, on) {
        (false, _) => vm_status::PENDING,
        (true, false) => vm_status::CREATED,
        (true, true) => vm_status::POWERED_ON,
    };
    let (reason, next) = match (made, on, seen.vm_ip.is_some()) {
        (false, ..) => (contract::PROVISIONING, "is being created"),
        (_, false, _) => (reasons::POWERING_ON, "is not powered on"),
        (.., false) => (reasons::WAITING_FOR_NETWORK_ADDRESS, "has no address yet"),
        _ => (reasons::WAITING_FOR_BIOS_UUID, "has not reported a BIOS UUID yet. This needs no action"),
    };
    match blocking {
        Some(cause) if !made && cause::of_condition(cause) == Severity::Error => {
            blocked_by(vm_status::ERROR, cause, &name)
        }
        Some(cause) if is_obstacle(cause, made) => blocked_by(stage, cause, &name),
        // Not blocked: Cluster API's reason for the stage, with the VM operator's message.
        Some(cause) => Verdict { reason: reason.to_owned(), ..blocked_by(stage, cause, &name) },
        None => Verdict::not_yet(stage, reason, format!("{name} {next}")),
    }
}

/// Returns true if the cause is a failure. Until the VM is created (`made` is false), an unmet precondition counts as well.
fn is_obstacle(cause: &conditions::Condition, made: bool) -> bool {
    cause::of_condition(cause).is_failing() || (!made && cause.type_ != vmop::VIRTUAL_MACHINE_CREATED)
}

/// Returns the highest-ranked condition that explains why the VM doesn't run. Guest conditions are skipped, because the guest
/// only runs after the VM.
fn blocking(seen: &VirtualMachineStatus) -> Option<&conditions::Condition> {
    let of_the_guest =
        [vmop::GUEST_CUSTOMIZATION, vmop::GUEST_BOOTSTRAP, vmop::VIRTUAL_MACHINE_TOOLS, conditions::READY];
    cause::first(&seen.conditions, &of_the_guest)
}

/// Returns a verdict that quotes the cause. `name` is the object that reports the cause.
fn blocked_by(vm_status: &'static str, cause: &conditions::Condition, name: &str) -> Verdict {
    let reason = cause.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or(&cause.type_);
    Verdict::not_yet(vm_status, reason, text_of(cause, name))
}

fn text_of(cause: &conditions::Condition, name: &str) -> String {
    match cause.message.as_deref().unwrap_or_default() {
        "" => name.to_owned(),
        text if text.contains(name) => text.to_owned(),
        text => format!("{name}: {text}"),
    }
}

fn addresses(vm: &VirtualMachine) -> Vec<MachineAddress> {
    let address = |type_: &str, address: String| MachineAddress { type_: type_.to_owned(), address };
    // Only the first endpoint address is used, not those that only the guest reports.
    let Some(ip) = vm.status.as_ref().and_then(|status| status.endpoint_addresses.first().cloned()) else {
        return Vec::new();
    };
    vec![address("InternalIP", ip), address("Hostname", vm.name_any())]
}

fn placed(wcp_machine: &WCPMachine, facts: &Facts, seen: Option<&VirtualMachineStatus>) -> Option<String> {
    let asked = || {
        facts.machine.as_deref().and_then(|machine| failure_domain(wcp_machine, machine)).map(str::to_owned)
    };
    seen.and_then(|seen| seen.zone.clone()).or_else(asked)
}

#[cfg(test)]
mod tests;
