//! Removes a policy's folders and pools that its ledger records, once they are empty.
//!
//! vCenter destroys a folder with its contents. So the folder is renamed first, which hides it from clients that look it up by
//! name, and then read again. The folder is kept if VMs were moved or cloned into it meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use vsphere::inventory::Presence;
use vsphere::{Error as VcenterError, MoRef};

use crate::policy::children::contents;
use crate::policy::context::{Error, occupied};
use crate::policy::ledger::{Child, ChildKind, Ledger};
use crate::policy::ledger_store::LedgerStore;
use crate::policy::whereabouts::{Whereabouts, locate};
use crate::vcenter::{LONGEST_NAME, VCenter};

/// The maximum time by which the inventory lags behind vCenter's responses.
const LAG: Duration = Duration::from_secs(1);

/// Destroys the folders and pools that the ledger records, except those that others use. `may_be_own` returns true if an object
/// is a VM of the policy's namespace, or may be one.
pub async fn remove_children(
    ledger: &Ledger,
    store: &impl LedgerStore,
    may_be_own: &(impl Fn(&MoRef) -> bool + Sync),
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
            // Another client created the object before the policy could, and uses it.
            continue;
        }
        match child.kind {
            ChildKind::Folder => remove_folder(child, &moref, name, may_be_own, vcenter).await?,
            ChildKind::ResourcePool => {
                if is_free(child, &moref, may_be_own, vcenter).await? {
                    destroy(&moref, vcenter).await?;
                }
            }
        }
    }
    Ok(())
}

/// The current name of a child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The child's own name, or a name that an administrator gave it.
    AsMade,
    /// The name of a child that is being removed.
    AsRemoved,
}

/// Looks for the child in its parent, under its own name, its name for removal or a new name from an administrator. Returns the
/// child and the kind of its name, or `None` if it isn't there.
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
    may_be_own: &impl Fn(&MoRef) -> bool,
    vcenter: &VCenter,
) -> Result<(), Error> {
    if name == Named::AsMade {
        if !is_free(child, folder, may_be_own, vcenter).await? {
            return Ok(());
        }
        rename(folder, &removed_name(child, folder), vcenter).await?;
    }
    let free = is_free(child, folder, may_be_own, vcenter).await;
    if matches!(free, Ok(true)) {
        return destroy(folder, vcenter).await;
    }
    // Clients that put objects into the folder know it by its own name.
    if let Err(error) = rename(folder, &child.name, vcenter).await {
        tracing::warn!(%folder, %error, "a folder that is in use again could not be renamed back to its own name");
    }
    free.map(drop)
}

/// Returns true if the folder or pool is empty, and false if it contains only objects of others. Fails if it contains VMs of
/// the policy or its namespace, or VMs whose owner is unknown.
async fn is_free(
    child: &Child,
    moref: &MoRef,
    may_be_own: &impl Fn(&MoRef) -> bool,
    vcenter: &VCenter,
) -> Result<bool, Error> {
    let mut inside = contents(moref, vcenter).await?;
    let unknown: Vec<_> = inside.iter().filter(|object| is_unknown(object, vcenter)).collect();
    if !unknown.is_empty() {
        // The inventory may be ahead (a VM was destroyed) or behind (a VM was just created).
        join_all(unknown.into_iter().map(|vm| vcenter.inventory.wait_for_vm(vm, LAG))).await;
        inside = contents(moref, vcenter).await?;
    }
    if inside.iter().any(may_be_own) {
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

/// Returns the name for a folder during its removal. Clients don't look up this name.
fn removed_name(child: &Child, folder: &MoRef) -> String {
    api::names::joined(&child.name, &format!(".deleted-{}", folder.id()), LONGEST_NAME)
}

async fn rename(folder: &MoRef, name: &str, vcenter: &VCenter) -> Result<(), VcenterError> {
    let task = vcenter.client.rename(folder, name).await?;
    vcenter.inventory.wait_for_task(&task).await.map(drop)
}

async fn destroy(moref: &MoRef, vcenter: &VCenter) -> Result<(), Error> {
    match vcenter.destroy(moref).await {
        // A missing task doesn't show whether the object was destroyed. The next attempt finds out.
        Err(error) if error.is_not_found() && error.method() != "Task" => Ok(()),
        other => other.map_err(Error::from),
    }
}
