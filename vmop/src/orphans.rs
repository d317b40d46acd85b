//! Orphans: VMs in vCenter that have this stack's mark, but whose VirtualMachine doesn't exist in this cluster.
//!
//! Orphans are reported and left alone, because their VirtualMachines may have moved to another cluster. Events trigger the
//! search, after a grace period in which pending changes complete. While there are known orphans, the search repeats slowly.
//!
//! One kind of orphan is destroyed: the first VM of a VirtualMachine, if it appears after the VirtualMachine was deleted. An
//! earlier process or leader sent the clone call, which was still in flight when the finalizer was removed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::vmop::VirtualMachine;
use kit::watch::Cache;
use kit::{Runtime, apply};
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use uuid::Uuid;
use vsphere::Vm;
use vsphere::inventory::Presence;

use crate::pause;
use crate::vcenter::{Provider, VCenter, mark};
use crate::virtualmachine::carry_out::destroy::destroy;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::identity::uuids;
use crate::virtualmachine::storage::record::DiskRecord;

/// The grace period after an event. In this time, the VM can be destroyed or its VirtualMachine can appear.
const GRACE: Duration = Duration::from_secs(30);
/// The time after a VirtualMachine's deletion in which an in-flight clone call can still create its VM.
const ON_ITS_WAY: Duration = Duration::from_mins(10);

/// Finds and counts orphaned VMs.
#[derive(Clone)]
pub struct Orphans {
    vms: Cache<VirtualMachine>,
    suspected: Arc<Notify>,
    count: Gauge,
    grace: Duration,
    client: Client,
    /// Deletion times by instance UUID, for VirtualMachines that never had a VM.
    ended: Arc<Mutex<HashMap<Uuid, Instant>>>,
}

impl Orphans {
    /// Starts without known orphans. The deletion of a VirtualMachine triggers a search if its VM still exists.
    pub fn new(runtime: &Runtime, vms: &Cache<VirtualMachine>, provider: &Arc<Provider>) -> Self {
        let count = Gauge::default();
        let shown = count.clone();
        runtime.metrics.register(|registry| {
            let help =
                "VMs in vCenter with the mark of this installation that no object in this cluster owns";
            registry.register("vmop_orphaned_machines", help, shown);
        });
        let orphans = Self {
            vms: vms.clone(),
            suspected: Arc::default(),
            count,
            grace: GRACE,
            client: runtime.client.clone(),
            ended: Arc::default(),
        };
        let (noting, provider) = (orphans.clone(), Arc::clone(provider));
        vms.listen(move |change| {
            if let (Some(old), None, Ok(vcenter)) = (&change.old, &change.new, provider.vcenter()) {
                noting.note_deleted(old, &vcenter);
            }
        });
        orphans
    }

    /// Handles a VirtualMachine's deletion: triggers a search if its VM exists, or remembers the deletion if it never had a VM.
    fn note_deleted(&self, object: &VirtualMachine, vcenter: &VCenter) {
        let Ok(Some(identity)) = uuids::parse_identity(object) else { return };
        match vcenter.inventory.by_uuid(identity.instance) {
            Presence::Present(_) | Presence::Unavailable(_) => self.suspected.notify_one(),
            Presence::Absent if never_came(object) => {
                let mut ended = self.ended.lock();
                ended.retain(|_, since| since.elapsed() < ON_ITS_WAY);
                ended.insert(identity.instance, Instant::now());
            }
            Presence::Absent | Presence::Unknown => {}
        }
    }

    /// Triggers a search if a new or changed VM is an orphan.
    pub fn inspect(&self, vm: &Vm, vcenter: &VCenter) {
        if vm.is_available() && self.is_orphan(vm, vcenter) {
            self.suspected.notify_one();
        }
    }

    /// Triggers a search when the inventory is complete.
    pub fn inspect_all(&self) {
        self.suspected.notify_one();
    }

    /// Searches for orphans after each trigger and reports changes, until dropped.
    pub async fn report(&self, vcenter: &VCenter) {
        let mut known = BTreeSet::new();
        loop {
            // No event reports that an orphan was removed, so search again slowly while there are any.
            let again = if known.is_empty() { Duration::MAX } else { self.grace * 20 };
            let _ = tokio::time::timeout(again, self.suspected.notified()).await;
            tokio::time::sleep(self.grace).await;
            if !vcenter.inventory.complete() {
                continue;
            }
            self.destroy_late_vms(vcenter).await;
            let now = self.find_orphans(&known, vcenter);
            for new in now.difference(&known) {
                tracing::warn!(
                    vm = new,
                    "no object in this cluster owns this VM. If no other cluster owns it, remove it in vCenter"
                );
            }
            for gone in known.difference(&now) {
                tracing::info!(vm = gone, "the VM has an owner again or is gone");
            }
            self.count.set(i64::try_from(now.len()).unwrap_or(i64::MAX));
            known = now;
        }
    }

