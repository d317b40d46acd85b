//! Deletes VMs: powers off, destroys, and removes the finalizer. Only a VM with the mark of its VirtualMachine is touched.

use std::sync::Arc;
use std::time::Duration;

use api::names::{annotation, finalizer};
use api::vmop::VirtualMachine;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kit::Next;
use kit::apply::is_gone;
use kit::expectations::stale_cache;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::inventory::{Location, PowerState, Presence};
use vsphere::{MoRef, Vm};

use super::carry_out::destroy::{destroy, power_off};
use super::carry_out::guest::ask_guest;
use super::carry_out::object::confirm_current;
use super::context::Context;
use super::drain::drain;
use super::error::{Blocked, Error};
use super::events;
use super::identity::find::{find_unidentified, last_reference};
use super::identity::uuids::{Identity, existed, parse_identity};
use super::nic::request::delete_requests;
use super::placement::namespace::resolve_home;
use super::power::operation::{PowerOperation, power_operation};
use super::power::state::checks;
use super::step::PowerMode;
use super::storage::claims::{self, Volumes, release_attachments};
use super::storage::record::DiskRecord;
use crate::pause;
use crate::vcenter::VCenter;
use crate::vcenter::mark::{self, Mark};

/// The maximum number of attempts to destroy a VM whose VirtualMachine is gone. After that, the VM is reported as orphaned.
const UNOWNED_ATTEMPTS: usize = 60;
/// The delay between two attempts to destroy a VM whose VirtualMachine is gone. A clone may still be running.
const UNOWNED_PAUSE: Duration = Duration::from_secs(2);

/// The state of a VirtualMachine's deletion.
pub enum Deletion {
    /// The VM is gone, and the finalizer was removed.
    Done,
    /// The finalizer was removed earlier. Other finalizers may remain.
    LetGo,
    /// The VM can't be destroyed yet.
    Blocked(Error),
}

/// Removes the object's finalizer once its VM is gone.
pub async fn delete(vm: &Arc<VirtualMachine>, ctx: &Context) -> Result<Deletion, Error> {
    let ours = vm.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE);
    let uid = vm.uid().unwrap_or_default();
    // The removal of the VM enqueues its VirtualMachine even after the finalizer was removed, and even if the cache doesn't
    // contain the VirtualMachine anymore.
    let let_go = ctx.released.lock().contains(&uid) || {
        let there = ctx.caches.vms.get(vm.metadata.namespace.as_deref(), &vm.name_any());
        there.is_none_or(|there| there.metadata.uid != vm.metadata.uid)
    };
    if !ours || let_go {
        return Ok(Deletion::LetGo);
    }
    let object = ObjectRef::from_obj(&**vm);
    ctx.prober.set_target(&object, None);
    ctx.data_sources.forget(&object);
    let ended = match destroy_vm(vm, ctx).await {
        Ok(()) => delete_requests(vm, &ctx.api, &ctx.caches).await,
        failed => failed,
    };
    match ended {
        Ok(()) => {
            // Insert the UID before the VirtualMachine disappears, because its disappearance removes the UID.
            ctx.released.lock().insert(uid.clone());
            if let Err(error) = ctx.api.remove_finalizer(&**vm, finalizer::VIRTUAL_MACHINE).await {
                ctx.released.lock().remove(&uid);
                return Err(error.into());
            }
            ctx.guest_requests.forget(&object);
            ctx.events.normal(&**vm, events::DELETE_SUCCESS, "The VM is gone from vCenter");
            Ok(Deletion::Done)
        }
        Err(error) => Ok(Deletion::Blocked(error)),
    }
}

/// Destroys the VM if its VirtualMachine was deleted while the finalizer was being added. Otherwise returns the result
/// unchanged.
///
/// The API server drops an object despite a finalizer that was added between its check and the deletion. Then only this
/// reconcile knows the VM. If the object already had the finalizer, someone removed it on purpose, for example to move the
/// object to another cluster.
pub async fn end_if_object_went(
    settled: Result<Next, Error>,
    cached: &VirtualMachine,
    vm: &VirtualMachine,
    ctx: &Context,
) -> Result<Next, Error> {
    let marked = cached.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE);
    match settled {
        Err(Error::Api(error)) if is_gone(&error) && !marked => {
            confirm_unowned(vm, ctx).await?;
            tracing::warn!("the object was deleted while its finalizer was being added; destroying its VM");
            end_unowned(vm, ctx).await
        }
        other => other,
    }
}

/// Checks that the API server doesn't have a VirtualMachine with this name and the same UID or instance UUID.
async fn confirm_unowned(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let same = |live: VirtualMachine| {
        live.metadata.uid == vm.metadata.uid || live.spec.instance_uuid == vm.spec.instance_uuid
    };
    let live = ctx.api.get(vm.metadata.namespace.as_deref(), &vm.name_any()).await?;
    if live.is_some_and(same) {
        return Err(stale_cache::<VirtualMachine>(vm.metadata.namespace.as_deref(), &vm.name_any()).into());
    }
    Ok(())
}

