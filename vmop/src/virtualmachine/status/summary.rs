//! The conditions that `Ready` summarizes: prerequisites, creation, power state and address.

use api::conditions::{self, Condition, ERROR, INFO, WARNING, cause, vmop as known};
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use jiff::Timestamp;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use super::informational::{add_protected, informational_conditions, is_informational};
use super::outcome::{Outcome, StepProgress, describe_overdue};
use crate::probe::ProbeResult;
use crate::unmet::Unmet;
use crate::vcenter::describe_unavailable;
use crate::virtualmachine::condition_types;
use crate::virtualmachine::error::{Blocked, Error, UNREACHABLE};
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::needs::Needs;
use crate::virtualmachine::power::conditions::power_condition;
use crate::virtualmachine::power::state::{power_word, wanted_power};
use crate::virtualmachine::readiness::address_condition;

/// Returns all conditions without transition times. `Ready` is the first one.
pub fn all_conditions(
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    vsphere_vm: Option<&Vm>,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
    probe: Option<&ProbeResult>,
) -> Vec<Condition> {
    let creation = facts.and_then(|facts| facts.creation.as_ref());
    let mut all = match (vsphere_vm, facts.map(|facts| &facts.found)) {
        (Some(vsphere_vm), _) => build_existing_conditions(vm, vsphere_vm, facts, outcome),
        (None, Some(Found::Absent)) if creation.is_some() => {
            creation.map(|creation| build_missing_conditions(&creation.needs, outcome)).unwrap_or_default()
        }
        _ => build_stopped_conditions(vm, old, facts, outcome),
    };
    // A VM that can't be seen keeps its last `Ready`, as does a VM whose probe hasn't had a result since the start of this
    // program.
    let unasked = probe == Some(&ProbeResult::Unknown);
    let last = conditions::find(&old.conditions, conditions::READY)
        .filter(|last| vsphere_vm.is_none() || (unasked && probed(last)));
    let unavailable = matches!(facts.map(|facts| &facts.found), Some(Found::Unavailable(_))) && made(old);
    let ready = if unavailable {
        ready_of_unavailable(last, probe)
    } else {
        let summed = all.iter().filter(|condition| !is_informational(vm, &condition.type_));
        compute_ready(&summed.collect::<Vec<_>>(), vsphere_vm, last, outcome, probe)
    };
    all.insert(0, ready);
    if let Some(vsphere_vm) = vsphere_vm {
        all.extend(informational_conditions(vm, vsphere_vm, facts));
    }
    add_protected(vm, &mut all);
    all
}

/// Returns the conditions for an existing VM. All prerequisites are met, because the VM was created.
fn build_existing_conditions(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
) -> Vec<Condition> {
    let met = [
        known::VIRTUAL_MACHINE_PREREQ_READY,
        condition_types::CLASS,
        condition_types::IMAGE,
        condition_types::STORAGE,
        condition_types::NETWORK,
        condition_types::BOOTSTRAP,
        condition_types::PLACEMENT,
        known::VIRTUAL_MACHINE_CREATED,
    ];
    let mut all: Vec<_> = met.into_iter().map(Condition::is_true).collect();
    let now = facts.map_or(Timestamp::MIN, |facts| facts.now);
    all.push(match (&vsphere_vm.question, outcome) {
        (Some(question), _) => question_condition(vsphere_vm, question),
        (None, Outcome::Underway(StepProgress { overdue: Some(overdue), vsphere_vm: _ })) => {
            let message = describe_overdue(overdue);
            Condition::is_false(condition_types::POWER, WARNING, known::TASK_OVERDUE, message)
        }
        (None, outcome) => power_condition(vm, vsphere_vm, now, outcome.error()),
    });
    if wanted_power(vm) == PowerState::On {
        let conflict = facts.and_then(|facts| facts.runtime.address_conflict.as_deref());
        all.push(address_condition(vsphere_vm, conflict));
    }
    all
}

fn question_condition(vsphere_vm: &Vm, question: &str) -> Condition {
    let message = describe_question(vsphere_vm, question);
    Condition::is_false(condition_types::POWER, ERROR, known::QUESTION_PENDING, message)
}

