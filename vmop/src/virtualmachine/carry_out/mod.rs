//! All writes for a VM. Only this module calls vCenter methods that change something.

pub mod clone;
pub mod destroy;
pub mod guest;
pub mod object;
pub mod power;
pub mod promotion;
pub mod requests;
pub mod steps;

use std::sync::Arc;

use api::vmop::VirtualMachine;
use bounds::Turn;
use vsphere::Vm;

use super::context::Context;
use super::error::{Blocked, Error};
use super::facts::Facts;
use super::plan::Plan;
use super::step::Step;
use crate::vcenter::{MEMBERSHIP, VCenter};

/// Carries out the plan, and returns the VM if it was created or changed.
///
/// The creation `slot` is released when vCenter has accepted or rejected the clone.
pub async fn carry_out(
    plan: Plan,
    slot: Option<Turn>,
    vm: &VirtualMachine,
    facts: &Facts,
    ctx: &Context,
) -> Result<Option<Arc<Vm>>, Error> {
    let vcenter = || ctx.provider.vcenter().map_err(Blocked::Provider);
    match plan {
        Plan::Settled => Ok(None),
        Plan::Create { clone, then } => {
            let vcenter = vcenter()?;
            let vsphere_vm = clone::create(clone, slot, vm, facts, &vcenter, ctx).await?;
            Box::pin(take_steps(vm, vsphere_vm, &then, &vcenter, ctx)).await.map(Some)
        }
        Plan::Change { vsphere_vm, steps } => {
            drop(slot);
            Box::pin(take_steps(vm, vsphere_vm, &steps, &*vcenter()?, ctx)).await.map(Some)
        }
    }
}

/// Carries out the steps. If a cluster module turns out to be gone, requests its replacement.
async fn take_steps(
    vm: &VirtualMachine,
    vsphere_vm: Arc<Vm>,
    steps: &[Step],
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Arc<Vm>, Error> {
    let taken = steps::take_all(vsphere_vm, steps, vm, vcenter, ctx).await;
    if let Err(Error::Vcenter(error)) = &taken
        && error.is_not_found()
        && error.method() == MEMBERSHIP
        && let Some(module) = steps.iter().find_map(Step::module)
    {
        requests::replace_module(vm, module, vcenter, ctx);
    }
    taken
}
