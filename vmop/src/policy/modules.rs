//! Makes a policy's cluster modules, each once, whatever happens in between.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use serde_json::json;
use vsphere::MoRef;
use vsphere::automation::ClusterModule;

use super::ledger::{ANNOTATION, Ledger, Slot};
use super::{Context, Error};
use crate::vcenter::VCenter;

/// Where a ledger is kept.
pub trait Book {
    /// It is written down.
    async fn write(&mut self, ledger: &Ledger) -> kube::Result<()>;

    /// The modules that all other ledgers claim.
    fn others(&self) -> BTreeSet<String>;
}

/// The book of a policy: its annotation.
pub struct Annotation<'a> {
    policy: VirtualMachineSetResourcePolicy,
    ctx: &'a Context,
}

impl<'a> Annotation<'a> {
    /// The book of `policy`, as it was last seen.
    pub fn new(policy: &VirtualMachineSetResourcePolicy, ctx: &'a Context) -> Self {
        Self { policy: policy.clone(), ctx }
    }
}

impl Book for Annotation<'_> {
    async fn write(&mut self, ledger: &Ledger) -> kube::Result<()> {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: ledger.text() } } });
        self.policy = self.ctx.api.patch(&self.policy, patch).await?;
        Ok(())
    }

    fn others(&self) -> BTreeSet<String> {
        let all = self.ctx.caches.policies.all();
        let others = all.iter().filter(|other| other.uid() != self.policy.uid());
        others.flat_map(|other| Ledger::read(other).ids().cloned().collect::<Vec<_>>()).collect()
    }
}

/// The groups of a policy in those clusters that can have modules: a single host can't.
pub fn wanted(policy: &VirtualMachineSetResourcePolicy, clusters: &BTreeSet<MoRef>) -> BTreeSet<Slot> {
    let groups = policy.spec.cluster_modules.iter().map(|module| &module.group_name);
    let slots = groups.flat_map(|group| {
        let clusters = clusters.iter().filter(|cluster| cluster.kind() == CLUSTER);
        clusters.map(|cluster| Slot { cluster: cluster.id().to_owned(), group: group.clone() })
    });
    slots.collect()
}

const CLUSTER: &str = "ClusterComputeResource";

/// Every slot has a module; the answer is the modules by cluster and group.
pub async fn made(
    wanted: &BTreeSet<Slot>,
    mut ledger: Ledger,
    book: &mut impl Book,
    vcenter: &VCenter,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Error> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    // One at a time: what appears meanwhile must be this policy's.
    let _turn = vcenter.making_modules.lock().await;
    let there = vcenter.client.cluster_modules().await?;
    ledger.keep(&there);
    let missing = ledger.missing(wanted);
    if !missing.is_empty() {
        completed(&mut ledger, missing, &there, book, vcenter).await?;
    }
    Ok(ledger.modules)
}

/// Nothing is left of the modules; `wanted` are those that there may be.
pub async fn removed(
    wanted: &BTreeSet<Slot>,
    mut ledger: Ledger,
    book: &impl Book,
    vcenter: &VCenter,
) -> Result<(), Error> {
    let _turn = vcenter.making_modules.lock().await;
    if ledger.before.is_some() {
        let there = vcenter.client.cluster_modules().await?;
        let missing = ledger.missing(wanted);
        found(&mut ledger, &missing, &there, book, vcenter).await?;
    }
    for id in ledger.ids() {
        match vcenter.client.delete_cluster_module(id).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => vcenter.memberships.forget(id),
        }
    }
    Ok(())
}

/// The missing modules are there and written down.
async fn completed(
    ledger: &mut Ledger,
    missing: Vec<Slot>,
    there: &[ClusterModule],
    book: &mut impl Book,
    vcenter: &VCenter,
) -> Result<(), Error> {
    let missing = if ledger.before.is_some() {
        found(ledger, &missing, there, book, vcenter).await?
    } else {
        ledger.begin(there);
        book.write(ledger).await?;
        missing
    };
    let mut made = Vec::new();
    for slot in missing {
        let id = vcenter.client.create_cluster_module(&MoRef::new(CLUSTER, slot.cluster.as_str())).await?;
        tracing::info!(group = slot.group, cluster = slot.cluster, module = id, "cluster module made");
        made.push(id.clone());
        ledger.enter(slot, id);
    }
    ledger.before = None;
    let written = book.write(ledger).await;
    if let Err(error) = &written
        && (kit::apply::is_conflict(error) || kit::apply::is_gone(error))
    {
        // Somebody else was at it too, or the policy is gone: what was made here is in nobody's book.
        for id in made {
            if let Err(error) = vcenter.client.delete_cluster_module(&id).await {
                tracing::warn!(module = id, %error, "an empty cluster module stays behind");
            }
        }
    }
    written?;
    vcenter.claimed_modules.lock().extend(ledger.ids().cloned());
    Ok(())
}

/// The modules that a pass before a crash has made are entered; the answer is what is missing still.
async fn found(
    ledger: &mut Ledger,
    missing: &[Slot],
    there: &[ClusterModule],
    book: &impl Book,
    vcenter: &VCenter,
) -> Result<Vec<Slot>, Error> {
    let others = book.others();
    let claimed = |id: &str| others.contains(id) || vcenter.claimed_modules.lock().contains(id);
    let mut left = Vec::new();
    let clusters: BTreeSet<_> = missing.iter().map(|slot| slot.cluster.as_str()).collect();
    for cluster in clusters {
        let mut empty = Vec::new();
        for id in ledger.appeared(cluster, there, claimed) {
            if vcenter.client.cluster_module_members(id).await?.is_empty() {
                empty.push(id.to_owned());
            }
        }
        let slots: Vec<_> = missing.iter().filter(|slot| slot.cluster == cluster).cloned().collect();
        if empty.len() > slots.len() {
            tracing::warn!(cluster, modules = ?empty, "nobody can tell whose these empty cluster modules are: they stay");
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
