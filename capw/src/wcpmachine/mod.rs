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
use api::capw::WCPMachine;
use api::names::label;
use jiff::Timestamp;
use kit::apply::Api;
use kit::controller::steers;
use kit::events::Events;
use kit::index::{Index, key};
use kit::watch::Change;
use kit::{Controller, Next, Runtime};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::caches::Caches;
use crate::error::Error;
use crate::network::NetworkProvider;
use crate::upstream;
use act::Done;
use context::Context;
use gather::Facts;

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
        .run(Arc::new(context), reconcile)
        .await;
}

/// Reconciles one WCPMachine: its VirtualMachine, cloud-init Secret and disk claims.
async fn reconcile(mut wcp_machine: Arc<WCPMachine>, ctx: Arc<Context>) -> Result<Next, Error> {
    if kit::is_moving(&*wcp_machine) {
        return Ok(Next::OnChange);
    }
    let facts = gather::facts(&wcp_machine, &ctx).await?;
    pause::carry_down(&wcp_machine, facts.vm.as_deref(), facts.paused, &ctx).await?;
    if facts.paused {
        return report(&wcp_machine, &facts, Ok(Done::Nothing), &ctx).await;
    }
    if wcp_machine.meta().deletion_timestamp.is_some() {
        let outcome = delete::carry_out(&wcp_machine, &facts, &ctx).await;
        return match outcome {
            Ok(Done::Gone) => Ok(Next::OnChange),
            outcome => report(&wcp_machine, &facts, outcome, &ctx).await,
        };
    }
    let outcome = match plan::plan(&wcp_machine, &facts) {
        Ok(plan) => act::carry_out(&mut wcp_machine, plan, &facts, &ctx).await,
        Err(invalid) => Err(invalid.into()),
    };
    report(&wcp_machine, &facts, outcome, &ctx).await
}

/// Writes the status, publishes events for changes, requests remediation if the VM is lost, and returns the outcome.
async fn report(
    wcp_machine: &WCPMachine,
    facts: &Facts,
    outcome: Result<Done, Error>,
    ctx: &Context,
) -> Result<Next, Error> {
    if outcome.as_ref().is_err_and(Error::is_overtaken) {
        return outcome.map(|_| Next::OnChange);
    }
    let status = status::status(wcp_machine, facts, &outcome, Timestamp::now());
    let sent = ctx.api.patch_status(wcp_machine, &status).await;
    let sent = sent.map_err(Error::api(wcp_machine, "status of"))?;
    if sent {
        let old = wcp_machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        status::publish_changes(&ctx.events, wcp_machine, old, &status.conditions);
    }
    remediation::request(&outcome, facts.machine.as_deref(), &status.conditions, ctx).await?;
    outcome.map(|_| Next::OnChange)
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
    let counts = steers(old, &**machine) || old.map(upstream::has_node) != Some(upstream::has_node(machine));
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
