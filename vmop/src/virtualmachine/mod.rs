//! Reconciles VirtualMachines. Each VirtualMachine represents one VM in vCenter.
//!
//! Each aspect of a VM has its own module: identity, placement, size, image, nic, storage, bootstrap, power and readiness. A
//! module contains the aspect's facts, its part of the clone call, its drift detection and its conditions. The other modules
//! combine them: observe reads, plan and requests decide, `carry_out` writes, status and report show the result.

pub mod bootstrap;
pub mod carry_out;
pub mod clone;
pub mod condition_types;
pub mod context;
pub mod delete;
mod drain;
pub mod error;
mod events;
pub mod facts;
pub mod identity;
mod image;
pub mod needs;
pub mod nic;
pub mod observe;
pub mod placement;
pub mod plan;
pub mod power;
pub mod readiness;
mod report;
mod requests;
pub mod size;
pub mod status;
pub mod step;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod throttle;

use std::sync::Arc;

use api::vmop::VirtualMachine;
use bounds::Turn;
use kit::Next;
use vsphere::with_bound_changes;

use crate::device_check::{proven, unchecked};
use crate::pause;
use carry_out::object::{confirm_plan, note_progress, prepare};
use carry_out::promotion::begin_promotion;
use carry_out::requests::make_requests;
use context::{CREATE_CONCURRENCY, Context};
use error::Error;
use facts::Facts;
use identity::find::Found;
use identity::uuids::{Identity, existed};
use nic::request::delete_outdated;
use plan::Plan;
use report::{
    PlanResult, report, report_attempt, report_deletion, report_if_slow, report_paused, report_slow_deletion,
};
use status::{Outcome, StepProgress};

/// Reconciles one VirtualMachine. All changes are bound to the vCenter session in which the VM was read.
pub fn reconcile(
    cached: Arc<VirtualMachine>,
    ctx: Arc<Context>,
) -> impl Future<Output = Result<Next, Error>> + Send {
    with_bound_changes(reconcile_bound(cached, ctx))
}

async fn reconcile_bound(cached: Arc<VirtualMachine>, ctx: Arc<Context>) -> Result<Next, Error> {
    if kit::is_moving(&*cached) {
        return Ok(Next::OnChange);
    }
    if pause::paused(&*cached) {
        return Box::pin(report_paused(&cached, &ctx)).await;
    }
    if cached.metadata.deletion_timestamp.is_some() {
        return Box::pin(reconcile_deletion(&cached, &ctx)).await;
    }
    let (slot, waited) = Box::pin(wait_for_slot(&cached, &ctx)).await?;
    let (vm, identity) = Box::pin(prepare_or_report(&cached, &ctx)).await?;
    let settled = settle(&cached, Arc::clone(&vm), identity, (slot, waited), &ctx).await;
    Box::pin(delete::end_if_object_went(settled, &cached, &vm, &ctx)).await
}

/// Reconciles a VirtualMachine that is being deleted.
async fn reconcile_deletion(vm: &Arc<VirtualMachine>, ctx: &Context) -> Result<Next, Error> {
    let mut deletion = Box::pin(delete::delete(vm, ctx));
    let deletion = report_slow_deletion(&mut deletion, vm, ctx).await?;
    report_deletion(vm, deletion, ctx).await
}

/// Reconciles a VirtualMachine that has its finalizer and identity. If its VM doesn't exist yet, it also holds a creation slot.
/// `waited` is true if a status was written while it waited for the slot.
async fn settle(
    cached: &Arc<VirtualMachine>,
    vm: Arc<VirtualMachine>,
    identity: Identity,
    (slot, waited): (Option<Turn>, bool),
    ctx: &Context,
) -> Result<Next, Error> {
    let mut facts = Box::pin(observe::observe(&vm, identity, ctx)).await?;
    Box::pin(make_requests(&vm, requests::compose_requests(&vm, &facts), ctx)).await?;
    let plan = plan::plan(&vm, &facts).map_err(Error::from);
    let plan = Box::pin(confirm_plan(plan, cached, &vm, ctx)).await;
    let mut attempt = Box::pin(attempt(plan, slot, &vm, &mut facts, ctx)).await?;
    attempt.reported |= waited;
    Box::pin(follow_up(&vm, &facts, &attempt, ctx)).await?;
    let vm = Box::pin(note_progress(vm, &facts, &attempt.result, ctx)).await?;
    Box::pin(refresh(&vm, &mut facts, &mut attempt, ctx)).await;
    Box::pin(report_attempt(&vm, &facts, attempt, ctx)).await
}