/// Destroys the VM of a VirtualMachine that is gone. Retries here, because the VirtualMachine isn't enqueued again.
async fn end_unowned(vm: &VirtualMachine, ctx: &Context) -> Result<Next, Error> {
    let mut result = Ok(());
    for attempt in 0..UNOWNED_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(UNOWNED_PAUSE).await;
        }
        result = match destroy_if(vm, confirm_unowned(vm, ctx).boxed(), ctx).await {
            Ok(()) => delete_requests(vm, &ctx.api, &ctx.caches).await,
            failed => failed,
        };
        if result.is_ok() {
            break;
        }
    }
    result.map(|()| Next::OnChange)
}

/// Destroys the VM, unless a check annotation blocks that.
pub(super) async fn destroy_vm(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    destroy_if(vm, confirm_current(vm, ctx).boxed(), ctx).await
}

/// Destroys the VM like [`destroy_vm`], but awaits `confirmed` after the VM is found, and stops if `confirmed` fails.
async fn destroy_if(
    vm: &VirtualMachine,
    confirmed: BoxFuture<'_, Result<(), Error>>,
    ctx: &Context,
) -> Result<(), Error> {
    let checks = checks(vm, annotation::DELETE_CHECK);
    if !checks.is_empty() {
        let message = format!(
            "Deletion of the VM is blocked by annotation {}. The component that added it must remove it",
            checks.join(", ")
        );
        return Err(Blocked::Held(message).into());
    }
    let Ok(Some(identity)) = parse_identity(vm) else {
        // VMs are only created for VirtualMachines with an identity.
        return Ok(());
    };
    let vcenter = ctx.provider.vcenter().map_err(Blocked::Provider)?;
    vcenter.inventory.bind_changes();
    let mark = Mark::new(&vm.namespace().unwrap_or_default(), &vm.name_any(), &vcenter.settings.stack);
    match find_to_destroy(vm, identity, &vcenter, ctx).await? {
        Some(vsphere_vm) if mark.is_on(&vsphere_vm) => {
            confirmed.await?;
            end_ours(vm, &vsphere_vm, &vcenter, ctx).await
        }
        Some(vsphere_vm) => {
            tracing::info!(vsphere_vm = %vsphere_vm.moref, "the VM with the UUID of this object does not belong to it; keeping the VM");
            Ok(())
        }
        None => release_volumes(vm, ctx).await,
    }
}

