//! Every write for a machine.

pub mod clone;
pub mod guest;
pub mod promotion;
pub mod steps;

use std::sync::Arc;

use api::names::{annotation, finalizer, label};
use api::vmop::VirtualMachine;
use kit::expectations::stale_cache;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::pause;
use crate::vcenter::{MEMBERSHIP, VCenter};
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::plan;
use crate::virtualmachine::plan::{Blocked, Facts, Found, Plan};
use crate::virtualmachine::size::resize;
use crate::virtualmachine::status::Outcome;
use crate::virtualmachine::step::Step;
use crate::virtualmachine::{Context, Error, observe, power};

/// The object bears our finalizer and both UUIDs: all that has to be persisted before anything exists outside.
pub async fn prepared(
    vm: &Arc<VirtualMachine>,
    ctx: &Context,
) -> Result<(Arc<VirtualMachine>, Identity), Error> {
    let finalized = vm.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE);
    let known = plan::identity(vm)?;
    let now = vm.spec.next_restart_time.as_deref() == Some("now");
    if let Some(identity) = known.filter(|_| finalized && !now) {
        return Ok((Arc::clone(vm), identity));
    }
    let identity = plan::completed(vm, Uuid::new_v4())?;
    let mut finalizers = vm.finalizers().to_vec();
    if !finalized {
        finalizers.push(finalizer::VIRTUAL_MACHINE.to_owned());
    }
    let mut patch = json!({ "metadata": { "finalizers": finalizers } });
    if known.is_none() {
        patch["spec"] = json!({
            "biosUUID": identity.bios.to_string(),
            "instanceUUID": identity.instance.to_string(),
        });
    }
    if now {
        // Which now it was must not be asked twice.
        patch["spec"]["nextRestartTime"] = jiff::Timestamp::now().to_string().into();
    }
    Ok((Arc::new(ctx.api.patch(&**vm, patch).await?), identity))
}

/// The API server itself has the object as the cache shows it, in all that decides what is done to its machine.
///
/// After a restart the cache may come from an API server that lags behind: it shows objects that are gone since.
pub async fn current(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let live = ctx.api.live(vm).await?;
    if live.is_some_and(|live| plan::decides(&live) == plan::decides(vm)) {
        return Ok(());
    }
    Err(stale_cache::<VirtualMachine>(vm.metadata.namespace.as_deref(), &vm.name_any()).into())
}

/// The object bears what has to travel with it: that its machine existed once, and by which class it was sized.
///
/// A request to the guest that has been heard is taken off, and who had the machine left alone is said.
pub async fn remembered(
    vm: Arc<VirtualMachine>,
    facts: &Facts,
    outcome: &Outcome<'_>,
    ctx: &Context,
) -> Result<Arc<VirtualMachine>, Error> {
    let machine = match (outcome, &facts.found) {
        (Outcome::Done(Some(machine)), _) => *machine,
        (_, Found::Ours(machine)) => &**machine,
        _ => return Ok(vm),
    };
    let arrived = machine.power_state == Some(power::wanted(&vm));
    if arrived {
        ctx.asked.forget(&ObjectRef::from_obj(&*vm));
    }
    // What is done only to a machine that is off has been done, if it was off and all steps were taken.
    let was_off = matches!(&facts.found, Found::Ours(before) if before.power_state == Some(PowerState::Off));
    let off = was_off || machine.power_state == Some(PowerState::Off);
    let set = off && matches!(outcome, Outcome::Done(Some(_)));
    let patch = to_remember(&vm, machine, facts, (arrived, set));
    if patch.is_null() {
        return Ok(vm);
    }
    Ok(Arc::new(ctx.api.patch(&*vm, json!({ "metadata": patch })).await?))
}

/// What of the object's metadata has to be another; null where nothing has.
fn to_remember(vm: &VirtualMachine, machine: &Vm, facts: &Facts, (arrived, set): (bool, bool)) -> Value {
    let mut annotations = Map::new();
    let first = !vm.annotations().contains_key(annotation::FIRST_BOOT_DONE);
    if first {
        annotations.insert(annotation::FIRST_BOOT_DONE.into(), "true".into());
    }
    let sized = vm.annotations().contains_key(annotation::LAST_RESIZED_CLASS);
    if (first && !sized) || resize::unnoted(vm, machine, facts.size.as_ref(), set) {
        annotations.insert(annotation::LAST_RESIZED_CLASS.into(), resize::noted(vm).into());
    }
    if arrived && vm.annotations().contains_key(annotation::SOFT_POWER) {
        annotations.insert(annotation::SOFT_POWER.into(), Value::Null);
    }
    let mut patch = Map::new();
    if !annotations.is_empty() {
        patch.insert("annotations".into(), annotations.into());
    }
    let paused = pause::label(vm, Some(machine));
    if vm.labels().get(label::VMOP_PAUSED).map(String::as_str) != paused {
        patch.insert("labels".into(), json!({ label::VMOP_PAUSED: paused }));
    }
    if patch.is_empty() { Value::Null } else { patch.into() }
}

/// The object says who had its machine left alone.
pub async fn left_alone(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let machine = plan::identity(vm)
        .ok()
        .flatten()
        .and_then(|identity| ctx.provider.vcenter().ok()?.inventory.by_uuid(identity.instance).present());
    let paused = pause::label(vm, machine.as_deref());
    if vm.labels().get(label::VMOP_PAUSED).map(String::as_str) != paused {
        let patch = json!({ "metadata": { "labels": { label::VMOP_PAUSED: paused } } });
        ctx.api.patch(vm, patch).await?;
    }
    Ok(())
}

/// What the plan says is so; the machine, where it was made or changed.
///
/// The `room` that it takes to put a machine together is given back when vCenter has it, or has refused.
pub async fn carry_out(
    plan: Plan,
    room: Option<OwnedSemaphorePermit>,
    vm: &VirtualMachine,
    facts: &Facts,
    ctx: &Context,
) -> Result<Option<Arc<Vm>>, Error> {
    let vcenter = || ctx.provider.vcenter().map_err(Blocked::Provider);
    match plan {
        Plan::Settled => Ok(None),
        Plan::Make { clone, then } => {
            let vcenter = vcenter()?;
            let machine = clone::made(clone, room, vm, facts, &vcenter, ctx).await?;
            Box::pin(taken(vm, machine, &then, &vcenter, ctx)).await.map(Some)
        }
        Plan::Change { machine, steps } => {
            drop(room);
            Box::pin(taken(vm, machine, &steps, &*vcenter()?, ctx)).await.map(Some)
        }
    }
}

/// The machine of a plan's clone, for tests.
#[cfg(test)]
pub async fn cloned(
    intent: &super::clone::Intent,
    facts: &Facts,
    vcenter: &VCenter,
) -> Result<Arc<Vm>, Error> {
    clone::cloned(Box::new(intent.clone()), None, facts, vcenter).await
}

/// The steps are carried out; a cluster module that turns out to be gone is made again.
async fn taken(
    vm: &VirtualMachine,
    machine: Arc<Vm>,
    steps: &[Step],
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    let taken = steps::taken(machine, steps, vm, vcenter, ctx).await;
    if let Err(Error::Vcenter(error)) = &taken
        && error.is_not_found()
        && error.method() == MEMBERSHIP
        && let Some(module) = steps.iter().find_map(Step::module)
    {
        observe::modules_gone(vm, module, vcenter, ctx);
    }
    taken
}
