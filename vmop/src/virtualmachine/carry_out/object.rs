//! Writes to the VirtualMachine except its status: identity, finalizer, and metadata that must be kept when it is moved to
//! another cluster.

use std::sync::Arc;

use api::names::{annotation, finalizer, label};
use api::vmop::VirtualMachine;
use kit::expectations::stale_cache;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::pause;
use crate::virtualmachine::context::Context;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::identity::uuids::{Identity, complete_identity, decisive_state, parse_identity};
use crate::virtualmachine::plan::Plan;
use crate::virtualmachine::power::operation::restart_now;
use crate::virtualmachine::power::state::wanted_power;
use crate::virtualmachine::size::resize;
use crate::virtualmachine::storage::record::DiskRecord;

/// Persists this controller's finalizer and both UUIDs, which must exist before any external effect.
pub async fn prepare(
    vm: &Arc<VirtualMachine>,
    ctx: &Context,
) -> Result<(Arc<VirtualMachine>, Identity), Error> {
    let finalized = vm.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE);
    let known = parse_identity(vm)?;
    let now = vm.spec.next_restart_time.as_deref() == Some("now");
    if let Some(identity) = known.filter(|_| finalized && !now) {
        return Ok((Arc::clone(vm), identity));
    }
    let identity = complete_identity(vm, Uuid::new_v4())?;
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
        // `now` is replaced by a fixed time, so that one request can't cause two restarts.
        patch["spec"]["nextRestartTime"] = restart_now(vm, jiff::Timestamp::now()).to_string().into();
    }
    Ok((Arc::new(Box::pin(ctx.api.patch(&**vm, patch)).await?), identity))
}

/// Returns the plan after checking that it is based on the API server's state. `cached` is the object from the cache.
pub async fn confirm_plan(
    plan: Result<Plan, Error>,
    cached: &Arc<VirtualMachine>,
    vm: &Arc<VirtualMachine>,
    ctx: &Context,
) -> Result<Plan, Error> {
    match plan? {
        // Also check if our finalizer was just added: the API server drops an object despite a finalizer that was
        // added between the check and the deletion.
        plan @ Plan::Create { .. } => confirm_current(vm, ctx).await.map(|()| plan),
        // If `vm` isn't `cached`, it was just written, on the condition that it was current.
        plan @ Plan::Change { .. } if Arc::ptr_eq(cached, vm) => {
            confirm_current(vm, ctx).await.map(|()| plan)
        }
        plan => Ok(plan),
    }
}

/// Checks that the VirtualMachine in the API server has the same [`decisive_state`] as the cached one.
///
/// After a restart, the cache may come from an API server that lags, and contain VirtualMachines that are already gone.
pub async fn confirm_current(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let live = ctx.api.live(vm).await?;
    if live.is_some_and(|live| decisive_state(&live) == decisive_state(vm)) {
        return Ok(());
    }
    Err(stale_cache::<VirtualMachine>(vm.metadata.namespace.as_deref(), &vm.name_any()).into())
}

/// Records in the VirtualMachine the facts that must be kept when it is moved to another cluster: that its VM existed, the
/// class by which the VM was sized, and the VM's disks.
///
/// Also removes the record of a completed request to the guest, and records who paused the VM.
pub async fn note_progress(
    vm: Arc<VirtualMachine>,
    facts: &Facts,
    result: &Result<Option<Arc<Vm>>, Error>,
    ctx: &Context,
) -> Result<Arc<VirtualMachine>, Error> {
    let ((Ok(Some(vsphere_vm)), _) | (_, Found::Ours(vsphere_vm))) = (result, &facts.found) else {
        return Ok(vm);
    };
    let arrived = vsphere_vm.power_state == Some(wanted_power(&vm));
    if arrived {
        ctx.guest_requests.forget(&ObjectRef::from_obj(&*vm));
    }
    // The changes that require a VM to be off are complete if it was off and all steps succeeded.
    let was_off = matches!(&facts.found, Found::Ours(before) if before.power_state == Some(PowerState::Off));
    let off = was_off || vsphere_vm.power_state == Some(PowerState::Off);
    let progress = Progress { arrived, settings_applied: off && matches!(result, Ok(Some(_))) };
    let patch = metadata_patch(&vm, vsphere_vm, facts, progress);
    if patch.is_null() {
        return Ok(vm);
    }
    Ok(Arc::new(ctx.api.patch(&*vm, json!({ "metadata": patch })).await?))
}

/// The progress of a reconcile.
#[derive(Clone, Copy)]
struct Progress {
    /// True if the VM is in the power state that its spec requests.
    arrived: bool,
    /// True if all settings of the VM's class are applied.
    settings_applied: bool,
}

/// Returns the metadata patch, or null if the metadata is up to date.
fn metadata_patch(vm: &VirtualMachine, vsphere_vm: &Vm, facts: &Facts, progress: Progress) -> Value {
    let mut annotations = Map::new();
    let first = !vm.annotations().contains_key(annotation::FIRST_BOOT_DONE);
    if first {
        annotations.insert(annotation::FIRST_BOOT_DONE.into(), "true".into());
    }
    let sized = vm.annotations().contains_key(annotation::LAST_RESIZED_CLASS);
    let size = facts.runtime.size.as_ref();
    if (first && !sized) || resize::needs_note(vm, vsphere_vm, size, progress.settings_applied) {
        annotations.insert(annotation::LAST_RESIZED_CLASS.into(), resize::class_note(vm).into());
    }
    if let Some(disks) = DiskRecord::of(vm).complete_record(vsphere_vm) {
        annotations.insert(annotation::DISKS.into(), disks.into());
    }
    if progress.arrived && vm.annotations().contains_key(annotation::SOFT_POWER) {
        annotations.insert(annotation::SOFT_POWER.into(), Value::Null);
    }
    let mut patch = Map::new();
    if !annotations.is_empty() {
        patch.insert("annotations".into(), annotations.into());
    }
    let paused = pause::label(vm, Some(vsphere_vm));
    if vm.labels().get(label::VMOP_PAUSED).map(String::as_str) != paused {
        patch.insert("labels".into(), json!({ label::VMOP_PAUSED: paused }));
    }
    if patch.is_empty() { Value::Null } else { patch.into() }
}

/// Records in the VirtualMachine who paused its VM.
pub async fn note_pause(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let vsphere_vm = parse_identity(vm)
        .ok()
        .flatten()
        .and_then(|identity| ctx.provider.vcenter().ok()?.inventory.by_uuid(identity.instance).present());
    let paused = pause::label(vm, vsphere_vm.as_deref());
    if vm.labels().get(label::VMOP_PAUSED).map(String::as_str) != paused {
        let patch = json!({ "metadata": { "labels": { label::VMOP_PAUSED: paused } } });
        ctx.api.patch(vm, patch).await?;
    }
    Ok(())
}
