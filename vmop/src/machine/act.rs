//! Every write for a machine.

use std::sync::Arc;
use std::time::Duration;

use api::names::{annotation, finalizer};
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;
use uuid::Uuid;
use vsphere::inventory::{PowerState, Presence};
use vsphere::{Kind, MoRef, Vm};

use super::clone::{Identity, Intent};
use super::plan::{self, Blocked, Claim, Facts, Found, Plan};
use super::status::Outcome;
use super::{Context, Error, gather};
use crate::provider::{Site, mark};

/// How long the stream may take to tell of a machine that vCenter has made.
const ENTER: Duration = Duration::from_secs(30);
/// How long it may lag behind a machine that had been there before we asked.
const SOON: Duration = Duration::from_secs(2);

/// The object bears our finalizer and both UUIDs: all that has to be persisted before anything exists outside.
pub async fn prepared(
    vm: &Arc<VirtualMachine>,
    ctx: &Context,
) -> Result<(Arc<VirtualMachine>, Identity), Error> {
    let finalized = vm.finalizers().iter().any(|there| there == finalizer::VIRTUAL_MACHINE);
    let known = plan::identity(vm)?;
    if let Some(identity) = known.filter(|_| finalized) {
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
    Ok((Arc::new(ctx.api.patch(&**vm, patch).await?), identity))
}

/// The object says, in an annotation that travels with it, that its machine existed once.
pub async fn remembered(
    vm: Arc<VirtualMachine>,
    facts: &Facts,
    outcome: &Outcome<'_>,
    ctx: &Context,
) -> Result<Arc<VirtualMachine>, Error> {
    let exists = matches!(outcome, Outcome::Done(Some(_))) || matches!(facts.found, Found::Ours(_));
    if !exists || vm.annotations().contains_key(annotation::FIRST_BOOT_DONE) {
        return Ok(vm);
    }
    let patch = json!({ "metadata": { "annotations": { annotation::FIRST_BOOT_DONE: "true" } } });
    Ok(Arc::new(ctx.api.patch(&*vm, patch).await?))
}

/// What the plan says is so; the machine, where it was made or looked at anew.
pub async fn carry_out(
    plan: &Plan,
    vm: &VirtualMachine,
    facts: &Facts,
    ctx: &Context,
) -> Result<Option<Arc<Vm>>, Error> {
    let site = match plan {
        Plan::Settled => return Ok(None),
        Plan::Clone(_) | Plan::Power(..) => ctx.provider.site().map_err(Blocked::Provider)?,
    };
    match plan {
        Plan::Settled => Ok(None),
        Plan::Clone(intent) => {
            let made = cloned(intent, facts, &site).await;
            if let Err(Error::Vcenter(error)) = &made
                && error.is_not_found()
            {
                forget(intent, vm, &site, ctx);
            }
            made.map(Some)
        }
        Plan::Power(machine, state) => powered(machine, *state, &site).await.map(|()| None),
    }
}

/// The machine exists: cloned now, or adopted if an earlier try got through.
pub async fn cloned(intent: &Intent, facts: &Facts, site: &Site) -> Result<Arc<Vm>, Error> {
    tracing::info!(template = %intent.template, folder = %intent.folder, "cloning");
    let made = async {
        let spec = intent.spec.clone();
        let task = site.client.clone_vm(&intent.template, &intent.folder, &intent.name, spec).await?;
        site.inventory.task(&task).await
    };
    match made.await {
        Ok(done) => match done.moref() {
            Some(moref) => {
                let machine = site.inventory.entered(moref, ENTER).await?;
                Ok(if intent.spec.power_on { powered_up(machine, site).await } else { machine })
            }
            None => Err(Error::Unsettled("The clone is done, and vCenter tells of no machine yet".into())),
        },
        Err(error) => match error.kind() {
            Kind::DuplicateName { .. } => adopted(intent, facts, site).await,
            _ => Err(error.into()),
        },
    }
}

/// The machine as it is once the stream has told that it runs, which it may do after the task's end.
async fn powered_up(machine: Arc<Vm>, site: &Site) -> Arc<Vm> {
    let mut changes = site.inventory.subscribe();
    let running = async {
        loop {
            match site.inventory.vm(&machine.moref) {
                Presence::Present(machine) if machine.power_state == Some(PowerState::On) => return machine,
                _ if changes.next().await.is_none() => return std::future::pending().await,
                _ => {}
            }
        }
    };
    tokio::time::timeout(SOON, running).await.unwrap_or_else(|_elapsed| Arc::clone(&machine))
}

/// The machine that has the name, if it is ours: then an earlier try got through.
///
/// One that is still being made has no reference yet; the stream tells when it has.
async fn adopted(intent: &Intent, facts: &Facts, site: &Site) -> Result<Arc<Vm>, Error> {
    let machine = match tokio::time::timeout(SOON, named(intent, site)).await {
        Ok(machine) => machine,
        Err(_elapsed) => match site.client.find_child(&intent.folder, &intent.name).await? {
            Some(holder) if holder.kind() == "VirtualMachine" => {
                site.inventory.entered(&holder, ENTER).await?
            }
            Some(holder) => {
                let what = format!("The name {} in its folder", intent.name);
                return Err(Blocked::Claimed(Claim { what, holder: holder.to_string() }).into());
            }
            None => {
                let message = format!("vCenter is still at work on a machine called {}", intent.name);
                return Err(Error::Unsettled(message));
            }
        },
    };
    if facts.mark.is_on(&machine) && gather::same(&machine, facts.identity) {
        tracing::info!(machine = %machine.moref, "an earlier clone got through");
        return Ok(machine);
    }
    let what = format!("The name {} in its folder", intent.name);
    Err(Blocked::Claimed(Claim { what, holder: mark::described(&machine) }).into())
}

/// The machine of that name, as soon as the inventory has it.
async fn named(intent: &Intent, site: &Site) -> Arc<Vm> {
    let mut changes = site.inventory.subscribe();
    loop {
        if let Presence::Present(machine) = site.inventory.by_name(&intent.folder, &intent.name) {
            return machine;
        }
        if changes.next().await.is_none() {
            return std::future::pending().await;
        }
    }
}

/// Something that the clone names is gone from vCenter: look it up anew, all of it.
fn forget(intent: &Intent, vm: &VirtualMachine, site: &Site, ctx: &Context) {
    site.goldens.forget(&intent.template);
    let namespace = vm.namespace().unwrap_or_default();
    if let Some(policy) = &vm.spec.resource_policy_name {
        site.set_policy(&key(Some(&namespace), policy), None);
        ctx.policies.wake(ObjectRef::new(policy).within(&namespace));
    }
}

/// The machine is on its way into that power state; the stream tells when it is there.
pub async fn powered(machine: &MoRef, state: PowerState, site: &Site) -> Result<(), Error> {
    tracing::info!(%machine, ?state, "changing the power state");
    let started = match state {
        PowerState::On => site.client.power_on(machine).await,
        PowerState::Off => site.client.power_off(machine).await,
        PowerState::Suspended => site.client.suspend(machine).await,
    };
    let ended = match started {
        Ok(task) => site.inventory.task(&task).await.map(drop),
        Err(error) => Err(error),
    };
    match ended {
        // The task is forgotten, so it is over.
        Err(error) if error.is_not_found() && error.method() == "Task" => Ok(()),
        other => Ok(other?),
    }
}
