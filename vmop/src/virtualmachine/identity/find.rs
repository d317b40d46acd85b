//! What vCenter has of a VM.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::inventory::{Location, Presence};
use vsphere::{MoRef, Vm};

use super::lost::describe_loss;
use super::uuids::{Identity, existed};
use crate::caches::Caches;
use crate::unmet::{Need, Unmet};
use crate::vcenter::mark::Mark;
use crate::vcenter::{Placement, Problem, VCenter};
use crate::virtualmachine::error::Claim;
use crate::virtualmachine::placement::namespace::namespace_placements;

/// How far the inventory may lag behind what vCenter answers; a VM of ours has entered by then.
const LAG: Duration = Duration::from_secs(1);

/// What vCenter has of a VM.
#[derive(Clone, Debug)]
pub enum Found {
    /// Nobody can know: vCenter can't be reached, or its inventory is not complete.
    Unknown(Problem),
    /// Nothing, and nothing ever was: it is to be created.
    Absent,
    /// Nothing, and there is no place for it.
    Nowhere(Unmet),
    /// Our VM.
    Ours(Arc<Vm>),
    /// Our VM, or one that may be ours, and vCenter does not reach it: nothing is decided from it.
    Unavailable(Arc<Vm>),
    /// Our VM, where we do not look.
    Moved(Arc<Vm>),
    /// It existed, and is gone; the message says how.
    Lost(String),
    /// Somebody else has its identity.
    Claimed(Claim),
}

/// Where a VM is looked for: the placement of its namespace and, where it has one, of its resource policy.
pub struct SearchPlaces<'a> {
    /// In its namespace.
    pub namespace: &'a Need<Placement>,
    /// Its own: of its resource policy, else of its namespace.
    pub own: &'a Need<Placement>,
}

/// What vCenter has of `vm`.
pub async fn find(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    places: &SearchPlaces<'_>,
    vcenter: &VCenter,
    caches: &Caches,
) -> Found {
    if let Some(problem) = watch_folders(vm, places.namespace, vcenter, caches).await {
        return problem;
    }
    if let Some(problem) = vcenter.inventory_problem() {
        return Found::Unknown(problem);
    }
    if let Some(found) = find_in_cache(vm, identity, mark, vcenter, places.own.as_ref().ok()) {
        return found;
    }
    if let Some(unidentified) = unidentified(vm, vcenter) {
        return Found::Unavailable(unidentified);
    }
    if existed(vm) {
        return find_elsewhere(vm, identity, mark, vcenter).await;
    }
    match places.namespace {
        Ok(_) => Found::Absent,
        Err(unmet) => Found::Nowhere(unmet.clone()),
    }
}

/// Has all folders watched that the VM may lie in; of all zones, as one whose zone is chosen anew must be seen where it is.
async fn watch_folders(
    vm: &VirtualMachine,
    home: &Need<Placement>,
    vcenter: &VCenter,
    caches: &Caches,
) -> Option<Found> {
    let placements = namespace_placements(&vm.namespace().unwrap_or_default(), vcenter, caches);
    let placements = placements.unwrap_or_default();
    let mut folders: Vec<_> = placements.iter().chain(home).map(|placement| &placement.folder).collect();
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        let Err(error) = vcenter.watch_folder(folder).await else { continue };
        let problem = vcenter.call_problem(&error);
        return Some(if error.is_not_found() {
            Found::Nowhere(Unmet::in_vcenter(reason::PLACEMENT_NOT_READY, problem.to_string()))
        } else {
            Found::Unknown(problem)
        });
    }
    None
}

/// What the cache says: the VM by its UUID, else by its name.
fn find_in_cache(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    vcenter: &VCenter,
    placement: Option<&Placement>,
) -> Option<Found> {
    match vcenter.inventory.by_uuid(identity.instance) {
        Presence::Present(vsphere_vm) => {
            return Some(check_mark(mark, vsphere_vm, || format!("Instance UUID {}", identity.instance)));
        }
        Presence::Unavailable(vsphere_vm) => return Some(Found::Unavailable(vsphere_vm)),
        Presence::Absent | Presence::Unknown => {}
    }
    let name = vm.name_any();
    match vcenter.inventory.by_name(&placement?.folder, &name) {
        // Whose it is shows when it can be reached.
        Presence::Unavailable(vsphere_vm) => Some(Found::Unavailable(vsphere_vm)),
        Presence::Present(vsphere_vm) if identity.is_of(&vsphere_vm) => {
            Some(check_mark(mark, vsphere_vm, || format!("The name {name} in its folder")))
        }
        Presence::Present(vsphere_vm) => {
            let what = format!("The name {name} in its folder");
            Some(Found::Claimed(Claim { what, holder: mark.describe_holder(&vsphere_vm) }))
        }
        Presence::Absent | Presence::Unknown => None,
    }
}

