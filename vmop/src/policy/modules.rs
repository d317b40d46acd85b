//! Creates a policy's cluster modules exactly once, even after crashes.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::VirtualMachineSetResourcePolicy;
use vsphere::MoRef;
use vsphere::automation::ClusterModule;

use crate::policy::context::Error;
use crate::policy::ledger::{Ledger, ModuleSlot};
use crate::policy::ledger_store::LedgerStore;
use crate::vcenter::VCenter;

/// Returns the slots that the policy needs: one for each of its groups in each cluster. Standalone hosts don't support modules.
pub fn wanted(policy: &VirtualMachineSetResourcePolicy, clusters: &BTreeSet<MoRef>) -> BTreeSet<ModuleSlot> {
    let groups = policy.spec.cluster_modules.iter().map(|module| &module.group_name);
    let slots = groups.flat_map(|group| {
        let clusters = clusters.iter().filter(|cluster| cluster.kind() == CLUSTER);
        clusters.map(|cluster| ModuleSlot { cluster: cluster.id().to_owned(), group: group.clone() })
    });
    slots.collect()
}

const CLUSTER: &str = "ClusterComputeResource";

/// Creates the missing modules and records them. Returns all module ids by cluster and group.
pub async fn create_missing(
    wanted: &BTreeSet<ModuleSlot>,
    mut ledger: Ledger,
    store: &mut impl LedgerStore,
    vcenter: &VCenter,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Error> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    // One policy at a time: modules that appear meanwhile must belong to this policy.
    let _turn = vcenter.making_modules.lock().await;
    let there = vcenter.client.list_cluster_modules().await?;
    ledger.keep(&there);
    let missing = ledger.missing(wanted);
    if !missing.is_empty() {
        create(&mut ledger, missing, &there, store, vcenter).await?;
    }
    Ok(ledger.modules)
}

/// Removes the modules. `wanted` contains the slots whose modules may exist without a record.
pub async fn remove(
    wanted: &BTreeSet<ModuleSlot>,
    mut ledger: Ledger,
    store: &impl LedgerStore,
    vcenter: &VCenter,
) -> Result<(), Error> {
    let _turn = vcenter.making_modules.lock().await;
    if ledger.known.is_some() {
        let there = vcenter.client.list_cluster_modules().await?;
        let missing = ledger.missing(wanted);
        find_created(&mut ledger, &missing, &there, store, vcenter).await?;
    }
    let others = store.others();
    for id in ledger.module_ids() {
        if others.contains(id) {
            tracing::warn!(module = id, "another policy's ledger also contains it; keeping it");
            continue;
        }
        vcenter.client.delete_cluster_module(id).await?;
        vcenter.memberships.forget(id);
    }
    Ok(())
}

/// Creates the missing modules and records them.
async fn create(
    ledger: &mut Ledger,
    missing: Vec<ModuleSlot>,
    there: &[ClusterModule],
    store: &mut impl LedgerStore,
    vcenter: &VCenter,
) -> Result<(), Error> {
    let missing = if ledger.known.is_some() {
        find_created(ledger, &missing, there, store, vcenter).await?
    } else {
        ledger.begin(there);
        store.write(ledger).await?;
        missing
    };
    let mut made = Vec::new();
    for slot in missing {
        let id = vcenter.client.create_cluster_module(&MoRef::new(CLUSTER, slot.cluster.as_str())).await?;
        tracing::info!(group = slot.group, cluster = slot.cluster, module = id, "cluster module created");
        made.push(id.clone());
        ledger.enter(slot, id);
    }
    ledger.known = None;
    let written = store.write(ledger).await;
    if let Err(error) = &written
        && (kit::apply::is_conflict(error) || kit::apply::is_gone(error))
    {
        // Another process created modules too, or the policy was deleted. The modules that were created here aren't in any
        // ledger.
        for id in made {
            if let Err(error) = vcenter.client.delete_cluster_module(&id).await {
                tracing::warn!(module = id, %error, "an empty cluster module could not be deleted; delete it in vCenter");
            }
        }
    }
    written?;
    vcenter.claimed.lock().extend(ledger.ids().cloned());
    Ok(())
}

/// Records the modules that a reconcile created before a crash. Returns the slots that are still missing.
async fn find_created(
    ledger: &mut Ledger,
    missing: &[ModuleSlot],
    there: &[ClusterModule],
    store: &impl LedgerStore,
    vcenter: &VCenter,
) -> Result<Vec<ModuleSlot>, Error> {
    let others = store.others();
    let claimed = |id: &str| others.contains(id) || vcenter.claimed.lock().contains(id);
    let mut left = Vec::new();
    let clusters: BTreeSet<_> = missing.iter().map(|slot| slot.cluster.as_str()).collect();
    for cluster in clusters {
        let mut empty = Vec::new();
        for id in ledger.appeared(cluster, there, claimed) {
            if vcenter.client.list_cluster_module_members(id).await?.is_empty() {
                empty.push(id.to_owned());
            }
        }
        let slots: Vec<_> = missing.iter().filter(|slot| slot.cluster == cluster).cloned().collect();
        if empty.len() > slots.len() {
            tracing::warn!(cluster, modules = ?empty, "the owner of these empty cluster modules is unknown; keeping them");
            empty.clear();
        }
        let mut empty = empty.into_iter();
        for slot in slots {
            match empty.next() {
                Some(id) => ledger.enter(slot, id),
                None => left.push(slot),
            }
        }
    }
    Ok(left)
}
