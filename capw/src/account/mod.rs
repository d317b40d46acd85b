//! ProviderServiceAccount: permissions in the management cluster, and a token with which programs in a workload cluster (guest)
//! use these permissions.
//!
//! The account's namespace contains a ServiceAccount, a Role with the account's rules, a RoleBinding, and a Secret in which
//! Kubernetes creates a token. The token is copied into a Secret of the workload cluster. Secrets aren't watched in either
//! cluster, so they are checked every few minutes.

pub mod act;
pub mod context;
pub mod credentials;
pub mod delete;
pub mod error;
pub mod gather;
pub mod guest;
pub mod plan;
pub mod status;

use std::sync::Arc;
use std::time::Duration;

use api::capi::Cluster;
use api::capw::{ProviderServiceAccount, ProviderServiceAccountStatus, WCPCluster};
use kit::apply::Api;
use kit::controller::triggers_reconcile;
use kit::events::Events;
use kit::index::{Index, key};
use kit::reconcile::{DeletionProgress, Seen};
use kit::watch::Change;
use kit::{Controller, Next, Reconcile, Runtime};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::caches::Caches;
use context::Context;
use error::Error;
use gather::{Facts, server_of};
use guest::AccountSecretClient;
use plan::Plan;

/// The interval between checks of a ready account's Secrets.
const LOOKED_AT_AFTER: Duration = Duration::from_mins(2);
/// The maximum number of concurrent reconciles. It is large so that other accounts proceed while some workload clusters hang.
const CONCURRENCY: usize = 32;

/// Runs the controller until the program ends.
pub async fn controller(started: &Runtime, caches: &Arc<Caches>) {
    let context = Context {
        caches: Arc::clone(caches),
        api: Api::new(started, "capw/account"),
        events: Events::new(started, "capw-account"),
    };
    let by_cluster = caches.accounts.index(of_wcp_cluster);
    let also_by_cluster = by_cluster.clone();
    let scope = caches.scope.clone();
    Controller::new("account", started, &caches.accounts)
        .only(move |object| scope.has(object))
        .watches_changes(&caches.wcp_clusters, move |change| of_changed_wcp_cluster(change, &by_cluster))
        .watches_changes(&caches.clusters, move |change| of_changed_cluster(change, &also_by_cluster))
        .concurrency(CONCURRENCY)
        .drive(context)
        .await;
}

/// Reconciles an account: its objects and its token.
impl Reconcile for Context {
    type Kind = ProviderServiceAccount;
    type Facts = (Facts, Option<AccountSecretClient>);
    type Plan = Plan;
    type Done = ();
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(account: &ProviderServiceAccount, error: kube::Error) -> Error {
        Error::api(account, "status of")(error)
    }

    async fn gather(&self, account: &Arc<ProviderServiceAccount>) -> Result<Self::Facts, Error> {
        let cluster = gather::cluster(account, &self.caches);
        if gather::is_held(account, cluster.as_deref()) || account.meta().deletion_timestamp.is_some() {
            return Ok((Facts::of_cluster(cluster), None));
        }
        plan::check(account)?;
        gather::facts(account, cluster, self).await
    }

    fn is_paused(account: &ProviderServiceAccount, (facts, _): &Self::Facts) -> bool {
        gather::is_held(account, facts.cluster.as_deref())
    }

    fn plan(account: &ProviderServiceAccount, (facts, _): &Self::Facts) -> Result<Plan, Error> {
        Ok(plan::plan(account, facts)?)
    }

    async fn carry_out(
        &self,
        account: &mut Arc<ProviderServiceAccount>,
        plan: Plan,
        (facts, guest): &Self::Facts,
    ) -> Result<(), Error> {
        act::carry_out(account, plan, facts, guest.as_ref(), self).await
    }

    async fn delete(
        &self,
        account: &Arc<ProviderServiceAccount>,
        (facts, _): &Self::Facts,
    ) -> Result<DeletionProgress<()>, Error> {
        delete::carry_out(account, facts.cluster.as_deref(), self).await.map(|()| DeletionProgress::Gone)
    }

    fn status(seen: &Seen<'_, Self>) -> Option<ProviderServiceAccountStatus> {
        if seen.object.meta().deletion_timestamp.is_some() {
            return None;
        }
        status::status(seen.object, seen.outcome)
    }

    fn publish(&self, seen: &Seen<'_, Self>, new: Option<&ProviderServiceAccountStatus>) {
        let Some(new) = new else { return };
        self.events.transitions(seen.object, seen.old_conditions(), &new.conditions, status::is_failed);
    }

    fn conclude((): ()) -> Result<Next, Error> {
        Ok(Next::After(LOOKED_AT_AFTER))
    }
}

/// Returns the index key for the account's WCPCluster, or an empty list if the account doesn't name one.
pub fn of_wcp_cluster(account: &ProviderServiceAccount) -> Vec<String> {
    let cluster = account.spec.r#ref.name.as_deref();
    cluster.map(|cluster| key(account.meta().namespace.as_deref(), cluster)).into_iter().collect()
}

/// Returns a reference to the account's WCPCluster.
pub fn wcp_cluster_of(account: &ProviderServiceAccount) -> Option<ObjectRef<WCPCluster>> {
    let name = account.spec.r#ref.name.as_deref()?;
    Some(ObjectRef::new(name).within(&account.namespace().unwrap_or_default()))
}

/// Returns the WCPCluster's accounts if the WCPCluster's spec or metadata changed, or the WCPCluster was deleted.
fn of_changed_wcp_cluster(
    change: &Change<WCPCluster>,
    accounts: &Index<ProviderServiceAccount>,
) -> Vec<ObjectRef<ProviderServiceAccount>> {
    match &change.new {
        Some(new) if !triggers_reconcile(change.old.as_deref(), &**new) => Vec::new(),
        _ => change.sides().take(1).flat_map(|wcp| accounts.refs(&key_of(wcp))).collect(),
    }
}

/// Returns the accounts of the Cluster's WCPCluster if the Cluster's API server URL, pause, deletion or UID changed. The URL is
/// known once the control plane is initialized.
fn of_changed_cluster(
    change: &Change<Cluster>,
    accounts: &Index<ProviderServiceAccount>,
) -> Vec<ObjectRef<ProviderServiceAccount>> {
    let matters = |cluster: &Arc<Cluster>| {
        let deleted = cluster.metadata.deletion_timestamp.is_some();
        (server_of(cluster), cluster.spec.paused, deleted, cluster.uid())
    };
    if change.old.as_ref().map(matters) == change.new.as_ref().map(matters) {
        return Vec::new();
    }
    let Some(cluster) = change.sides().last() else { return Vec::new() };
    let Some(infrastructure) = &cluster.spec.infrastructure_ref else { return Vec::new() };
    accounts.refs(&key(cluster.meta().namespace.as_deref(), &infrastructure.name))
}

fn key_of(wcp_cluster: &WCPCluster) -> String {
    key(wcp_cluster.meta().namespace.as_deref(), &wcp_cluster.name_any())
}
