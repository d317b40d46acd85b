//! What vCenter has of a machine.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::Vm;
use vsphere::inventory::{Location, Presence};

use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::mark::Mark;
use crate::vcenter::{Placement, VCenter, mark};
use crate::virtualmachine::bootstrap::observe::read;
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::identity::lost;
use crate::virtualmachine::nic::observe::cards;
use crate::virtualmachine::observe::needs::needs;
use crate::virtualmachine::placement::observe::{home, homes, place};
use crate::virtualmachine::placement::zones::PLACEMENT_NOT_READY;
use crate::virtualmachine::plan::{Claim, Found, Nothing, existed};
use crate::virtualmachine::{Context, Error};

/// How far the stream may lag behind what vCenter answers; a machine of ours has entered by then.
const LAG: Duration = Duration::from_secs(1);

/// What vCenter has of `vm`, or what it needs to be made there.
pub async fn found(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    vcenter: &Arc<VCenter>,
    ctx: &Context,
) -> Result<Found, Error> {
    let home = home(vm, vcenter, &ctx.caches);
    // Of all zones: a machine whose zone is drawn anew must be seen where it is.
    let homes = homes(&vm.namespace().unwrap_or_default(), vcenter, &ctx.caches).unwrap_or_default();
    let mut folders: Vec<_> = homes.iter().chain(&home).map(|place| &place.folder).collect();
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        let Err(error) = vcenter.watch_folder(folder).await else { continue };
        let problem = vcenter.problem(&error);
        return Ok(if error.is_not_found() {
            Found::Nowhere(Unmet::in_vcenter(PLACEMENT_NOT_READY, problem.to_string()))
        } else {
            Found::Unknown(problem)
        });
    }
    if let Some(problem) = vcenter.inventory_problem() {
        return Ok(Found::Unknown(problem));
    }
    let place = match &home {
        Ok(home) => place(vm, home, vcenter, ctx),
        Err(unmet) => Err(unmet.clone()),
    };
    if let Some(found) = cached(vm, identity, mark, vcenter, place.as_ref().ok()) {
        return Ok(found);
    }
    if existed(vm) {
        return Ok(elsewhere(vm, identity, mark, vcenter).await);
    }
    let home = match home {
        Ok(home) => home,
        Err(unmet) => return Ok(Found::Nowhere(unmet)),
    };
    // Most machines are there: their passes are spared the size of this.
    Box::pin(nothing(vm, identity, mark, &home, place, vcenter, ctx)).await
}

/// What the cache says: the machine by its UUID, else by its name.
fn cached(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    vcenter: &VCenter,
    place: Option<&Placement>,
) -> Option<Found> {
    if let Presence::Present(machine) = vcenter.inventory.by_uuid(identity.instance) {
        return Some(claimed(mark, machine, || format!("Instance UUID {}", identity.instance)));
    }
    let name = vm.name_any();
    match vcenter.inventory.by_name(&place?.folder, &name) {
        Presence::Present(machine) if same(&machine, identity) => {
            Some(claimed(mark, machine, || format!("The name {name} in its folder")))
        }
        Presence::Present(machine) => {
            let what = format!("The name {name} in its folder");
            Some(Found::Anothers(Claim { what, holder: mark::described(&machine) }))
        }
        Presence::Absent | Presence::Unknown => None,
    }
}

fn claimed(mark: &Mark, machine: Arc<Vm>, what: impl FnOnce() -> String) -> Found {
    if mark.is_on(&machine) {
        Found::Ours(machine)
    } else {
        Found::Anothers(Claim { what: what(), holder: mark::described(&machine) })
    }
}

/// Whether `machine` is who it should be; vCenter may have changed one of two UUIDs, never both.
pub fn same(machine: &Vm, identity: Identity) -> bool {
    machine.uuid == Some(identity.bios) || machine.instance_uuid == Some(identity.instance)
}

/// A machine that was there and is not in the cache: moved away, or gone.
async fn elsewhere(vm: &VirtualMachine, identity: Identity, mark: &Mark, vcenter: &VCenter) -> Found {
    match vcenter.inventory.locate(identity.instance).await {
        Ok(Location::Here(machine)) if mark.is_on(&machine) => Found::Ours(machine),
        Ok(Location::Elsewhere(machine)) if mark.is_on(&machine) => Found::Moved(machine),
        Ok(_) => Found::Lost(lost::how(vm, vcenter).await),
        Err(error) => Found::Unknown(vcenter.problem(&error)),
    }
}

/// There is no machine yet: what it needs, and whether its BIOS UUID is free in all of vCenter.
async fn nothing(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    home: &Placement,
    place: Need<Placement>,
    vcenter: &Arc<VCenter>,
    ctx: &Context,
) -> Result<Found, Error> {
    let told = read(vm, ctx).await?;
    let pool = place.as_ref().ok().map(|place| &place.pool);
    let plugged = match cards(vm, pool, vcenter, ctx).await {
        Ok(plugged) => plugged,
        Err(Error::Vcenter(error)) => return Ok(Found::Unknown(vcenter.problem(&error))),
        Err(error) => return Err(error),
    };
    let about = (identity, &told, plugged.cards);
    let needs = match needs(vm, home, place, about, vcenter, ctx).await {
        Ok(needs) => needs,
        Err(error) => return Ok(Found::Unknown(vcenter.problem(&error))),
    };
    if needs.first_unmet().is_none()
        && !controlled(vm)
        && let Some(found) = holder(identity, mark, vcenter).await
    {
        return Ok(found);
    }
    Ok(Found::Nothing(Box::new(Nothing { needs, asks: plugged.asks, direct: vcenter.settings.direct })))
}

/// Whether a program made the object: then its UUIDs were drawn, and nobody else can have them.
fn controlled(vm: &VirtualMachine) -> bool {
    vm.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// The machine that has our BIOS UUID anywhere in vCenter, if there is one.
async fn holder(identity: Identity, mark: &Mark, vcenter: &VCenter) -> Option<Found> {
    let unknown = |error: vsphere::Error| Some(Found::Unknown(vcenter.problem(&error)));
    let moref = match vcenter.client.find_by_uuid(identity.bios, false).await {
        Ok(moref) => moref?,
        Err(error) => return unknown(error),
    };
    if let Ok(machine) = vcenter.inventory.wait_for_vm(&moref, LAG).await {
        return Some(claimed(mark, machine, || format!("BIOS UUID {}", identity.bios)));
    }
    let name = match vcenter.client.retrieve(std::slice::from_ref(&moref), &["name"]).await {
        Ok(read) => read.first().and_then(|object| object.get("name").as_str().map(str::to_owned)),
        Err(error) if error.is_not_found() => return None,
        Err(error) => return unknown(error),
    };
    let holder = format!("{} ({})", name.unwrap_or_default(), moref.id());
    Some(Found::Anothers(Claim { what: format!("BIOS UUID {}", identity.bios), holder }))
}