/// Waits for a creation slot, and returns it with true if a status was written meanwhile. VMs that already existed don't get a
/// slot.
async fn wait_for_slot(vm: &VirtualMachine, ctx: &Context) -> Result<(Option<Turn>, bool), Error> {
    if existed(vm) {
        return Ok((None, false));
    }
    let queued = Error::Unsettled(format!(
        "The VM is queued: at most {CREATE_CONCURRENCY} VMs of a namespace are created at a time, and fewer while other namespaces create many"
    ));
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let mut slot = Box::pin(ctx.create_slots.enter(namespace));
    let (slot, reported) = report_if_slow(&mut slot, vm, None, &Outcome::Stopped(&queued), ctx).await?;
    Ok((Some(slot), reported))
}

/// Returns the object with its finalizer and both UUIDs, or reports why they can't be added.
async fn prepare_or_report(
    vm: &Arc<VirtualMachine>,
    ctx: &Context,
) -> Result<(Arc<VirtualMachine>, Identity), Error> {
    match prepare(vm, ctx).await {
        Ok(prepared) => Ok(prepared),
        Err(error) => {
            report(vm, None, &Outcome::Stopped(&error), ctx).await?;
            Err(error)
        }
    }
}

/// Carries out the plan, and writes a status if that takes long.
async fn attempt(
    plan: Result<Plan, Error>,
    slot: Option<Turn>,
    vm: &VirtualMachine,
    facts: &mut Facts,
    ctx: &Context,
) -> Result<PlanResult, Error> {
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return Ok(PlanResult { result: Err(error), reported: false }),
    };
    facts.forget_bootstrap();
    let mut carried_out = Box::pin(carry_out::carry_out(plan, slot, vm, facts, ctx));
    let (result, reported) =
        report_if_slow(&mut carried_out, vm, Some(facts), &Outcome::Underway(StepProgress::default()), ctx)
            .await?;
    Ok(PlanResult { result, reported })
}

/// Does the work that follows the plan: records which device kinds the clone check proved, deletes outdated NIC objects,
/// and begins a promotion that is due.
async fn follow_up(
    vm: &VirtualMachine,
    facts: &Facts,
    attempt: &PlanResult,
    ctx: &Context,
) -> Result<(), Error> {
    if let Found::Ours(vsphere_vm) = &facts.found
        && unchecked(vsphere_vm).is_some()
        && let Ok(vcenter) = ctx.provider.vcenter()
    {
        let found = proven(vsphere_vm, facts.complete_devices(vm, vsphere_vm));
        let mut known = vcenter.proven_devices.lock();
        *known = known.and(found);
    }
    if facts.has_changed_nics() && attempt.result.is_ok() {
        delete_outdated(vm, &ctx.api, &ctx.caches).await?;
    }
    if let (Found::Ours(vsphere_vm), Some(promotion)) = (&facts.found, &facts.promotion)
        && let Some(disks) = promotion.due(vm, vsphere_vm)
        && let Ok(vcenter) = ctx.provider.vcenter()
    {
        begin_promotion(&ctx.promotions, vm, &vsphere_vm.moref, disks, &vcenter);
    }
    Ok(())
}

/// Reads the VM and its runtime facts again, because the inventory changes while objects are written.
async fn refresh(vm: &VirtualMachine, facts: &mut Facts, attempt: &mut PlanResult, ctx: &Context) {
    let Ok(Some(changed)) = &mut attempt.result else { return };
    *changed = ctx.provider.latest(Arc::clone(changed));
    if let Ok(vcenter) = ctx.provider.vcenter() {
        facts.runtime = Box::pin(observe::observe_runtime(vm, changed, &vcenter, ctx)).await;
        ctx.prober.set_target(&kube::runtime::reflector::ObjectRef::from_obj(vm), facts.runtime.probe_target);
    }
}