    /// Destroys VMs that appeared after their VirtualMachines were deleted. Failures are retried.
    async fn destroy_late_vms(&self, vcenter: &VCenter) {
        for vm in vcenter.inventory.all() {
            if !vm.is_available() || !self.is_orphan(&vm, vcenter) || !self.is_late(&vm) {
                continue;
            }
            if let Err(error) = self.destroy_unless_live(&vm, vcenter).await {
                let vm = mark::described(&vm);
                tracing::warn!(%error, vm, "this VM was created after its object was deleted, and cannot be destroyed yet");
                self.suspected.notify_one();
            }
        }
    }

    /// Destroys the VM unless its VirtualMachine exists in the API server.
    async fn destroy_unless_live(&self, vm: &Vm, vcenter: &VCenter) -> Result<(), Error> {
        let Some(owner) = mark::owner(vm, &vcenter.settings.stack) else { return Ok(()) };
        let live = apply::get::<VirtualMachine>(&self.client, owner.namespace.as_deref(), &owner.name);
        if live.await?.is_some() {
            return Ok(());
        }
        tracing::warn!(
            vm = mark::described(vm),
            "this VM was created after its object was deleted; destroying it"
        );
        // The VirtualMachine is deleted, and with it the record of the VM's disks.
        destroy(vm, &DiskRecord::default(), vcenter).await
    }

    /// Returns true if the VM's VirtualMachine was deleted in the last [`ON_ITS_WAY`] and never had a VM before.
    fn is_late(&self, vm: &Vm) -> bool {
        let ended = self.ended.lock();
        let since = vm.instance_uuid.and_then(|uuid| ended.get(&uuid));
        since.is_some_and(|since| since.elapsed() < ON_ITS_WAY)
    }

    /// Returns descriptions of the orphans that aren't late VMs. An unavailable VM is included only if it was an orphan before.
    fn find_orphans(&self, known: &BTreeSet<String>, vcenter: &VCenter) -> BTreeSet<String> {
        let orphaned = |vm: &Arc<Vm>| self.is_orphan(vm, vcenter) && !self.is_late(vm);
        let seen = |vm: &Arc<Vm>| vm.is_available() || known.contains(&mark::described(vm));
        let all = vcenter.inventory.all();
        all.iter().filter(|vm| orphaned(vm) && seen(vm)).map(|vm| mark::described(vm)).collect()
    }

    /// Returns true if the VM has this stack's mark and its VirtualMachine doesn't exist. Golden templates have another mark.
    fn is_orphan(&self, vm: &Vm, vcenter: &VCenter) -> bool {
        mark::owner(vm, &vcenter.settings.stack)
            .is_some_and(|owner| self.vms.get(owner.namespace.as_deref(), &owner.name).is_none())
    }
}

/// Returns true if a deleted VirtualMachine never had a VM, and was neither moved to another cluster nor released while paused.
/// A VM that existed before can reappear because an administrator restores it.
fn never_came(object: &VirtualMachine) -> bool {
    let ours = !kit::is_moving(object) && !pause::paused(object);
    let deleted = object.metadata.deletion_timestamp.is_some() && ours;
    deleted && !uuids::existed(object)
}

#[cfg(test)]
mod tests {
    use api::names::annotation;
    use futures::channel::mpsc;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use support::api_server::{refusal, server};
    use support::vcsim::Sim;
    use support::wait::within;

    use super::*;
    use crate::testing::context::empty_runtime;
    use crate::testing::fixtures;
    use crate::testing::vcsim::{clone_vm, planned_clone, vcenter, while_held};
    use crate::testing::wait::until;

    type Events = mpsc::UnboundedSender<kube::runtime::watcher::Result<Event<VirtualMachine>>>;

    /// Returns a complete cache that follows the returned event channel.
    async fn objects(runtime: &Runtime) -> (Cache<VirtualMachine>, Events) {
        let (cache, writer) = Cache::new(Arc::clone(&runtime.expectations));
        let (events, received) = mpsc::unbounded();
        tokio::spawn(cache.clone().follow(received, writer));
        for event in [Event::Init, Event::InitApply(fixtures::virtual_machine()), Event::InitDone] {
            events.unbounded_send(Ok(event)).unwrap();
        }
        cache.complete().await;
        (cache, events)
    }

    async fn counted(orphans: &Orphans, number: i64) {
        until(&format!("{number} orphans"), || orphans.count.get() == number).await;
    }

    #[tokio::test]
    async fn a_vm_whose_object_is_gone_is_counted_until_it_has_one_again_or_goes() {
        let name = "a_vm_whose_object_is_gone_is_counted_until_it_has_one_again_or_goes";
        let Some(sim) = Sim::start(name) else { return };
        let (vcenter, _, facts, intent) = planned_clone(&sim).await;
        let vsphere_vm = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();

        let runtime = empty_runtime();
        let (cache, events) = objects(&runtime).await;
        let mut orphans = Orphans::new(&runtime, &cache, &Provider::to(&vcenter));
        orphans.grace = Duration::from_millis(5);
        let found = orphans.find_orphans(&BTreeSet::new(), &vcenter);
        assert!(found.is_empty(), "its object owns the VM, and a template has no owner");

        let (watched, looked) = (orphans.clone(), Arc::clone(&vcenter));
        let reporting = tokio::spawn(async move { watched.report(&looked).await });
        events.unbounded_send(Ok(Event::Delete(fixtures::virtual_machine()))).unwrap();
        counted(&orphans, 1).await;
        // The VirtualMachine returns, as after a move.
        events.unbounded_send(Ok(Event::Apply(fixtures::virtual_machine()))).unwrap();
        counted(&orphans, 0).await;
        events.unbounded_send(Ok(Event::Delete(fixtures::virtual_machine()))).unwrap();
        counted(&orphans, 1).await;
        within("its end", destroy(&vsphere_vm, &DiskRecord::default(), &vcenter)).await.unwrap();
        counted(&orphans, 0).await;
        reporting.abort();
    }

