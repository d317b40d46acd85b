//! The end of a policy's folders and pools: those that its ledger records go, once nothing is in them.
//!
//! vCenter destroys a folder with everything in it. So a folder gets another name first, by which nobody looks for
//! it, and is read once more: what was moved or cloned into it meanwhile keeps it alive.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use vsphere::inventory::Presence;
use vsphere::{Error as VcenterError, MoRef};

use crate::policy::children::{Occupant, contents};
use crate::policy::context::{Error, occupied};
use crate::policy::ledger::{Child, ChildKind, Ledger};
use crate::policy::ledger_store::LedgerStore;
use crate::policy::whereabouts::{Whereabouts, locate};
use crate::vcenter::{LONGEST_NAME, VCenter};

/// How far the inventory may lag behind what vCenter answers.
const LAG: Duration = Duration::from_secs(1);

/// Destroys every folder and pool that the ledger records; one that others use stays.
pub async fn remove_children(
    ledger: &Ledger,
    store: &impl LedgerStore,
    occupant: &(impl Fn(&MoRef) -> Occupant + Sync),
    vcenter: &VCenter,
) -> Result<(), Error> {
    let _turn = vcenter.making_children.lock().await;
    let others = store.others();
    for child in &ledger.children {
        if child.kind == ChildKind::Folder {
            match vcenter.watch_folder(&child.parent()).await {
                Err(error) if error.is_not_found() => continue,
                watched => watched?,
            }
        }
        let Some((moref, name)) = find(child, vcenter).await? else { continue };
        if others.contains(moref.id()) {
            tracing::warn!(%moref, "another policy's ledger also contains it; keeping it");
            continue;
        }
        if child.id.is_none() && !contents(&moref, vcenter).await?.is_empty() {
            // It was about to be made when somebody else made it, and uses it.
            continue;
        }
        match child.kind {
            ChildKind::Folder => remove_folder(child, &moref, name, occupant, vcenter).await?,
            ChildKind::ResourcePool => {
                if is_free(child, &moref, occupant, vcenter).await? {
                    destroy(&moref, vcenter).await?;
                }
            }
        }
    }
    Ok(())
}

/// Which name a child has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// Its own, or one that an administrator gave it.
    AsMade,
    /// That of one that is being removed.
    AsRemoved,
}

/// The child, if it is where it was made, whatever its name is.
async fn find(child: &Child, vcenter: &VCenter) -> Result<Option<(MoRef, Named)>, VcenterError> {
    let parent = child.parent();
    let at = async |name: &str| match vcenter.client.find_child(&parent, name).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => found,
    };
    let is_it = |found: &MoRef| match child.moref() {
        Some(made) => made == *found,
        None => found.kind() == child.kind.type_name() && !vcenter.claimed.lock().contains(found.id()),
    };
    if let Some(found) = at(&child.name).await?.filter(is_it) {
        return Ok(Some((found, Named::AsMade)));
    }
    let Some(made) = child.moref() else { return Ok(None) };
    if let Some(found) = at(&removed_name(child, &made)).await?.filter(is_it) {
        return Ok(Some((found, Named::AsRemoved)));
    }
    match locate(&made, child, &BTreeSet::new(), vcenter).await? {
        Whereabouts::Here(renamed) => Ok(Some((renamed, Named::AsMade))),
        Whereabouts::Moved { name, parent } => {
            tracing::warn!(%made, name, %parent, "it was moved in vCenter; keeping it");
            Ok(None)
        }
        Whereabouts::Gone => Ok(None),
    }
}

async fn remove_folder(
    child: &Child,
    folder: &MoRef,
    name: Named,
    occupant: &impl Fn(&MoRef) -> Occupant,
    vcenter: &VCenter,
) -> Result<(), Error> {
    if name == Named::AsMade {
        if !is_free(child, folder, occupant, vcenter).await? {
            return Ok(());
        }
        rename(folder, &removed_name(child, folder), vcenter).await?;
    }
    let free = is_free(child, folder, occupant, vcenter).await;
    if matches!(free, Ok(true)) {
        return destroy(folder, vcenter).await;
    }
    // Whoever came to it knows it by its own name.
    if let Err(error) = rename(folder, &child.name, vcenter).await {
        tracing::warn!(%folder, %error, "a folder that is in use again could not be renamed back to its own name");
    }
    free.map(drop)
}

/// Whether nothing is in it; an error while VMs of ours are.
async fn is_free(
    child: &Child,
    moref: &MoRef,
    occupant: &impl Fn(&MoRef) -> Occupant,
    vcenter: &VCenter,
) -> Result<bool, Error> {
    let mut inside = contents(moref, vcenter).await?;
    let unknown: Vec<_> = inside.iter().filter(|object| is_unknown(object, vcenter)).collect();
    if !unknown.is_empty() {
        // The inventory is ahead of what was read, and a VM was destroyed since; or behind, and one has just come.
        join_all(unknown.into_iter().map(|vm| vcenter.inventory.wait_for_vm(vm, LAG))).await;
        inside = contents(moref, vcenter).await?;
    }
    if inside.iter().any(|object| occupant(object) != Occupant::Stranger) {
        return Err(occupied(format!("{} ({moref}) in vCenter still contains VMs", child.name)));
    }
    if !inside.is_empty() {
        tracing::info!(%moref, "it contains objects that do not belong to the policy; keeping it");
    }
    Ok(inside.is_empty())
}

fn is_unknown(object: &MoRef, vcenter: &VCenter) -> bool {
    object.kind() == "VirtualMachine" && vcenter.inventory.vm(object) == Presence::Absent
}

/// A name that says what becomes of the folder, and that nobody looks for.
fn removed_name(child: &Child, folder: &MoRef) -> String {
    api::names::joined(&child.name, &format!(".deleted-{}", folder.id()), LONGEST_NAME)
}

async fn rename(folder: &MoRef, name: &str, vcenter: &VCenter) -> Result<(), VcenterError> {
    let task = vcenter.client.rename(folder, name).await?;
    vcenter.inventory.wait_for_task(&task).await.map(drop)
}

async fn destroy(moref: &MoRef, vcenter: &VCenter) -> Result<(), Error> {
    match vcenter.destroy(moref).await {
        // A task that vCenter has forgotten says nothing of what it was to destroy: the next attempt finds out.
        Err(error) if error.is_not_found() && error.method() != "Task" => Ok(()),
        other => other.map_err(Error::from),
    }
}
