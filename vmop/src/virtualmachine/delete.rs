//! The end of a machine: power off, destroy, let the object go. Only what is ours is touched.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{Condition, ERROR, INFO, READY, WARNING, vmop as known};
use api::names::{annotation, finalizer};
use api::vmop::{VirtualMachine, vm_phase};
use jiff::Timestamp;
use kit::Next;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::inventory::{Location, PowerState, Presence};
use vsphere::{ConfigSpec, DeviceChange, DiskChange, MoRef, Vm};

use crate::pause;
use crate::vcenter::VCenter;
use crate::vcenter::mark::Mark;
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::identity::find;
use crate::virtualmachine::nic::requests;
use crate::virtualmachine::placement;
use crate::virtualmachine::plan;
use crate::virtualmachine::plan::Blocked;
use crate::virtualmachine::power;
use crate::virtualmachine::power::Way;
use crate::virtualmachine::step::Mode;
use crate::virtualmachine::storage::claims;
use crate::virtualmachine::storage::claims::Volumes;
use crate::virtualmachine::storage::disks;
use crate::virtualmachine::{Context, Error, carry_out, events};

/// How long the stream may take to tell that a machine is off.
const SEEN: Duration = Duration::from_secs(10);

/// Lets the object go once its machine is gone.
///
/// An object that is deleted because it was moved to another cluster keeps its machine: it is the
/// other cluster's now.
pub async fn delete(vm: &Arc<VirtualMachine>, ctx: &Context) -> Result<Next, Error> {
    let moved = vm.annotations().contains_key(annotation::DELETE_FOR_MOVE);
    let ours = vm.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE);
    let uid = vm.uid().unwrap_or_default();
    // The leave of its machine wakes an object that the cache still shows after we let it go, or showed a moment ago.
    let let_go = ctx.ended.lock().contains(&uid) || {
        let there = ctx.caches.vms.get(vm.metadata.namespace.as_deref(), &vm.name_any());
        there.is_none_or(|there| there.metadata.uid != vm.metadata.uid)
    };
    if moved || !ours || let_go {
        return Ok(Next::OnChange);
    }
    let object = ObjectRef::from_obj(&**vm);
    ctx.prober.set_target(&object, None);
    ctx.data_sources.forget(&object);
    let ended = match destroyed(vm, ctx).await {
        Ok(()) => requests::released(vm, ctx).await,
        failed => failed,
    };
    match ended {
        Ok(()) => {
            // Before the object is gone, so that its going takes the note along.
            ctx.ended.lock().insert(uid.clone());
            if let Err(error) = ctx.api.remove_finalizer(&**vm, finalizer::VIRTUAL_MACHINE).await {
                ctx.ended.lock().remove(&uid);
                return Err(error.into());
            }
            ctx.asked.forget(&object);
            ctx.events.normal(&**vm, events::DELETE_SUCCESS, "The machine is gone from vCenter");
            Ok(Next::OnChange)
        }
        Err(error) => {
            tell(vm, &error, ctx).await?;
            Err(error)
        }
    }
}

/// Nothing of the machine is left in vCenter.
async fn destroyed(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let checks = power::checks(vm, annotation::DELETE_CHECK);
    if !checks.is_empty() {
        let message = format!(
            "The machine is not destroyed while the object has the annotation {}. Who set it takes it off",
            checks.join(", ")
        );
        return Err(Blocked::Held(message).into());
    }
    let Ok(Some(identity)) = plan::identity(vm) else {
        // Without an identity nothing was ever made.
        return Ok(());
    };
    let vcenter = ctx.provider.vcenter().map_err(Blocked::Provider)?;
    let mark = Mark::new(&vm.namespace().unwrap_or_default(), &vm.name_any(), &vcenter.settings.stack);
    let home = placement::observe::home(vm, &vcenter, &ctx.caches).ok();
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
    let machine = match vcenter.inventory.by_uuid(identity.instance) {
        Presence::Present(machine) => Some(machine),
        Presence::Absent => {
            let named = named().filter(|machine| find::same(machine, identity));
            if named.is_some() { named } else { anywhere(vm, identity, &vcenter).await? }
        }
        Presence::Unknown => return Err(Error::Unsettled("the inventory of vCenter is being read".into())),
    };
    match machine {
        Some(machine) if mark.is_on(&machine) => {
            carry_out::current(vm, ctx).await?;
            ours_ended(vm, &machine, &vcenter, ctx).await
        }
        Some(machine) => {
            tracing::info!(machine = %machine.moref, "the machine with our UUID is not ours: it stays");
            Ok(())
        }
        None => unattached(vm, ctx).await,
    }
}

