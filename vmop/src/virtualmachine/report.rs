//! Writes the status of VirtualMachines, records events and decides when to requeue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::conditions::{ERROR, INFO};
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use jiff::{SignedDuration, Timestamp};
use kit::Next;
use kit::retry::REQUEUE_SOON;
use kube::ResourceExt;
use vsphere::{AwaitedTask, Vm, awaited_task};

use super::bootstrap::report::report_due;
use super::carry_out::object::note_pause;
use super::context::Context;
use super::delete::Deletion;
use super::error::{Error, UNSETTLED};
use super::events;
use super::facts::Facts;
use super::identity::find::Found;
use super::identity::uuids::parse_identity;
use super::power::operation::next_look;
use super::status::{
    Outcome, StepProgress, blocked_status, compute_status, describe_overdue, describe_question,
    let_go_status, paused_status,
};
use super::throttle::{WAITS, can_wait, quiet_after_error, quiet_while_booting};
use crate::caches::held;
use crate::pause;

/// The requeue interval for a VM whose address belongs to another VM.
const CONTESTED: SignedDuration = SignedDuration::from_mins(1);
/// The requeue interval for a VM that has just lost its own address to another VM.
const JUST_CONTESTED: SignedDuration = SignedDuration::from_secs(2);

/// The interval between two checks of a slow step.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time that a clone usually takes.
const USUAL_CLONE: SignedDuration = SignedDuration::from_mins(15);
/// The longest time that any other task usually takes.
const USUAL_CHANGE: SignedDuration = SignedDuration::from_mins(2);
/// The time after which the status of a deleted VirtualMachine says which vCenter task the deletion waits for.
const SLOW_DELETION: SignedDuration = SignedDuration::from_secs(20);

/// The outcome of carrying out a plan.
pub struct PlanResult {
    /// The VM if it was created or changed, or the error.
    pub result: Result<Option<Arc<Vm>>, Error>,
    /// True if a status was written meanwhile, so that the caller's copy of the VirtualMachine is outdated.
    pub reported: bool,
}

/// Writes the final status of a reconcile if it changed and can't wait, and returns when to requeue.
pub async fn report_attempt(
    vm: &VirtualMachine,
    facts: &Facts,
    attempt: PlanResult,
    ctx: &Context,
) -> Result<Next, Error> {
    let PlanResult { result, reported } = attempt;
    let again = reported || facts.changes_nics();
    let quiet = match &result {
        Err(error) => quiet_after_error(vm, error, facts.now).map(|wait| wait.min(UNSETTLED)),
        Ok(vsphere_vm) => quiet_while_booting(vm, vsphere_vm.as_deref(), facts).filter(|_| !again),
    };
    if let Some(wait) = quiet
        && !ctx.status_throttle.admit(Instant::now())
    {
        return Ok(Next::After(wait));
    }
    report(vm, Some(facts), &Outcome::of(&result), ctx).await?;
    let vsphere_vm = result?;
    // This copy of the object doesn't contain a status that was written meanwhile. Requeue to compare with that status.
    Ok(if again { Next::After(REQUEUE_SOON) } else { next(vm, vsphere_vm.as_deref(), facts) })
}

/// Returns when to requeue the VM, unless an event does so earlier.
fn next(vm: &VirtualMachine, changed: Option<&Vm>, facts: &Facts) -> Next {
    let vsphere_vm = match (changed, &facts.found) {
        (Some(vsphere_vm), _) => vsphere_vm,
        (None, Found::Ours(vsphere_vm)) => vsphere_vm,
        _ => return Next::OnChange,
    };
    let overdue = report_due(vm, vsphere_vm, facts.runtime.report_timeout, facts.now)
        .map(|due| due.duration_since(facts.now))
        .filter(SignedDuration::is_positive);
    let contested = facts.runtime.address_conflict.as_ref().map(|_| contested_interval(vm));
    match next_look(vm, vsphere_vm, facts.now).into_iter().chain(overdue).chain(contested).min() {
        Some(wait) => {
            Next::After(Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(100)))
        }
        None => Next::OnChange,
    }
}