fn check_mark(mark: &Mark, vsphere_vm: Arc<Vm>, what: impl FnOnce() -> String) -> Found {
    if mark.is_on(&vsphere_vm) {
        Found::Ours(vsphere_vm)
    } else {
        Found::Claimed(Claim { what: what(), holder: mark.describe_holder(&vsphere_vm) })
    }
}

/// A VM whose configuration was never read and that may be this object's.
///
/// It is the one that the status names, or it bears its name. An object that had a VM and has no status, as after a move
/// to another cluster, may have any of them.
pub fn unidentified(vm: &VirtualMachine, vcenter: &VCenter) -> Option<Arc<Vm>> {
    let id = vm.status.as_ref().and_then(|status| status.unique_id.as_deref());
    let name = vm.name_any();
    let may_be = |vsphere_vm: &Arc<Vm>| match id {
        Some(id) => vsphere_vm.moref.id() == id || bears_name(vsphere_vm, &name),
        None => existed(vm) || bears_name(vsphere_vm, &name),
    };
    vcenter.inventory.unidentified().into_iter().find(may_be)
}

/// Whether it is called so. One that vCenter can't read may be shown by the path of its file, as
/// `/vmfs/volumes/5f3…/cp-0/cp-0.vmx`.
fn bears_name(vsphere_vm: &Vm, name: &str) -> bool {
    let file = vsphere_vm.name.rsplit('/').next().unwrap_or_default();
    vsphere_vm.name == name || file.strip_suffix(".vmx") == Some(name)
}

/// A VM that was there and is not in the cache: moved away, or gone.
async fn find_elsewhere(vm: &VirtualMachine, identity: Identity, mark: &Mark, vcenter: &VCenter) -> Found {
    match vcenter.inventory.locate(identity.instance, last_reference(vm).as_ref()).await {
        Ok(Location::Here(vsphere_vm)) if mark.is_on(&vsphere_vm) => Found::Ours(vsphere_vm),
        Ok(Location::Elsewhere(vsphere_vm)) if mark.is_on(&vsphere_vm) => Found::Moved(vsphere_vm),
        Ok(Location::Unavailable(vsphere_vm)) => Found::Unavailable(vsphere_vm),
        Ok(_) => Found::Lost(describe_loss(vm, vcenter).await),
        Err(error) => Found::Unknown(vcenter.call_problem(&error)),
    }
}

/// The VM that the status names: the last that was seen of it.
pub fn last_reference(vm: &VirtualMachine) -> Option<MoRef> {
    let id = vm.status.as_ref()?.unique_id.as_deref()?;
    Some(MoRef::new("VirtualMachine", id))
}

/// Whether a controller created the object: then its UUIDs are random.
fn is_controlled(vm: &VirtualMachine) -> bool {
    vm.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// The VM that has our BIOS UUID, if there is one: in the inventory, and, for an object whose UUIDs were given by hand or
/// drawn for it alone, anywhere in vCenter.
///
/// Nobody's owner references spare the look into the inventory, where all VMs of other namespaces are.
pub async fn find_holder(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    vcenter: &VCenter,
) -> Option<Found> {
    let what = || format!("BIOS UUID {}", identity.bios);
    if let Presence::Present(vsphere_vm) = vcenter.inventory.by_bios_uuid(identity.bios) {
        return Some(check_mark(mark, vsphere_vm, what));
    }
    if is_controlled(vm) {
        return None;
    }
    let moref = match vcenter.client.find_by_uuid(identity.bios, false).await {
        Ok(moref) => moref?,
        Err(error) => return Some(Found::Unknown(vcenter.call_problem(&error))),
    };
    if let Ok(vsphere_vm) = vcenter.inventory.wait_for_vm(&moref, LAG).await {
        return Some(check_mark(mark, vsphere_vm, what));
    }
    tracing::warn!(vsphere_vm = %moref, "{} belongs to a VM that is not in the inventory", what());
    Some(Found::Claimed(Claim { what: what(), holder: None }))
}
