//! Every read that a machine's plan rests on.

mod bootstrap;
mod cards;
mod found;
mod needs;
mod place;

use api::vmop::VirtualMachine;
use kube::ResourceExt;

use super::clone::Identity;
use super::plan::{Facts, Found};
use super::{Context, Error, readiness};
use crate::provider::mark::Mark;

pub use found::same;
pub use place::home;

/// Everything that is to be known of `vm`.
pub async fn facts(vm: &VirtualMachine, identity: Identity, ctx: &Context) -> Result<Facts, Error> {
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    let now = jiff::Timestamp::now();
    let site = match ctx.provider.site() {
        Ok(site) => site,
        Err(problem) => {
            let mark = Mark::new(&namespace, &name, "");
            return Ok(Facts::new(identity, mark, Found::Unknown(problem), now));
        }
    };
    let mark = Mark::new(&namespace, &name, &site.settings.stack);
    let found = found::found(vm, identity, &mark, &site, ctx).await?;
    let mut facts = Facts::new(identity, mark, found, now);
    if let Found::Ours(machine) | Found::Moved(machine) = &facts.found {
        facts.probe = readiness::probed(vm, machine, &ctx.prober);
        facts.host = site.host_name(machine).await;
    }
    if let Found::Ours(machine) = &facts.found
        && vm.spec.volumes.iter().any(|volume| volume.v_sphere_volume.is_some())
    {
        match needs::hardware(vm, machine, &site, ctx).await {
            Ok(hardware) => facts.hardware = Some(hardware),
            Err(error) => facts.found = Found::Unknown(site.problem(&error)),
        }
    }
    Ok(facts)
}