/// Returns when to requeue a VM whose address belongs to another VM.
///
/// The release of an address enqueues only some of the VirtualMachines that wait for the address, and only those whose status
/// already says that they wait. A VM that has just lost its own address is therefore requeued soon.
fn contested_interval(vm: &VirtualMachine) -> SignedDuration {
    if held(vm).is_empty() { CONTESTED } else { JUST_CONTESTED }
}

/// Waits for `step`. If the step takes long, writes a status for the outcome `meanwhile`, and returns true together with the
/// step's result.
pub async fn report_if_slow<T>(
    step: &mut (impl Future<Output = T> + Unpin),
    vm: &VirtualMachine,
    facts: Option<&Facts>,
    meanwhile: &Outcome<'_>,
    ctx: &Context,
) -> Result<(T, bool), Error> {
    for (wait, all) in WAITS {
        if let Ok(result) = tokio::time::timeout(wait, &mut *step).await {
            return Ok((result, false));
        }
        if all || ctx.status_throttle.admit(Instant::now()) {
            break;
        }
    }
    report(vm, facts, meanwhile, ctx).await?;
    loop {
        if let Ok(result) = tokio::time::timeout(LOOK_INTERVAL, &mut *step).await {
            return Ok((result, true));
        }
        // The operation in vCenter continues even if the API server fails.
        if let Some(facts) = facts
            && let Err(error) = Box::pin(report_hold_up(vm, facts, ctx)).await
        {
            tracing::debug!(%error, "cannot report what holds the VM up");
        }
    }
}

/// Reports what delays a slow step: a question from vCenter, or a task that takes longer than usual. If the VirtualMachine was
/// deleted meanwhile, reports that the deletion waits for the step.
async fn report_hold_up(vm: &VirtualMachine, facts: &Facts, ctx: &Context) -> Result<(), Error> {
    let Some(current) = ctx.caches.vms.get(vm.metadata.namespace.as_deref(), &vm.name_any()) else {
        return Ok(());
    };
    if current.metadata.uid != vm.metadata.uid {
        return Ok(());
    }
    let vsphere_vm = shown_vm(facts, ctx);
    let question = vsphere_vm.as_deref().and_then(|shown| Some((shown, shown.question.as_deref()?)));
    let awaited = awaited_task();
    if current.metadata.deletion_timestamp.is_some() {
        let message = match (question, &awaited) {
            (Some((shown, question)), _) => describe_question(shown, question),
            (None, Some(task)) if is_overdue(task, facts) => describe_overdue(task),
            (None, Some(AwaitedTask { task, since })) => {
                format!("vCenter has worked on {} since {since:.0}", task.id())
            }
            (None, None) => "an earlier change of the VM has not ended".to_owned(),
        };
        let waits = Error::Unsettled(format!("The deletion waits for an operation in vCenter: {message}"));
        return write(&current, blocked_status(&current, &waits), |severity| severity == ERROR, ctx).await;
    }
    let overdue = awaited.filter(|task| is_overdue(task, facts));
    if question.is_none() && overdue.is_none() {
        return Ok(());
    }
    let progress = StepProgress { vsphere_vm: vsphere_vm.as_deref(), overdue };
    report(&current, Some(facts), &Outcome::Underway(progress), ctx).await
}

/// Returns the VM that is being changed or created, in its current inventory state.
fn shown_vm(facts: &Facts, ctx: &Context) -> Option<Arc<Vm>> {
    match &facts.found {
        Found::Ours(vsphere_vm) => Some(ctx.provider.latest(Arc::clone(vsphere_vm))),
        Found::Absent => {
            let vcenter = ctx.provider.vcenter().ok()?;
            vcenter.inventory.by_uuid(facts.identity.instance).present()
        }
        _ => None,
    }
}

/// Returns true if the task takes longer than usual. A clone copies disks, which takes minutes; other tasks take seconds.
fn is_overdue(awaited: &AwaitedTask, facts: &Facts) -> bool {
    let usual = if matches!(facts.found, Found::Absent) { USUAL_CLONE } else { USUAL_CHANGE };
    Timestamp::now().duration_since(awaited.since) > usual
}