/// Finds the VM by its UUID, by its name in its folder, or anywhere in vCenter, in this order.
async fn find_to_destroy(
    vm: &VirtualMachine,
    identity: Identity,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Option<Arc<Vm>>, Error> {
    let home = resolve_home(vm, vcenter, &ctx.caches).ok();
    if let Some(home) = &home {
        match vcenter.watch_folder(&home.folder).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    if let Some(problem) = vcenter.inventory_problem() {
        return Err(Blocked::Provider(problem).into());
    }
    let folder = vm.spec.resource_policy_name.as_ref().and_then(|policy| {
        let key = kit::index::key(vm.metadata.namespace.as_deref(), policy);
        vcenter.realized_policies.at(&key, home.as_ref()?).map(|realized| realized.placement.folder)
    });
    let folder = folder.or_else(|| home.map(|home| home.folder));
    let named = || match &folder {
        Some(folder) => vcenter.inventory.by_name(folder, &vm.name_any()).present(),
        None => None,
    };
    match vcenter.inventory.by_uuid(identity.instance) {
        Presence::Present(vsphere_vm) => Ok(Some(vsphere_vm)),
        Presence::Unavailable(vsphere_vm) => Err(Blocked::Unavailable(vsphere_vm).into()),
        Presence::Absent => {
            if let Some(unidentified) = find_unidentified(vm, vcenter) {
                return Err(Blocked::Unavailable(unidentified).into());
            }
            let named = named().filter(|vsphere_vm| identity.is_of(vsphere_vm));
            if named.is_some() { Ok(named) } else { find_anywhere(vm, identity, vcenter).await }
        }
        Presence::Unknown => Err(Error::Unsettled("the inventory of vCenter is being read".into())),
    }
}

/// Finds the VM anywhere in vCenter. Returns `None` if it doesn't exist, and an error while a running clone may create it.
async fn find_anywhere(
    vm: &VirtualMachine,
    identity: Identity,
    vcenter: &VCenter,
) -> Result<Option<Arc<Vm>>, Error> {
    // Checked before the search, so that a clone that ends in between is found.
    let underway = !existed(vm) && is_cloning(vcenter).await?;
    match vcenter.inventory.locate(identity.instance, last_reference(vm).as_ref()).await? {
        Location::Here(vsphere_vm) | Location::Elsewhere(vsphere_vm) => Ok(Some(vsphere_vm)),
        Location::Unavailable(vsphere_vm) => Err(Blocked::Unavailable(vsphere_vm).into()),
        Location::Gone if underway => Err(Error::Unsettled(
            "vCenter is still cloning VMs for this installation; one of them may be this VM".to_owned(),
        )),
        Location::Gone => Ok(None),
    }
}

/// Powers off and destroys our VM, unless a pause, a drain or the guest delays that. The spec's power-off mode decides if the
/// guest is asked to shut down first.
async fn end_ours(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(), Error> {
    if pause::by_admin(vsphere_vm) {
        let message = "Deletion of the VM is blocked by the key vmservice.virtualmachine.pause in its ExtraConfig in vCenter, which pauses it. Remove the key";
        return Err(Blocked::Held(message.to_owned()).into());
    }
    let now = Timestamp::now();
    if vsphere_vm.power_state == Some(PowerState::On)
        && let Some(look) = drain(vm, &ctx.caches, now)
    {
        return Err(Error::Draining(look));
    }
    let mode = PowerMode::of(vm.spec.power_off_mode.as_deref());
    match power_operation(vm, vsphere_vm, PowerState::Off, mode, now) {
        PowerOperation::Hard => {}
        PowerOperation::ToolsNotRunning => {
            let message = "A soft power-off before the VM is destroyed needs VMware Tools, which are not running in the guest. Start VMware Tools, or set powerOffMode to trySoft or hard";
            return Err(Blocked::Held(message.to_owned()).into());
        }
        PowerOperation::Guest(until) => {
            ask_guest(vm, vsphere_vm, PowerState::Off, until, vcenter, ctx).await?;
            let wait = until.and_then(|until| Duration::try_from(until.duration_since(now)).ok());
            return Err(Error::Guest(
                "Waiting for the guest to shut down before the VM is destroyed".into(),
                wait,
            ));
        }
    }
    if has_volumes(vm, ctx) {
        let off = power_off(vsphere_vm, vcenter).await?;
        // Also release the volumes if the VM is gone meanwhile, because other components don't.
        release_attachments(vm, &ctx.api, &ctx.caches).await?;
        if off.is_none() {
            return Ok(());
        }
    }
    destroy(vsphere_vm, &DiskRecord::of(vm), vcenter).await
}

/// Returns true if the VM might have attached volumes.
fn has_volumes(vm: &VirtualMachine, ctx: &Context) -> bool {
    claims::has_claims(vm) || !Volumes::of(vm, &ctx.caches).there.is_empty()
}

/// Releases the volume attachments of a VM that is gone. Other components don't release them.
async fn release_volumes(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    if !has_volumes(vm, ctx) {
        return Ok(());
    }
    confirm_current(vm, ctx).await?;
    release_attachments(vm, &ctx.api, &ctx.caches).await
}

/// Returns true if a clone of one of this installation's templates is running. It may have been started before a crash.
///
/// A task doesn't show the name of the VM that it creates, so any clone counts.
async fn is_cloning(vcenter: &VCenter) -> Result<bool, vsphere::Error> {
    let tasks = MoRef::new("TaskManager", "TaskManager");
    let paths = ["info.state", "info.entity", "info.descriptionId"];
    let read = match vcenter.client.retrieve_members(&tasks, "recentTask", "Task", &paths).await {
        Ok(read) => read,
        Err(error) if error.retryable() => return Err(error),
        Err(error) => {
            // A clone may be running. The VM that it creates is then reported as orphaned.
            tracing::warn!(%error, "recent tasks can't be read");
            return Ok(false);
        }
    };
    let is_ours =
        |source: &MoRef| may_be_our_template(&vcenter.inventory.vm(source), &vcenter.settings.stack);
    Ok(read.iter().any(|task| {
        let text = |path: &str| task.get(path).as_str().unwrap_or_default().to_ascii_lowercase();
        let runs = matches!(text("info.state").as_str(), "running" | "queued");
        let source = task.get("info.entity").as_moref();
        runs && text("info.descriptionId").contains("clone") && source.is_some_and(is_ours)
    }))
}

/// Returns true if the source of a clone is a template of this installation, or if that can't be read.
fn may_be_our_template(source: &Presence, stack: &str) -> bool {
    match source {
        Presence::Present(source) => source.template && mark::template_content(source, stack).is_some(),
        Presence::Unavailable(source) => source.template,
        Presence::Unknown => true,
        Presence::Absent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::unmarked_vm;

    #[test]
    fn only_clones_of_own_templates_delay_a_deletion() {
        let golden = |stack: &str| {
            let mut vm = unmarked_vm("vm-1", "golden");
            vm.template = true;
            vm.extra_config.extend(mark::template_extra_config("item", "1", stack));
            Arc::new(vm)
        };
        let unmarked = Arc::new(Vm { template: true, ..unmarked_vm("vm-2", "other") });
        for (source, expected) in [
            (Presence::Present(golden("s1")), true),
            (Presence::Present(golden("s2")), false),
            (Presence::Present(Arc::clone(&unmarked)), false),
            (Presence::Unavailable(unmarked), true),
            (Presence::Unknown, true),
            (Presence::Absent, false),
        ] {
            assert_eq!(may_be_our_template(&source, "s1"), expected, "{source:?}");
        }
    }
}
