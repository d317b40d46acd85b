//! Finds a VM in vCenter.

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
use crate::virtualmachine::error::TakenIdentity;
use crate::virtualmachine::placement::namespace::namespace_placements;

/// The maximum time by which the inventory lags behind vCenter's responses. After this time, the inventory contains all our
/// VMs.
const LAG: Duration = Duration::from_secs(1);

/// The result of the search for a VM in vCenter.
#[derive(Clone, Debug)]
pub enum Found {
    /// It is unknown whether the VM exists: vCenter can't be reached, or its inventory is incomplete.
    Unknown(Problem),
    /// The VM never existed and must be created.
    Absent,
    /// The VM can't be searched for or created, because its placement is missing.
    Nowhere(Unmet),
    /// The VM of the VirtualMachine.
    Ours(Arc<Vm>),
    /// The VM of the VirtualMachine, or a VM that may be it, while vCenter can't reach that VM. Its last known state isn't a
    /// basis for decisions.
    Unavailable(Arc<Vm>),
    /// The VM of the VirtualMachine, outside the watched folders.
    Moved(Arc<Vm>),
    /// The VM existed and is gone. The message says how.
    Lost(String),
    /// Another VM has the UUID or name of the VirtualMachine.
    Claimed(TakenIdentity),
}

/// The placements that are searched for a VM.
pub struct SearchPlaces<'a> {
    /// The placement of the namespace.
    pub namespace: &'a Need<Placement>,
    /// The VM's own placement: from its resource policy if it has one, otherwise from its namespace.
    pub own: &'a Need<Placement>,
}

/// Searches vCenter for the VM of the VirtualMachine `vm`.
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
    if let Some(unidentified) = find_unidentified(vm, vcenter) {
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

/// Watches all folders that may contain the VM, in all zones, because a VM whose zone changed must still be found.
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

/// Searches the cache for the VM by its UUID, then by its name.
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
        // The owner is only known once the VM can be reached.
        Presence::Unavailable(vsphere_vm) => Some(Found::Unavailable(vsphere_vm)),
        Presence::Present(vsphere_vm) if identity.is_of(&vsphere_vm) => {
            Some(check_mark(mark, vsphere_vm, || format!("The name {name} in its folder")))
        }
        Presence::Present(vsphere_vm) => {
            let what = format!("The name {name} in its folder");
            Some(Found::Claimed(TakenIdentity { what, holder: mark.describe_holder(&vsphere_vm) }))
        }
        Presence::Absent | Presence::Unknown => None,
    }
}

fn check_mark(mark: &Mark, vsphere_vm: Arc<Vm>, what: impl FnOnce() -> String) -> Found {
    if mark.is_on(&vsphere_vm) {
        Found::Ours(vsphere_vm)
    } else {
        Found::Claimed(TakenIdentity { what: what(), holder: mark.describe_holder(&vsphere_vm) })
    }
}

/// Returns a VM whose configuration was never read and that may be the VM of the VirtualMachine `vm`.
///
/// This is the VM in the status, or one with the VirtualMachine's name. If the VirtualMachine had a VM and has lost its status,
/// as after a move to another cluster, this is any VM whose configuration was never read.
pub fn find_unidentified(vm: &VirtualMachine, vcenter: &VCenter) -> Option<Arc<Vm>> {
    let id = vm.status.as_ref().and_then(|status| status.unique_id.as_deref());
    let name = vm.name_any();
    let may_be = |vsphere_vm: &Arc<Vm>| match id {
        Some(id) => vsphere_vm.moref.id() == id || bears_name(vsphere_vm, &name),
        None => existed(vm) || bears_name(vsphere_vm, &name),
    };
    vcenter.inventory.unidentified().into_iter().find(may_be)
}

/// Returns true if the VM or its `.vmx` file has the name. A VM that vCenter can't read may be shown with its file path, such
/// as `/vmfs/volumes/5f3…/cp-0/cp-0.vmx`.
fn bears_name(vsphere_vm: &Vm, name: &str) -> bool {
    let file = vsphere_vm.name.rsplit('/').next().unwrap_or_default();
    vsphere_vm.name == name || file.strip_suffix(".vmx") == Some(name)
}

/// Searches for a VM that existed and isn't in the cache. That VM was moved away or is gone.
async fn find_elsewhere(vm: &VirtualMachine, identity: Identity, mark: &Mark, vcenter: &VCenter) -> Found {
    match vcenter.inventory.locate(identity.instance, last_reference(vm).as_ref()).await {
        Ok(Location::Here(vsphere_vm)) if mark.is_on(&vsphere_vm) => Found::Ours(vsphere_vm),
        Ok(Location::Elsewhere(vsphere_vm)) if mark.is_on(&vsphere_vm) => Found::Moved(vsphere_vm),
        Ok(Location::Unavailable(vsphere_vm)) => Found::Unavailable(vsphere_vm),
        Ok(_) => Found::Lost(describe_loss(vm, vcenter).await),
        Err(error) => Found::Unknown(vcenter.call_problem(&error)),
    }
}

/// Returns the managed object reference that the status recorded for the VM, or `None` if it didn't record one.
pub fn last_reference(vm: &VirtualMachine) -> Option<MoRef> {
    let id = vm.status.as_ref()?.unique_id.as_deref()?;
    Some(MoRef::new("VirtualMachine", id))
}

/// Returns true if the VirtualMachine has a controller owner reference. The UUIDs of such VirtualMachines are random.
fn is_controlled(vm: &VirtualMachine) -> bool {
    vm.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// Searches for the VM that has the VirtualMachine's BIOS UUID, and returns `None` if there isn't one. The search covers the
/// inventory, which contains other namespaces' VMs, too. If the VirtualMachine doesn't have a controller owner reference, a user
/// may have chosen its UUIDs, so the search covers all of vCenter.
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
    Some(Found::Claimed(TakenIdentity { what: what(), holder: None }))
}