/// Reports the outcome of a reconcile, or the step that the reconcile waits for. Errors that don't concern the status aren't
/// reported.
pub async fn report(
    vm: &VirtualMachine,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
    ctx: &Context,
) -> Result<(), Error> {
    if let Outcome::Stopped(error) = outcome
        && !error.concerns_status()
    {
        return Ok(());
    }
    write(vm, compute_status(vm, facts, outcome), |severity| severity != INFO, ctx).await
}

/// Waits for a deletion. If the deletion takes long, the status shows the vCenter task that the deletion waits for, or
/// vCenter's question.
pub async fn report_slow_deletion(
    deletion: &mut (impl Future<Output = Result<Deletion, Error>> + Unpin),
    vm: &VirtualMachine,
    ctx: &Context,
) -> Result<Deletion, Error> {
    let mut reported = None;
    loop {
        if let Ok(ended) = tokio::time::timeout(LOOK_INTERVAL, &mut *deletion).await {
            return ended;
        }
        let Some(awaited) = awaited_task() else { continue };
        let age = Timestamp::now().duration_since(awaited.since);
        if age < SLOW_DELETION {
            continue;
        }
        let message = match deleted_vm(vm, ctx) {
            Some(shown) if shown.question.is_some() => {
                describe_question(&shown, shown.question.as_deref().unwrap_or_default())
            }
            _ if age > USUAL_CHANGE => describe_overdue(&awaited),
            _ => format!("vCenter has worked on {} since {:.0}", awaited.task.id(), awaited.since),
        };
        if reported.as_ref() != Some(&message) {
            let waits =
                Error::Unsettled(format!("The deletion waits for an operation in vCenter: {message}"));
            if let Err(error) = write(vm, blocked_status(vm, &waits), |severity| severity == ERROR, ctx).await
            {
                tracing::debug!(%error, "cannot report what the deletion waits for");
            }
            reported = Some(message);
        }
    }
}

/// Returns the VM of a VirtualMachine that is being deleted.
fn deleted_vm(vm: &VirtualMachine, ctx: &Context) -> Option<Arc<Vm>> {
    let identity = parse_identity(vm).ok()??;
    ctx.provider.vcenter().ok()?.inventory.by_uuid(identity.instance).present()
}

/// Writes the status of an object that is being deleted, and returns when to requeue the object.
pub async fn report_deletion(vm: &VirtualMachine, deletion: Deletion, ctx: &Context) -> Result<Next, Error> {
    let (status, result) = match deletion {
        Deletion::Done => (None, Ok(Next::OnChange)),
        Deletion::LetGo => (let_go_status(vm), Ok(Next::OnChange)),
        Deletion::Blocked(error) => (error.concerns_status().then(|| blocked_status(vm, &error)), Err(error)),
    };
    if let Some(status) = status {
        write(vm, status, |severity| severity == ERROR, ctx).await?;
    }
    result
}

/// Reports that an object is paused. A pause by Cluster API isn't reported.
pub async fn report_paused(vm: &VirtualMachine, ctx: &Context) -> Result<Next, Error> {
    if pause::by_devops(vm) && vm.metadata.deletion_timestamp.is_none() {
        note_pause(vm, ctx).await?;
        write(vm, paused_status(vm), |severity| severity != INFO, ctx).await?;
    }
    Ok(Next::OnChange)
}

/// Writes the status if it changed, and records an event if `Ready` changed. `warns` returns true for the severities that are
/// published as warnings.
///
/// Only this function writes the status of a VirtualMachine.
async fn write(
    vm: &VirtualMachine,
    mut status: VirtualMachineStatus,
    warns: impl Fn(&str) -> bool,
    ctx: &Context,
) -> Result<(), Error> {
    let old = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    status.conditions = kit::status::settle(old, status.conditions, jiff::Timestamp::now());
    if can_wait(vm.status.as_ref(), &status) {
        return Ok(());
    }
    if Box::pin(ctx.api.patch_status(vm, &status)).await? {
        events::record(vm, old, &status.conditions, warns, &ctx.events);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn a_vm_that_has_just_lost_its_address_is_looked_at_again_soon() {
        let mut vm = fixtures::virtual_machine();
        assert_eq!(contested_interval(&vm), CONTESTED);
        vm.status.get_or_insert_default().kept_addresses = vec!["10.1.0.9".to_owned()];
        assert_eq!(contested_interval(&vm), JUST_CONTESTED);
    }
}
