//! The one call that makes a machine, and what may have become of an earlier one.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::OwnedSemaphorePermit;
use vsphere::inventory::{PowerState, Presence};
use vsphere::{Kind, MoRef, Vm};

use crate::vcenter::{VCenter, mark};
use crate::virtualmachine::carry_out::steps::seen;
use crate::virtualmachine::clone::Intent;
use crate::virtualmachine::identity::find;
use crate::virtualmachine::plan::{Blocked, Claim, Facts};
use crate::virtualmachine::{Context, Error};

/// How long the stream may take to tell of a machine that vCenter has made.
const ENTER: Duration = Duration::from_secs(30);
/// How long it may lag behind a machine that had been there before we asked.
const SOON: Duration = Duration::from_secs(2);

/// The machine exists; what the clone named and is gone is looked up anew next time.
pub async fn made(
    intent: Box<Intent>,
    room: Option<OwnedSemaphorePermit>,
    vm: &VirtualMachine,
    facts: &Facts,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    let template = intent.template.clone();
    let made = cloned(intent, room, facts, vcenter).await;
    if let Err(Error::Vcenter(error)) = &made
        && error.is_not_found()
    {
        Box::pin(forget(&template, vm, vcenter, ctx)).await;
    }
    made
}

/// The machine exists: cloned now, or adopted if an earlier try got through.
///
/// What it is made of is let go, and the `room` for it, as soon as vCenter has answered.
pub async fn cloned(
    intent: Box<Intent>,
    room: Option<OwnedSemaphorePermit>,
    facts: &Facts,
    vcenter: &VCenter,
) -> Result<Arc<Vm>, Error> {
    let Intent { template, folder, name, spec } = unboxed(intent);
    tracing::info!(%template, %folder, "cloning");
    let runs = spec.power_on;
    let begun = Box::pin(vcenter.client.clone_vm(&template, &folder, &name, spec)).await;
    drop(room);
    let made = match begun {
        Ok(task) => vcenter.inventory.wait_for_task(&task).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(done) => match done.moref() {
            Some(moref) => {
                let machine = vcenter.inventory.wait_for_vm(moref, ENTER).await?;
                // The stream may tell that it runs after the task's end.
                let on = |machine: &Vm| machine.power_state == Some(PowerState::On);
                Ok(if runs { seen(machine, vcenter, on).await } else { machine })
            }
            None => Err(Error::Unsettled("The clone is done, and vCenter tells of no machine yet".into())),
        },
        Err(error) => match error.kind() {
            Kind::DuplicateName { .. } => Box::pin(adopted(&folder, &name, facts, vcenter)).await,
            _ => Err(error.into()),
        },
    }
}

/// What is in the box, whose place is free from here on.
fn unboxed(intent: Box<Intent>) -> Intent {
    *intent
}

/// The machine that has the name, if it is ours: then an earlier try got through.
///
/// One that is still being made has no reference yet; the stream tells when it has.
async fn adopted(folder: &MoRef, name: &str, facts: &Facts, vcenter: &VCenter) -> Result<Arc<Vm>, Error> {
    let machine = match tokio::time::timeout(SOON, named(folder, name, vcenter)).await {
        Ok(machine) => machine,
        Err(_elapsed) => match vcenter.client.find_child(folder, name).await? {
            Some(holder) if holder.kind() == "VirtualMachine" => {
                vcenter.inventory.wait_for_vm(&holder, ENTER).await?
            }
            Some(holder) => {
                let what = format!("The name {name} in its folder");
                return Err(Blocked::Claimed(Claim { what, holder: holder.to_string() }).into());
            }
            None => {
                let message = format!("vCenter is still at work on a machine called {name}");
                return Err(Error::Unsettled(message));
            }
        },
    };
    if facts.mark.is_on(&machine) && find::same(&machine, facts.identity) {
        tracing::info!(machine = %machine.moref, "an earlier clone got through");
        return Ok(machine);
    }
    let what = format!("The name {name} in its folder");
    Err(Blocked::Claimed(Claim { what, holder: mark::described(&machine) }).into())
}

/// The machine of that name, as soon as the inventory has it.
async fn named(folder: &MoRef, name: &str, vcenter: &VCenter) -> Arc<Vm> {
    let mut changes = vcenter.inventory.subscribe();
    loop {
        if let Presence::Present(machine) = vcenter.inventory.by_name(folder, name) {
            return machine;
        }
        if changes.next().await.is_none() {
            return std::future::pending().await;
        }
    }
}

/// Something that the clone names is gone from vCenter: look it up anew, all of it.
async fn forget(template: &MoRef, vm: &VirtualMachine, vcenter: &VCenter, ctx: &Context) {
    ctx.templates.forget(template);
    vcenter.forget_storage().await;
    let namespace = vm.namespace().unwrap_or_default();
    if let Some(policy) = &vm.spec.resource_policy_name {
        vcenter.realized_policies.forget(&key(Some(&namespace), policy));
        ctx.policies.enqueue(ObjectRef::new(policy).within(&namespace));
    }
}
