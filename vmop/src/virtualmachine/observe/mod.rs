//! Every read that a machine's plan rests on.

pub mod needs;
pub mod offline;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::unmet::Need;
use crate::vcenter::VCenter;
use crate::vcenter::mark::Mark;
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::plan::{Facts, Found};
use crate::virtualmachine::storage::claims;
use crate::virtualmachine::storage::claims::Volumes;
use crate::virtualmachine::storage::promotion;
use crate::virtualmachine::{Context, Error, readiness};

#[cfg(test)]
pub use super::bootstrap::observe::tests::context;
use crate::virtualmachine::identity::find;
use crate::virtualmachine::placement;
use crate::virtualmachine::placement::observe::home;

/// Everything that is to be known of `vm`.
pub async fn facts(vm: &VirtualMachine, identity: Identity, ctx: &Context) -> Result<Facts, Error> {
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    let now = jiff::Timestamp::now();
    let vcenter = match ctx.provider.vcenter() {
        Ok(vcenter) => vcenter,
        Err(problem) => {
            let mark = Mark::new(&namespace, &name, "");
            return Ok(Facts::new(identity, mark, Found::Unknown(problem), now));
        }
    };
    let mark = Mark::new(&namespace, &name, &vcenter.settings.stack);
    let found = Box::pin(find::found(vm, identity, &mark, &vcenter, ctx)).await?;
    let mut facts = Facts::new(identity, mark, found, now);
    facts.module = Box::pin(module(vm, &facts.found, &vcenter, ctx)).await;
    if let Found::Ours(machine) | Found::Moved(machine) = &facts.found {
        let machine = Arc::clone(machine);
        Box::pin(told_of(&mut facts, vm, &machine, &vcenter, ctx)).await;
        facts.promotion = Box::pin(promotion::of(vm, &machine, &vcenter, &ctx.promotions)).await;
        let volumes = Volumes::of(vm, &ctx.caches);
        facts.volumes = (claims::has_claims(vm) || !volumes.there.is_empty()).then_some(volumes);
    }
    if let Found::Ours(machine) = &facts.found {
        match Box::pin(offline::rewired(vm, machine, identity, &vcenter, ctx)).await {
            Ok(rewired) => (facts.rewired, facts.retold, facts.asks) = rewired,
            Err(Error::Vcenter(error)) => facts.found = Found::Unknown(vcenter.problem(&error)),
            Err(error) => return Err(error),
        }
    }
    if let Found::Ours(machine) = &facts.found
        && vm.spec.volumes.iter().any(|volume| volume.v_sphere_volume.is_some())
    {
        match Box::pin(needs::hardware(vm, machine, &vcenter, ctx)).await {
            Ok(hardware) => facts.hardware = Some(hardware),
            Err(error) => facts.found = Found::Unknown(vcenter.problem(&error)),
        }
    }
    Ok(facts)
}

/// What the status tells of a machine that is there, be it that it was made just now.
pub async fn told_of(facts: &mut Facts, vm: &VirtualMachine, machine: &Vm, vcenter: &VCenter, ctx: &Context) {
    facts.probe = readiness::probed(vm, machine, &ctx.prober);
    facts.host = vcenter.host_name(machine).await;
    let home = home(vm, vcenter, &ctx.caches).ok();
    facts.place = home.as_ref().and_then(|home| placement::observe::place(vm, home, vcenter, ctx).ok());
    facts.size = needs::class_size(vm, home.as_ref(), vcenter, ctx).await;
    facts.zone = placement::observe::zone(vm, machine, &ctx.caches);
}

/// The cluster module that the machine is still to become a member of.
async fn module(
    vm: &VirtualMachine,
    found: &Found,
    vcenter: &VCenter,
    ctx: &Context,
) -> Need<Option<String>> {
    let (pool, running) = match found {
        Found::Ours(machine) => {
            let running = (machine.power_state == Some(PowerState::On)).then_some(&machine.moref);
            (machine.pool.as_ref(), running)
        }
        Found::Nothing(nothing) => (nothing.needs.place.as_ref().ok().map(|place| &place.pool), None),
        _ => return Ok(None),
    };
    let Some(module) = placement::observe::module(vm, pool, vcenter)? else { return Ok(None) };
    // A machine that is off is put in when it is powered on; one that runs may have got its group later.
    let Some(machine) = running else { return Ok(Some(module)) };
    match vcenter.memberships.holds(&vcenter.client, &module, machine).await {
        Ok(holds) => Ok(Some(module).filter(|_| !holds)),
        Err(error) => {
            if error.is_not_found() {
                modules_gone(vm, &module, vcenter, ctx);
            }
            // A machine that runs goes on without.
            tracing::warn!(module, %error, "a cluster module can't be read");
            Ok(None)
        }
    }
}

/// Somebody removed the module: its policy makes another.
pub fn modules_gone(vm: &VirtualMachine, module: &str, vcenter: &VCenter, ctx: &Context) {
    vcenter.memberships.forget(module);
    let namespace = vm.namespace().unwrap_or_default();
    if let Some(policy) = &vm.spec.resource_policy_name {
        vcenter.realized_policies.forget(&key(Some(&namespace), policy));
        ctx.policies.enqueue(ObjectRef::new(policy).within(&namespace));
    }
}
