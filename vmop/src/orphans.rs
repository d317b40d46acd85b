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
    grace: Duration,
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
        let orphans = Self { machines: machines.clone(), suspected: Arc::default(), count, grace: GRACE };
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
            let again = if known.is_empty() { Duration::MAX } else { self.grace * 20 };
            let _ = tokio::time::timeout(again, self.suspected.notified()).await;
            tokio::time::sleep(self.grace).await;
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

#[cfg(test)]
mod tests {
    use futures::channel::mpsc;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::fixture;
    use crate::machine::act;
    use crate::machine::plan::Found;
    use crate::sim::{Sim, within};
    use crate::vcsim::{recipe, site, template, wanted};

    type Events = mpsc::UnboundedSender<kube::runtime::watcher::Result<Event<VirtualMachine>>>;

    /// A cache that follows what it is told, and that has told once.
    async fn objects(started: &Started) -> (Cache<VirtualMachine>, Events) {
        let (cache, writer) = Cache::new(Arc::clone(&started.writes));
        let (tell, told) = mpsc::unbounded();
        tokio::spawn(cache.clone().follow(told, writer));
        for event in [Event::Init, Event::InitApply(fixture::object()), Event::InitDone] {
            tell.unbounded_send(Ok(event)).unwrap();
        }
        cache.complete().await;
        (cache, tell)
    }

    async fn counted(orphans: &Orphans, number: i64) {
        let so = async {
            while orphans.count.get() != number {
                tokio::task::yield_now().await;
            }
        };
        within(&format!("{number} orphans"), so).await;
    }

    #[tokio::test]
    async fn a_machine_whose_object_is_gone_is_counted_until_it_has_one_again_or_goes() {
        let name = "a_machine_whose_object_is_gone_is_counted_until_it_has_one_again_or_goes";
        let Some(sim) = Sim::start(name) else { return };
        let site = site(&sim).await;
        let template = template(&site, &recipe(&sim, &site).await).await;
        let facts = fixture::facts(Found::Lost(None));
        let intent = wanted(&sim, &site, &template, &facts).await;
        let machine = within("the clone", act::cloned(&intent, &facts, &site)).await.unwrap();

        let (client, _) = crate::api_server::server(|_| crate::api_server::refusal(404, "NotFound"));
        let started = Started::detached(client);
        let (cache, tell) = objects(&started).await;
        let mut orphans = Orphans::new(&started, &cache, &Provider::to(&site));
        orphans.grace = Duration::from_millis(5);
        assert!(orphans.found(&site).is_empty(), "its object owns it, and a template is nobody's");

        let (watched, looked) = (orphans.clone(), Arc::clone(&site));
        let reporting = tokio::spawn(async move { watched.report(&looked).await });
        tell.unbounded_send(Ok(Event::Delete(fixture::object()))).unwrap();
        counted(&orphans, 1).await;
        // A move brings the object back, or another cluster's stack has the machine.
        tell.unbounded_send(Ok(Event::Apply(fixture::object()))).unwrap();
        counted(&orphans, 0).await;
        tell.unbounded_send(Ok(Event::Delete(fixture::object()))).unwrap();
        counted(&orphans, 1).await;
        within("its end", crate::machine::delete::end(&machine, &site)).await.unwrap();
        counted(&orphans, 0).await;
        reporting.abort();
    }

    #[tokio::test]
    async fn only_machines_with_our_mark_are_suspected() {
        let Some(sim) = Sim::start("only_machines_with_our_mark_are_suspected") else { return };
        let site = site(&sim).await;
        let (client, _) = crate::api_server::server(|_| crate::api_server::refusal(404, "NotFound"));
        let started = Started::detached(client);
        let (cache, _tell) = objects(&started).await;
        let orphans = Orphans::new(&started, &cache, &Provider::to(&site));
        let suspected = |machine: &Vm| {
            orphans.saw(machine, &site);
            futures::FutureExt::now_or_never(orphans.suspected.notified()).is_some()
        };
        let mut machine = fixture::machine();
        assert!(!suspected(&machine), "its object is there");
        assert!(!suspected(&fixture::vm("vm-9", "stray")), "nobody's mark");
        let other = mark::Mark::new("ns", "gone", "another-stack");
        machine.extra_config.extend(other.extra_config());
        assert!(!suspected(&machine), "another stack's");
        machine.extra_config.extend(mark::Mark::new("ns", "gone", "s1").extra_config());
        assert!(suspected(&machine));
    }
}