/// Describes a question from vCenter, and how to answer it.
pub fn describe_question(vsphere_vm: &Vm, question: &str) -> String {
    let Vm { name, moref, .. } = vsphere_vm;
    format!(
        "vCenter asks about VM {name} ({}): {question:?}. It does not continue until the question is answered. Answer it in the vSphere Client, or with `govc vm.question -vm {name} -answer NUMBER`",
        moref.id()
    )
}

/// Returns a condition for each prerequisite, and one for the creation.
fn build_missing_conditions(needs: &Needs, outcome: &Outcome<'_>) -> Vec<Condition> {
    let Needs { class, image, storage, nics, bootstrap, placement } = needs;
    let condition = |type_: &str, unmet: Option<&Unmet>| match unmet {
        None => Condition::is_true(type_),
        Some(unmet) => unmet_condition(type_, unmet),
    };
    let prereq = class.as_ref().err().or(image.as_ref().err());
    vec![
        condition(known::VIRTUAL_MACHINE_PREREQ_READY, prereq),
        condition(condition_types::CLASS, class.as_ref().err()),
        condition(condition_types::IMAGE, image.as_ref().err()),
        condition(condition_types::STORAGE, storage.as_ref().err()),
        condition(condition_types::NETWORK, nics.as_ref().err()),
        condition(condition_types::BOOTSTRAP, bootstrap.as_ref().err()),
        condition(condition_types::PLACEMENT, placement.as_ref().err()),
        build_created_condition(needs, outcome),
    ]
}

fn build_created_condition(needs: &Needs, outcome: &Outcome<'_>) -> Condition {
    match outcome {
        Outcome::Stopped(Error::Blocked(_)) if needs.first_unmet().is_some() => Condition::is_false(
            known::VIRTUAL_MACHINE_CREATED,
            INFO,
            known::WAITING_FOR_PREREQUISITES,
            "Waiting for the prerequisites of the VM, which other conditions name",
        ),
        Outcome::Stopped(error) => stopped_by(error),
        Outcome::Underway(StepProgress { overdue: Some(overdue), vsphere_vm: _ }) => Condition::is_false(
            known::VIRTUAL_MACHINE_CREATED,
            WARNING,
            known::TASK_OVERDUE,
            describe_overdue(overdue),
        ),
        Outcome::Underway(_) | Outcome::Done(_) => Condition::is_false(
            known::VIRTUAL_MACHINE_CREATED,
            INFO,
            known::CLONING,
            "vCenter is cloning the VM",
        ),
    }
}

fn unmet_condition(type_: &str, unmet: &Unmet) -> Condition {
    let severity = if unmet.underway { INFO } else { ERROR };
    Condition::is_false(type_, severity, unmet.reason, unmet.message.clone())
}

/// Returns the conditions for a VM that wasn't found: the last known conditions, and the reason why it wasn't found.
fn build_stopped_conditions(
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
) -> Vec<Condition> {
    let Outcome::Stopped(error) = outcome else { return Vec::new() };
    let found = facts.map(|facts| &facts.found);
    if let Some(Found::Unavailable(vsphere_vm)) = found {
        return build_unreachable_conditions(old, vsphere_vm);
    }
    if matches!(found, Some(Found::Unknown(_))) && made(old) {
        return keep_last_conditions(vm, old, error);
    }
    let lost = matches!(found, Some(Found::Lost(_)));
    let is_replaced = |type_: &str| match type_ {
        conditions::READY | known::VIRTUAL_MACHINE_CREATED => true,
        condition_types::POWER | condition_types::ADDRESS => lost,
        type_ => lost && is_informational(vm, type_),
    };
    let mut all: Vec<_> = old.conditions.iter().filter(|old| !is_replaced(&old.type_)).cloned().collect();
    if let Error::Blocked(Blocked::Unmet(unmet)) = error {
        all.retain(|condition| condition.type_ != condition_types::PLACEMENT);
        all.push(unmet_condition(condition_types::PLACEMENT, unmet));
    }
    all.push(stopped_by(error));
    all
}

