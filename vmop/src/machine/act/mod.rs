//! Every write for a machine.

mod make;
mod steps;

use std::sync::Arc;

use api::names::{annotation, finalizer};
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use serde_json::json;
use uuid::Uuid;
use vsphere::Vm;

use super::clone::Identity;
use super::plan::{self, Blocked, Facts, Found, Plan};
use super::status::Outcome;
use super::step::Step;
use super::{Context, Error, gather};
use crate::provider::{MEMBERSHIP, Site};

#[cfg(test)]
pub use make::cloned;
pub use steps::powered;

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

/// What the plan says is so; the machine, where it was made or changed.
pub async fn carry_out(
    plan: &Plan,
    vm: &VirtualMachine,
    facts: &Facts,
    ctx: &Context,
) -> Result<Option<Arc<Vm>>, Error> {
    let site = || ctx.provider.site().map_err(Blocked::Provider);
    match plan {
        Plan::Settled => Ok(None),
        Plan::Make { clone, then } => {
            let site = site()?;
            let machine = make::made(clone, vm, facts, &site, ctx).await?;
            taken(vm, machine, then, &site, ctx).await.map(Some)
        }
        Plan::Change { machine, steps } => {
            taken(vm, Arc::clone(machine), steps, &*site()?, ctx).await.map(Some)
        }
    }
}

/// The steps are carried out; a cluster module that turns out to be gone is made again.
async fn taken(
    vm: &VirtualMachine,
    machine: Arc<Vm>,
    steps: &[Step],
    site: &Site,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    let taken = steps::taken(machine, steps, site).await;
    if let Err(Error::Vcenter(error)) = &taken
        && error.is_not_found()
        && error.method() == MEMBERSHIP
        && let Some(module) = steps.iter().find_map(Step::module)
    {
        gather::modules_gone(vm, module, site, ctx);
    }
    taken
}