/// The machine wherever vCenter has it; `None` where there is none, nor one on its way.
async fn anywhere(
    vm: &VirtualMachine,
    identity: Identity,
    vcenter: &VCenter,
) -> Result<Option<Arc<Vm>>, Error> {
    // Asked before the machine is looked for, so that one whose clone ends in between is found.
    let underway = !plan::existed(vm) && clone_underway(vcenter).await;
    match vcenter.inventory.locate(identity.instance).await? {
        Location::Here(machine) | Location::Elsewhere(machine) => Ok(Some(machine)),
        Location::Gone if underway => {
            Err(Error::Unsettled("vCenter is at work on clones of ours; one may be this machine".to_owned()))
        }
        Location::Gone => Ok(None),
    }
}

/// Our machine is ended as its object says, unless somebody holds it back.
async fn ours_ended(
    vm: &VirtualMachine,
    machine: &Vm,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(), Error> {
    if pause::by_admin(machine) {
        let message = "The machine is not destroyed while its ExtraConfig in vCenter has it left alone (vmservice.virtualmachine.pause). Take the key off";
        return Err(Blocked::Held(message.to_owned()).into());
    }
    let now = Timestamp::now();
    let mode = Mode::of(vm.spec.power_off_mode.as_deref());
    match power::way(vm, machine, PowerState::Off, mode, now) {
        Way::Hard => {}
        Way::Deaf => {
            let message = "The guest is to be asked to shut down before its machine is destroyed (powerOffMode soft), and VMware Tools don't run in it. Start them, or choose trySoft or hard";
            return Err(Blocked::Held(message.to_owned()).into());
        }
        Way::Ask(until) => {
            carry_out::guest::asked(vm, machine, PowerState::Off, until, vcenter, ctx).await?;
            let wait = until.and_then(|until| Duration::try_from(until.duration_since(now)).ok());
            return Err(Error::Guest(
                "The guest is asked to shut down before its machine is destroyed".into(),
                wait,
            ));
        }
    }
    if attaches(vm, ctx) {
        if off(machine, vcenter).await?.is_none() {
            return Ok(());
        }
        claims::released(vm, ctx).await?;
    }
    end(machine, vcenter).await
}

/// Whether volumes may be attached to the machine.
fn attaches(vm: &VirtualMachine, ctx: &Context) -> bool {
    claims::has_claims(vm) || !Volumes::of(vm, &ctx.caches).there.is_empty()
}

/// Nothing asks any more for volumes of a machine that is gone: nobody else takes the attachments away.
async fn unattached(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    if !attaches(vm, ctx) {
        return Ok(());
    }
    carry_out::current(vm, ctx).await?;
    claims::released(vm, ctx).await
}

/// Whether a clone of one of our templates runs: it may be one that was begun before a crash.
///
/// A task does not tell the name of the machine it makes, so any clone is waited for.
async fn clone_underway(vcenter: &VCenter) -> bool {
    let tasks = MoRef::new("TaskManager", "TaskManager");
    let paths = ["info.state", "info.entity", "info.descriptionId"];
    let read = match vcenter.client.retrieve_members(&tasks, "recentTask", "Task", &paths).await {
        Ok(read) => read,
        Err(error) => {
            // Whether a clone runs can't be told; a machine it makes is reported as nobody's.
            tracing::warn!(%error, "recent tasks can't be read");
            return false;
        }
    };
    read.iter().any(|task| {
        let text = |path: &str| task.get(path).as_str().unwrap_or_default().to_ascii_lowercase();
        let runs = matches!(text("info.state").as_str(), "running" | "queued");
        let source =
            task.get("info.entity").as_moref().and_then(|source| vcenter.inventory.vm(source).present());
        runs && text("info.descriptionId").contains("clone") && source.is_some_and(|source| source.template)
    })
}

fn is_off(machine: &Vm) -> bool {
    machine.power_state.is_none_or(|state| state == PowerState::Off)
}

/// The machine is off; as it is then, or `None` if it is gone.
///
/// What somebody did to it before, such as hanging a disk on it, the stream tells before it tells of its end.
async fn off(machine: &Vm, vcenter: &VCenter) -> Result<Option<Arc<Vm>>, Error> {
    if !is_off(machine) {
        match carry_out::steps::powered(&machine.moref, PowerState::Off, vcenter).await {
            Err(Error::Vcenter(error)) if error.is_not_found() => return Ok(None),
            // The stream lags: destroying tells.
            Err(Error::Vcenter(error)) if matches!(error.kind(), vsphere::Kind::InvalidState) => {}
            other => other?,
        }
    }
    let mut changes = vcenter.inventory.subscribe();
    let told = async {
        loop {
            match vcenter.inventory.vm(&machine.moref) {
                Presence::Present(machine) if is_off(&machine) => return machine,
                // Outside our folders, or gone meanwhile: destroying tells.
                Presence::Absent => return Arc::new(machine.clone()),
                _ if changes.next().await.is_none() => return std::future::pending().await,
                _ => {}
            }
        }
    };
    tokio::time::timeout(SEEN, told)
        .await
        .map(Some)
        .map_err(|_elapsed| Error::Unsettled(format!("{} is being powered off", machine.name)))
}

/// The machine is off and destroyed, with its disks.
pub async fn end(machine: &Vm, vcenter: &VCenter) -> Result<(), Error> {
    let lags = is_off(machine);
    let Some(machine) = off(machine, vcenter).await? else { return Ok(()) };
    match spared(&machine, lags, vcenter).await {
        Err(Error::Vcenter(error)) if error.is_not_found() => return Ok(()),
        other => other?,
    }
    tracing::info!(machine = %machine.moref, "destroying");
    let done = async {
        let task = vcenter.client.destroy(&machine.moref).await?;
        vcenter.inventory.wait_for_task(&task).await
    };
    match done.await {
        Err(error) if error.is_not_found() => {
            // Either the machine or only the memory of the task is gone: the next pass tells which.
            match tokio::time::timeout(SEEN, left(&machine, vcenter)).await {
                Ok(()) => Ok(()),
                Err(_elapsed) => Err(Error::Unsettled(format!("{} is being destroyed", machine.name))),
            }
        }
        other => other.map(drop).map_err(Error::from),
    }
}

/// Disks that we did not make are detached: what destroys a machine destroys all that hangs on it.
///
/// Of a machine that was off before, the stream may not have told the latest: it is asked for.
async fn spared(machine: &Vm, lags: bool, vcenter: &VCenter) -> Result<(), Error> {
    if !lags && !disks::may_have_foreign(machine) {
        return Ok(());
    }
    let devices = vcenter.client.devices(&machine.moref).await?;
    let foreign = disks::foreign(machine, &devices);
    if foreign.is_empty() {
        return Ok(());
    }
    tracing::info!(machine = %machine.moref, disks = foreign.len(), "detaching disks that are not the machine's own");
    let changes = foreign.into_iter().map(|disk| DeviceChange::Disk(DiskChange::Detach(disk)));
    let spec = ConfigSpec { device_change: changes.collect(), ..ConfigSpec::default() };
    let task = vcenter.client.reconfigure_vm(&machine.moref, spec).await?;
    vcenter.inventory.wait_for_task(&task).await?;
    Ok(())
}

/// Resolves when the machine has left the inventory.
async fn left(machine: &Vm, vcenter: &VCenter) {
    let mut changes = vcenter.inventory.subscribe();
    while vcenter.inventory.vm(&machine.moref) != Presence::Absent {
        if changes.next().await.is_none() {
            return;
        }
    }
}

/// Says why the machine is still there.
async fn tell(vm: &VirtualMachine, error: &Error, ctx: &Context) -> Result<(), Error> {
    if !error.concerns_status() {
        return Ok(());
    }
    let mut status = vm.status.clone().unwrap_or_default();
    let severity = match error {
        Error::Vcenter(error) if error.retryable() => WARNING,
        Error::Unsettled(_) | Error::Guest(..) => INFO,
        _ => ERROR,
    };
    let reason = if severity == INFO { known::DELETING } else { known::DELETION_FAILED };
    let told = Condition::is_false(READY, severity, reason, error.advised());
    let mut conditions = vec![told];
    conditions.extend(status.conditions.iter().filter(|condition| condition.type_ != READY).cloned());
    let old = std::mem::take(&mut status.conditions);
    status.phase = Some(vm_phase::DELETING.to_owned());
    status.conditions = kit::status::settle(&old, conditions, jiff::Timestamp::now());
    if ctx.api.patch_status(vm, &status).await? {
        events::tell(vm, &old, &status.conditions, |severity| severity == ERROR, &ctx.events);
    }
    Ok(())
}
