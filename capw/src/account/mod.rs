//! ProviderServiceAccount: rights in the management cluster, and a token for them in the guest.
//!
//! In the account's namespace there are a ServiceAccount, a Role with the account's rules, a RoleBinding, and a Secret
//! for which Kubernetes makes a token. The token is copied into a Secret of the guest. Nobody watches Secrets, neither
//! here nor there: both are looked at again every few minutes.

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
use api::capw::{ProviderServiceAccount, WCPCluster};
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
use crate::upstream;
use context::Context;
use error::Error;
use gather::server_of;

/// How often the Secrets of an account are looked at that is as it should be.
const LOOKED_AT_AFTER: Duration = Duration::from_mins(2);
/// Accounts at a time: those whose guests hang leave places for others.
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
        .run(Arc::new(context), reconcile)
        .await;
}

/// Brings one account and its token about.
async fn reconcile(account: Arc<ProviderServiceAccount>, ctx: Arc<Context>) -> Result<Next, Error> {
    let cluster = gather::cluster(&account, &ctx.caches);
    if kit::is_moving(&*account) || upstream::is_paused(&*account, cluster.as_deref()) {
        return Ok(Next::OnChange);
    }
    if account.meta().deletion_timestamp.is_some() {
        return delete::carry_out(&account, cluster.as_deref(), &ctx).await.map(|()| Next::OnChange);
    }
    // A guest that goes needs no token any more.
    if cluster.as_ref().is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some()) {
        return Ok(Next::OnChange);
    }
    let outcome = bring_about(&account, cluster, &ctx).await;
    if outcome.as_ref().is_err_and(Error::is_overtaken) {
        return outcome.map(|()| Next::OnChange);
    }
    let status = status::status(&account, &outcome, Timestamp::now());
    let sent = ctx.api.patch_status(&*account, &status).await;
    if sent.map_err(Error::api(&*account, "status of"))? {
        let old = account.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        ctx.events.transitions(&*account, old, &status.conditions, status::is_failed);
    }
    outcome.map(|()| Next::After(LOOKED_AT_AFTER))
}

async fn bring_about(
    account: &ProviderServiceAccount,
    cluster: Option<Arc<Cluster>>,
    ctx: &Context,
) -> Result<(), Error> {
    plan::check(account)?;
    let (facts, guest) = gather::facts(account, cluster, ctx).await?;
    let plan = plan::plan(account, &facts)?;
    act::carry_out(account, plan, &facts, guest.as_ref(), ctx).await
}

/// Index key of the WCPCluster that an account is for.
pub fn of_wcp_cluster(account: &ProviderServiceAccount) -> Vec<String> {
    let cluster = account.spec.r#ref.name.as_deref();
    cluster.map(|cluster| key(account.meta().namespace.as_deref(), cluster)).into_iter().collect()
}

/// The WCPCluster that an account is for.
pub fn wcp_cluster_of(account: &ProviderServiceAccount) -> Option<ObjectRef<WCPCluster>> {
    let name = account.spec.r#ref.name.as_deref()?;
    Some(ObjectRef::new(name).within(&account.namespace().unwrap_or_default()))
}

/// The accounts of a WCPCluster whose spec or metadata changed.
fn of_changed_wcp_cluster(
    change: &Change<WCPCluster>,
    accounts: &Index<ProviderServiceAccount>,
) -> Vec<ObjectRef<ProviderServiceAccount>> {
    match &change.new {
        Some(new) if !steers(change.old.as_deref(), &**new) => Vec::new(),
        _ => change.sides().take(1).flat_map(|wcp| accounts.refs(&key_of(wcp))).collect(),
    }
}

/// The accounts of a Cluster of which something changed that matters here.
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