/// Returns the last known conditions. The power state condition is replaced only if a change is requested.
fn keep_last_conditions(vm: &VirtualMachine, old: &VirtualMachineStatus, error: &Error) -> Vec<Condition> {
    let wanted = power_word(wanted_power(vm));
    let asked = old.power_state.as_deref() != Some(wanted);
    let kept = old.conditions.iter().filter(|old| old.type_ != conditions::READY).cloned();
    kept.map(|condition| {
        if !asked || condition.type_ != condition_types::POWER {
            return condition;
        }
        let message = format!("The power state can't be changed to {wanted}: {}", error.advised());
        Condition::is_false(condition_types::POWER, WARNING, error.reason(), message)
    })
    .collect()
}

/// Returns the last known conditions for a VM that vCenter can't reach, and the condition that reports this.
fn build_unreachable_conditions(old: &VirtualMachineStatus, vsphere_vm: &Vm) -> Vec<Condition> {
    let type_ = if made(old) { condition_types::POWER } else { known::VIRTUAL_MACHINE_CREATED };
    let mut all: Vec<_> =
        old.conditions.iter().filter(|old| old.type_ != conditions::READY).cloned().collect();
    let unknown = Condition::is_unknown(type_, UNREACHABLE, describe_unavailable(vsphere_vm));
    match all.iter_mut().find(|condition| condition.type_ == type_) {
        Some(condition) => *condition = unknown,
        None => all.push(unknown),
    }
    all
}

/// Returns `Ready` for a VM that vCenter can't reach. `Ready` keeps its value, because a change could remove the address of a
/// working cluster endpoint. Only the probe can change `Ready`, because the probe dials the guest directly.
fn ready_of_unavailable(last: Option<&Condition>, probe: Option<&ProbeResult>) -> Condition {
    match (probe, last) {
        (Some(ProbeResult::NoAnswer(why)), _) => probe_failed(why),
        (Some(ProbeResult::Answers), Some(last)) if probed(last) => Condition::is_true(conditions::READY),
        (_, Some(last)) => last.clone(),
        (_, None) => Condition::is_unknown(conditions::READY, UNREACHABLE, "vCenter cannot reach the VM"),
    }
}

fn probe_failed(why: &str) -> Condition {
    let message = format!("The readiness probe fails: {why}");
    Condition::is_false(conditions::READY, INFO, known::NOT_READY, message)
}

/// Returns true if `Ready` was the probe's result, which means that all other conditions were met.
fn probed(last: &Condition) -> bool {
    last.status == conditions::TRUE || last.reason.as_deref() == Some(known::NOT_READY)
}

/// Returns true if the VM existed when the status was last written.
fn made(old: &VirtualMachineStatus) -> bool {
    conditions::holds(&old.conditions, known::VIRTUAL_MACHINE_CREATED)
}

fn stopped_by(error: &Error) -> Condition {
    Condition::is_false(known::VIRTUAL_MACHINE_CREATED, error.severity(), error.reason(), error.advised())
}

/// Computes `Ready`: the first unmet condition, the error that stopped the reconcile, the powered-off state, or the probe's
/// result, in this order.
///
/// `last` is the previous `Ready`, if the VM or its probe can't be observed now.
fn compute_ready(
    all: &[&Condition],
    vsphere_vm: Option<&Vm>,
    last: Option<&Condition>,
    outcome: &Outcome<'_>,
    probe: Option<&ProbeResult>,
) -> Condition {
    if let Some(cause) = cause::first(all.iter().copied(), &[]) {
        let mut sum = cause.clone();
        sum.type_ = conditions::READY.into();
        sum.last_transition_time = None;
        return sum;
    }
    if let (Some(_), Outcome::Stopped(error)) = (vsphere_vm, outcome) {
        let severity = if error.severity() == INFO { INFO } else { WARNING };
        return Condition::is_false(conditions::READY, severity, error.reason(), error.advised());
    }
    let off = vsphere_vm.is_some_and(|vsphere_vm| vsphere_vm.power_state != Some(PowerState::On));
    match probe {
        _ if off => Condition::is_false(
            conditions::READY,
            INFO,
            known::POWERED_OFF,
            "The VM is powered off, as its spec requests",
        ),
        _ if last.is_some() => last.cloned().unwrap_or_default(),
        None | Some(ProbeResult::Answers) => Condition::is_true(conditions::READY),
        Some(ProbeResult::Unknown) => Condition::is_unknown(
            conditions::READY,
            known::UNKNOWN,
            "The readiness probe has not answered yet",
        ),
        Some(ProbeResult::NoAnswer(why)) => probe_failed(why),
    }
}