    /// Starts a clone whose call reaches vCenter after the VirtualMachine `gone` was deleted.
    async fn late(test: &str, gone: VirtualMachine, live: bool) -> Option<(Sim, Arc<VCenter>, Orphans)> {
        let sim = Sim::start(test)?;
        let (vcenter, _, facts, intent) = planned_clone(&sim).await;
        let there = serde_json::to_value(&gone).unwrap();
        let (client, _) = server(move |_| if live { (200, there.clone()) } else { refusal(404, "NotFound") });
        let runtime = Runtime::detached(client);
        let (cache, events) = objects(&runtime).await;
        let mut orphans = Orphans::new(&runtime, &cache, &Provider::to(&vcenter));
        orphans.grace = Duration::from_millis(5);

        sim.post("/v1/faults", json!({"method": "CloneVM_Task", "kind": "holdCall"})).await;
        let (maker, making) = (Arc::clone(&vcenter), facts.clone());
        let clone = tokio::spawn(async move { clone_vm(&intent, &making, &maker).await });
        let end = async {
            events.unbounded_send(Ok(Event::Apply(gone.clone()))).unwrap();
            events.unbounded_send(Ok(Event::Delete(gone))).unwrap();
            until("the object is gone", || cache.get(Some("ns"), "cp-0").is_none()).await;
        };
        while_held(&sim, end).await;
        let vsphere_vm = within("the clone", clone).await.unwrap().unwrap();
        orphans.inspect(&vsphere_vm, &vcenter);
        Some((sim, vcenter, orphans))
    }

    fn deleted() -> VirtualMachine {
        let mut object = fixtures::virtual_machine();
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        object
    }

    #[tokio::test]
    async fn a_vm_that_comes_after_the_end_of_its_object_is_ended() {
        let name = "a_vm_that_comes_after_the_end_of_its_object_is_ended";
        let Some((sim, vcenter, orphans)) = late(name, deleted(), false).await else { return };
        let reporting = tokio::spawn({
            let (orphans, vcenter) = (orphans.clone(), Arc::clone(&vcenter));
            async move { orphans.report(&vcenter).await }
        });
        until("its end", || vcenter.inventory.all().iter().all(|vm| vm.template)).await;
        assert_eq!(sim.calls("Destroy_Task").await, 1);
        reporting.abort();
    }

    #[tokio::test]
    async fn a_vm_that_may_be_wanted_is_not_ended() {
        let name = "a_vm_that_may_be_wanted_is_not_ended";
        let (mut moved, mut paused) = (deleted(), deleted());
        moved.metadata.annotations = Some([(annotation::DELETE_FOR_MOVE.to_owned(), String::new())].into());
        paused.metadata.annotations = Some([(annotation::PAUSED.to_owned(), "true".to_owned())].into());
        let mut restored = deleted();
        restored.status.get_or_insert_default().unique_id = Some("vm-1".to_owned());
        let unseen = fixtures::virtual_machine();
        for (object, live) in
            [(moved, false), (paused, false), (restored, false), (unseen, false), (deleted(), true)]
        {
            let Some((sim, vcenter, orphans)) = late(name, object, live).await else { return };
            within("a look", orphans.destroy_late_vms(&vcenter)).await;
            assert_eq!(sim.calls("Destroy_Task").await, 0);
        }
    }

    #[tokio::test]
    async fn only_vms_with_our_mark_are_suspected() {
        let Some(sim) = Sim::start("only_vms_with_our_mark_are_suspected") else { return };
        let vcenter = vcenter(&sim).await;
        let runtime = empty_runtime();
        let (cache, _events) = objects(&runtime).await;
        let orphans = Orphans::new(&runtime, &cache, &Provider::to(&vcenter));
        let suspected = |vsphere_vm: &Vm| {
            orphans.inspect(vsphere_vm, &vcenter);
            futures::FutureExt::now_or_never(orphans.suspected.notified()).is_some()
        };
        let mut vsphere_vm = fixtures::vsphere_vm();
        assert!(!suspected(&vsphere_vm), "its object is there");
        assert!(!suspected(&fixtures::unmarked_vm("vm-9", "stray")), "nobody's mark");
        let other = mark::Mark::new("ns", "gone", "another-stack");
        vsphere_vm.extra_config.extend(other.extra_config());
        assert!(!suspected(&vsphere_vm), "another stack's");
        vsphere_vm.extra_config.extend(mark::Mark::new("ns", "gone", "s1").extra_config());
        assert!(suspected(&vsphere_vm));
    }
}
