//! Machines that bear this stack's mark and whose objects are not in this cluster.
//!
//! They are reported and left alone: their objects may live in another cluster since a move. Nothing
//! looks for them by the clock. A change that may have made one is looked into a while later, when
//! what is only on its way is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kit::Started;
use kit::watch::Cache;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use vsphere::Vm;
use vsphere::inventory::Presence;

use crate::provider::{Provider, Site, mark};

/// How long what looks like an orphan may be one that is about to go, or whose object is about to come.
const GRACE: Duration = Duration::from_secs(30);

/// Knows which machines are nobody's.
#[derive(Clone)]
pub struct Orphans {
    machines: Cache<VirtualMachine>,
    suspected: Arc<Notify>,
    count: Gauge,
}

impl Orphans {
    /// Knows of none yet; an object that goes while its machine is there raises a suspicion.
    pub fn new(started: &Started, machines: &Cache<VirtualMachine>, provider: &Arc<Provider>) -> Self {
        let count = Gauge::default();
        let told = count.clone();
        started.metrics.register(|registry| {
            let help = "Machines in vCenter that bear our mark and that no object in this cluster owns";
            registry.register("vmop_orphaned_machines", help, told);
        });
        let orphans = Self { machines: machines.clone(), suspected: Arc::default(), count };
        let (suspected, provider) = (Arc::clone(&orphans.suspected), Arc::clone(provider));
        machines.listen(move |change| {
            let (Some(old), None) = (&change.old, &change.new) else { return };
            let uuid = old.spec.instance_uuid.as_deref().and_then(|uuid| uuid.parse().ok());
            if let (Some(uuid), Ok(site)) = (uuid, provider.site())
                && matches!(site.inventory.by_uuid(uuid), Presence::Present(_))
            {
                suspected.notify_one();
            }
        });
        orphans
    }

    /// A machine came or changed: it is looked into if nothing owns it.
    pub fn saw(&self, machine: &Vm, site: &Site) {
        if self.orphaned(machine, site) {
            self.suspected.notify_one();
        }
    }

    /// The inventory is complete: all of it is looked into.
    pub fn complete(&self) {
        self.suspected.notify_one();
    }

    /// Looks into suspicions and tells of what has changed, until dropped.
    pub async fn report(&self, site: &Site) {
        let mut known = BTreeSet::new();
        loop {
            // One that goes raises no suspicion: while there are some, they are looked at again, slowly.
            let again = if known.is_empty() { Duration::MAX } else { GRACE * 20 };
            let _ = tokio::time::timeout(again, self.suspected.notified()).await;
            tokio::time::sleep(GRACE).await;
            if !site.inventory.complete() {
                continue;
            }
            let now = self.found(site);
            for new in now.difference(&known) {
                tracing::warn!(
                    machine = new,
                    "no object in this cluster owns this machine. If none in another does, remove it in vCenter"
                );
            }
            for gone in known.difference(&now) {
                tracing::info!(machine = gone, "no longer without an owner");
            }
            self.count.set(i64::try_from(now.len()).unwrap_or(i64::MAX));
            known = now;
        }
    }

    fn found(&self, site: &Site) -> BTreeSet<String> {
        let all = site.inventory.all();
        all.iter().filter(|vm| self.orphaned(vm, site)).map(|vm| mark::described(vm)).collect()
    }

    /// Whether it bears our mark, and no object owns it. A golden template has a mark of its own.
    fn orphaned(&self, machine: &Vm, site: &Site) -> bool {
        mark::owner(machine, &site.settings.stack)
            .is_some_and(|owner| self.machines.get(owner.namespace.as_deref(), &owner.name).is_none())
    }
}
