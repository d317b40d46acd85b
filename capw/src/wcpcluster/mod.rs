//! WCPCluster: the network, resource policy and control plane endpoint that a cluster's machines share.

pub mod act;
pub mod address_pool;
pub mod context;
pub mod delete;
pub mod failure_domains;
pub mod gather;
pub mod look;
pub mod occupied;
pub mod plan;
pub mod status;

use std::sync::Arc;

use api::capi::{Cluster, IpAddress, IpAddressClaim};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPClusterStatus};
use api::names::label;
use kit::apply::Api;
use kit::controller::{controller_of, triggers_reconcile};
use kit::events::Events;
use kit::index::key;
use kit::reconcile::{DeletionProgress, Seen};
use kit::watch::{Cache, Change};
use kit::{Controller, Next, Reconcile, Runtime};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::account;
use crate::caches::Caches;
use crate::error::Error;
use crate::network::NetworkFlags;
use crate::upstream;
use crate::virtual_router::Draws;
use act::{FrontResult, StepResults};
use context::Context;
use gather::Facts;
use occupied::{LOOK_AGAIN, Occupied};
use plan::Plan;

/// Runs the controller until the program ends.
pub async fn controller(started: &Runtime, caches: &Arc<Caches>, network: &NetworkFlags) {
    let context = Context {
        caches: Arc::clone(caches),
        network: network.clone(),
        machines: caches.wcp_machines.index(|machine| of_cluster(machine, label::CLUSTER_NAME)),
        vms: caches.vms.index(|vm| of_cluster(vm, label::CAPW_CLUSTER_NAME)),
        accounts: caches.accounts.index(account::of_wcp_cluster),
        zones: caches.zones.cache().index(|zone| zone.namespace().into_iter().collect()),
        availability_zones: caches
            .availability_zones
            .cache()
            .index(|zone| zone.spec.namespaces.keys().cloned().collect()),
        draws: Draws::default(),
        occupied: Occupied::default(),
        api: Api::new(started, "capw/cluster"),
        events: Events::new(started, "capw-wcpcluster"),
    };
    let (clusters, also_clusters) = (caches.clusters.clone(), caches.clusters.clone());
    let claims = caches.address_claims.clone();
    let in_zone = caches.wcp_clusters.index(|cluster| cluster.namespace().into_iter().collect());
    let in_wide_zone = in_zone.clone();
    let waiting = caches.address_claims.index(address_pool::awaited);
    let also_waiting = waiting.clone();
    let scope = caches.scope.clone();
    Controller::new("wcpcluster", started, &caches.wcp_clusters)
        .only(move |object| scope.has(object) && !upstream::is_externally_managed(object))
        .owns(&caches.policies)
        .owns(&caches.networks)
        .owns(&caches.services)
        .owns(&caches.address_claims)
        .watches_changes(&caches.addresses, move |change| of_address(change, &claims).into_iter().collect())
        .watches_optional(&caches.pools, move |pool| address_pool::waiting(pool, &waiting))
        .watches_optional(&caches.global_pools, move |pool| address_pool::waiting(pool, &also_waiting))
        .watches_optional(&caches.zones, move |zone| in_zone.refs(&zone.namespace().unwrap_or_default()))
        .watches_optional(&caches.availability_zones, move |zone| {
            zone.spec.namespaces.keys().flat_map(|namespace| in_wide_zone.refs(namespace)).collect()
        })
        .watches_changes(&caches.clusters, of_changed_cluster)
        .watches_changes(&caches.accounts, |change| of_changed_account(change).into_iter().collect())
        .watches_changes(&caches.wcp_machines, move |change| {
            of_gone(change, label::CLUSTER_NAME, &clusters).into_iter().collect()
        })
        .watches_changes(&caches.vms, move |change| {
            of_gone(change, label::CAPW_CLUSTER_NAME, &also_clusters).into_iter().collect()
        })
        .concurrency(32)
        .drive(context)
        .await;
}

/// Reconciles a WCPCluster: its network, resource policy and endpoint.
impl Reconcile for Context {
    type Kind = WCPCluster;
    type Facts = Facts;
    type Plan = Plan;
    type Done = Box<StepResults>;
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(cluster: &WCPCluster, error: kube::Error) -> Error {
        Error::api(cluster, "status of")(error)
    }

    async fn gather(&self, cluster: &Arc<WCPCluster>) -> Result<Facts, Error> {
        let facts = gather::facts(cluster, self)?;
        let occupied = look::look(cluster, &facts, &self.occupied).await;
        Ok(Facts { occupied, ..facts })
    }

    fn is_paused(_cluster: &WCPCluster, facts: &Facts) -> bool {
        facts.paused
    }

    fn plan(cluster: &WCPCluster, facts: &Facts) -> Result<Plan, Error> {
        Ok(plan::plan(cluster, facts)?)
    }

    async fn carry_out(
        &self,
        cluster: &mut Arc<WCPCluster>,
        plan: Plan,
        facts: &Facts,
    ) -> Result<Box<StepResults>, Error> {
        act::carry_out(cluster, plan, facts, self).await
    }

    async fn delete(
        &self,
        cluster: &Arc<WCPCluster>,
        facts: &Facts,
    ) -> Result<DeletionProgress<Box<StepResults>>, Error> {
        delete::carry_out(cluster, facts, self).await.map(|()| DeletionProgress::Gone)
    }

