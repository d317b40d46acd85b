//! The one call that makes a machine, and what may have become of an earlier one.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::inventory::{PowerState, Presence};
use vsphere::{Kind, Vm};

use super::steps::seen;
use crate::machine::clone::Intent;
use crate::machine::plan::{Blocked, Claim, Facts};
use crate::machine::{Context, Error, gather};
use crate::provider::{Site, mark};

/// How long the stream may take to tell of a machine that vCenter has made.
const ENTER: Duration = Duration::from_secs(30);
/// How long it may lag behind a machine that had been there before we asked.
const SOON: Duration = Duration::from_secs(2);

/// The machine exists; what the clone named and is gone is looked up anew next time.
pub async fn made(
    intent: &Intent,
    vm: &VirtualMachine,
    facts: &Facts,
    site: &Site,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    let made = cloned(intent, facts, site).await;
    if let Err(Error::Vcenter(error)) = &made
        && error.is_not_found()
    {
        forget(intent, vm, site, ctx).await;
    }
    made
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
                // The stream may tell that it runs after the task's end.
                let runs = |machine: &Vm| machine.power_state == Some(PowerState::On);
                Ok(if intent.spec.power_on { seen(machine, site, runs).await } else { machine })
            }
            None => Err(Error::Unsettled("The clone is done, and vCenter tells of no machine yet".into())),
        },
        Err(error) => match error.kind() {
            Kind::DuplicateName { .. } => adopted(intent, facts, site).await,
            _ => Err(error.into()),
        },
    }
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
async fn forget(intent: &Intent, vm: &VirtualMachine, site: &Site, ctx: &Context) {
    site.goldens.forget(&intent.template);
    site.forget_storage().await;
    let namespace = vm.namespace().unwrap_or_default();
    if let Some(policy) = &vm.spec.resource_policy_name {
        site.realms.forget(&key(Some(&namespace), policy));
        ctx.policies.wake(ObjectRef::new(policy).within(&namespace));
    }
}
