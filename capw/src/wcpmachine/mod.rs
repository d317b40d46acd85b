//! WCPMachine: the VM of one Machine, represented by one VirtualMachine.

pub mod act;
pub mod context;
pub mod delete;
mod first_boot;
pub mod gather;
pub mod identity;
pub mod pause;
pub mod plan;
pub mod remediation;
mod repair;
pub mod status;
mod vm_name;

use std::sync::Arc;

use api::capi::{Cluster, Machine};
use api::capw::{WCPMachine, WCPMachineStatus};
use api::names::label;
use kit::apply::Api;
use kit::controller::triggers_reconcile;
use kit::events::Events;
use kit::index::{Index, key};
use kit::reconcile::{DeletionProgress, Seen};
use kit::watch::Change;
use kit::{Controller, Reconcile, Runtime};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::caches::Caches;
use crate::error::Error;
use crate::network::NetworkProvider;
use crate::upstream;
use act::Done;
use context::Context;
use gather::Facts;
use plan::Plan;

/// Runs the controller until the program ends.
pub async fn controller(started: &Runtime, caches: &Arc<Caches>, network: NetworkProvider) {
    let by_cluster = caches.wcp_machines.index(|wcp_machine| of_cluster(wcp_machine).into_iter().collect());
    let context = Context {
        caches: Arc::clone(caches),
        network,
        api: Api::new(started, "capw/machine"),
        events: Events::new(started, "capw-wcpmachine"),
    };
    let scope = caches.scope.clone();
    Controller::new("wcpmachine", started, &caches.wcp_machines)
        .only(move |object| scope.has(object))
        .owns(&caches.vms)
        .watches_changes(&caches.machines, of_machine)
        .watches_changes(&caches.clusters, move |change| of_changed_cluster(change, &by_cluster))
        .concurrency(64)
        .drive(context)
        .await;
}

/// Reconciles a WCPMachine: its VirtualMachine, cloud-init Secret and disk claims.
impl Reconcile for Context {
    type Kind = WCPMachine;
    type Facts = Facts;
    type Plan = Plan;
    type Done = Done;
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(wcp_machine: &WCPMachine, error: kube::Error) -> Error {
        Error::api(wcp_machine, "status of")(error)
    }

    async fn gather(&self, wcp_machine: &Arc<WCPMachine>) -> Result<Facts, Error> {
        gather::facts(wcp_machine, self).await
    }

    fn is_paused(_wcp_machine: &WCPMachine, facts: &Facts) -> bool {
        facts.paused
    }

    async fn propagate_pause(
        &self,
        wcp_machine: &WCPMachine,
        facts: &Facts,
        paused: bool,
    ) -> Result<(), Error> {
        pause::carry_down(wcp_machine, facts.vm.as_deref(), paused, self).await
    }

    fn plan(wcp_machine: &WCPMachine, facts: &Facts) -> Result<Plan, Error> {
        Ok(plan::plan(wcp_machine, facts)?)
    }

    async fn carry_out(
        &self,
        wcp_machine: &mut Arc<WCPMachine>,
        plan: Plan,
        facts: &Facts,
    ) -> Result<Done, Error> {
        act::carry_out(wcp_machine, plan, facts, self).await
    }

    async fn delete(
        &self,
        wcp_machine: &Arc<WCPMachine>,
        facts: &Facts,
    ) -> Result<DeletionProgress<Done>, Error> {
        delete::carry_out(wcp_machine, facts, self).await.map(|()| DeletionProgress::Gone)
    }

    fn status(seen: &Seen<'_, Self>) -> Option<WCPMachineStatus> {
        Some(status::status(seen.object, seen.facts?, seen.outcome))
    }

    fn publish(&self, seen: &Seen<'_, Self>, new: Option<&WCPMachineStatus>) {
        let Some(new) = new else { return };
        status::publish_changes(&self.events, seen.object, seen.old_conditions(), &new.conditions);
    }

    async fn follow_up(&self, seen: &Seen<'_, Self>, new: Option<&WCPMachineStatus>) -> Result<(), Error> {
        let machine = seen.facts.and_then(|facts| facts.machine.as_deref());
        let conditions = new.map(|new| new.conditions.as_slice()).unwrap_or_default();
        remediation::request(seen.outcome.done(), machine, conditions, self).await
    }
}

/// Returns the index key for the WCPMachine's Cluster.
fn of_cluster(wcp_machine: &WCPMachine) -> Option<String> {
    let cluster = wcp_machine.labels().get(label::CLUSTER_NAME)?;
    Some(key(wcp_machine.meta().namespace.as_deref(), cluster))
}

/// Returns the Machine's WCPMachine if the Machine's spec or metadata changed, or its node joined.
fn of_machine(change: &Change<Machine>) -> Vec<ObjectRef<WCPMachine>> {
    let Some(machine) = &change.new else { return Vec::new() };
    let reference = &machine.spec.infrastructure_ref;
    let old = change.old.as_deref();
    let counts = triggers_reconcile(old, &**machine)
        || old.map(upstream::has_node) != Some(upstream::has_node(machine));
    if reference.kind != WCPMachine::kind(&()) || !counts {
        return Vec::new();
    }
    vec![ObjectRef::new(&reference.name).within(&machine.namespace().unwrap_or_default())]
}

/// Returns the Cluster's WCPMachines if the Cluster is new, its spec changed, its infrastructure became ready, or its deletion
/// began.
fn of_changed_cluster(
    change: &Change<Cluster>,
    by_cluster: &Index<WCPMachine>,
) -> Vec<ObjectRef<WCPMachine>> {
    let Some(cluster) = &change.new else { return Vec::new() };
    let relevant = |cluster: &Cluster| {
        let goes = cluster.metadata.deletion_timestamp.is_some();
        (cluster.spec.clone(), upstream::infrastructure_provisioned(cluster), goes)
    };
    if change.old.as_deref().is_some_and(|old| relevant(old) == relevant(cluster)) {
        return Vec::new();
    }
    by_cluster.refs(&key(cluster.meta().namespace.as_deref(), &cluster.name_any()))
}