    fn status(seen: &Seen<'_, Self>) -> Option<WCPClusterStatus> {
        Some(status::status(seen.object, seen.facts?, seen.outcome))
    }

    fn publish(&self, seen: &Seen<'_, Self>, new: Option<&WCPClusterStatus>) {
        let Some(new) = new else { return };
        status::publish_changes(&self.events, seen.object, seen.old_conditions(), &new.conditions);
    }

    fn conclude(made: Box<StepResults>) -> Result<Next, Error> {
        let waits = matches!(made.front, FrontResult::InUse(..));
        let next = if waits { Next::After(LOOK_AGAIN) } else { Next::OnChange };
        made.failure().map_or(Ok(next), Err)
    }
}

/// Returns the index key for the Cluster that the label `label` of the object names, or an empty list without this label.
fn of_cluster<K: Resource>(object: &K, label: &str) -> Vec<String> {
    let cluster = object.labels().get(label);
    cluster.map(|cluster| key(object.meta().namespace.as_deref(), cluster)).into_iter().collect()
}

/// Returns the Cluster's WCPCluster if the Cluster's spec or metadata changed.
fn of_changed_cluster(change: &Change<Cluster>) -> Vec<ObjectRef<WCPCluster>> {
    let Some(cluster) = &change.new else { return Vec::new() };
    let Some(reference) = &cluster.spec.infrastructure_ref else { return Vec::new() };
    if reference.kind != WCPCluster::kind(&()) || !triggers_reconcile(change.old.as_deref(), &**cluster) {
        return Vec::new();
    }
    vec![ObjectRef::new(&reference.name).within(&cluster.namespace().unwrap_or_default())]
}

/// Returns the account's WCPCluster if the account was created or deleted, or its conditions changed.
fn of_changed_account(change: &Change<ProviderServiceAccount>) -> Option<ObjectRef<WCPCluster>> {
    let state =
        |account: &Arc<ProviderServiceAccount>| account.status.clone().map(|status| status.conditions);
    if change.old.as_ref().map(state) == change.new.as_ref().map(state) {
        return None;
    }
    account::wcp_cluster_of(change.sides().last()?)
}

/// Returns the WCPCluster whose claim received this address.
fn of_address(change: &Change<IpAddress>, claims: &Cache<IpAddressClaim>) -> Option<ObjectRef<WCPCluster>> {
    let address = change.new.as_ref().or(change.old.as_ref())?;
    let namespace = address.namespace()?;
    let claim = claims.get(Some(&namespace), &address.spec.claim_ref.name)?;
    controller_of(&*claim)
}

/// Returns the WCPCluster that might be waiting for this object's deletion, if the object was deleted or its cluster label changed.
fn of_gone<K: Resource>(
    change: &Change<K>,
    label: &str,
    clusters: &Cache<Cluster>,
) -> Option<ObjectRef<WCPCluster>> {
    let of = |side: &Option<Arc<K>>| side.as_ref().and_then(|object| object.labels().get(label).cloned());
    let cluster = of(&change.old).filter(|old| of(&change.new).as_ref() != Some(old))?;
    let namespace = change.old.as_ref()?.namespace().unwrap_or_default();
    let reference = clusters
        .get(Some(&namespace), &cluster)
        .and_then(|cluster| Some(cluster.spec.infrastructure_ref.as_ref()?.name.clone()));
    Some(ObjectRef::new(&reference.unwrap_or(cluster)).within(&namespace))
}

#[cfg(test)]
mod tests {
    use api::capw::WCPMachine;

    use crate::fixtures;

    use super::*;

    /// Returns a cache with the fixture's Cluster, whose WCPCluster has a different name.
    fn clusters() -> Cache<Cluster> {
        let mut cluster = fixtures::cluster();
        cluster.spec.infrastructure_ref.as_mut().unwrap().name = "test-cluster-x7k2p".into();
        Cache::filled([cluster])
    }

    #[test]
    fn whoever_waits_for_a_machine_to_go_is_woken_whatever_his_name() {
        let clusters = clusters();
        let there = || Some(Arc::new(fixtures::wcp_machine()));
        let relabelled = {
            let mut machine = fixtures::wcp_machine();
            machine.metadata.labels = None;
            Some(Arc::new(machine))
        };
        let woken = |old, new| {
            let change: Change<WCPMachine> = Change { old, new };
            of_gone(&change, label::CLUSTER_NAME, &clusters).map(|reference| reference.name)
        };
        assert_eq!(woken(there(), None).as_deref(), Some("test-cluster-x7k2p"));
        assert_eq!(woken(there(), relabelled).as_deref(), Some("test-cluster-x7k2p"));
        assert_eq!(woken(there(), there()), None);
        assert_eq!(woken(None, there()), None);
        let of_a_cluster_that_is_gone = {
            let mut machine = fixtures::wcp_machine();
            machine.metadata.labels.as_mut().unwrap().insert(label::CLUSTER_NAME.into(), "gone".into());
            Some(Arc::new(machine))
        };
        assert_eq!(woken(of_a_cluster_that_is_gone, None).as_deref(), Some("gone"));
    }
}
