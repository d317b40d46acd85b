//! WCPCluster: the network, the place and the endpoint that a cluster's machines share.

pub mod act;
pub mod delete;
pub mod gather;
pub mod plan;
pub mod status;

use crate::{Caches, upstream};
use act::Done;
use api::{
    capi::Cluster,
    capw::{WCPCluster, WCPMachine},
    names::label,
    vmop::VirtualMachine,
};
use gather::Facts;
use jiff::Timestamp;
use kit::{
    Controller, Disposition, Next, ReconcileError, Runtime,
    apply::Api,
    controller::steers,
    events::Events,
    expectations::StaleCache,
    index::{Index, key},
    retry::REQUEUE_SOON,
    watch::{Cache, Change},
};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use plan::{Invalid, Waiting};
use std::sync::Arc;

/// What a reconcile works with.
pub struct Context {
    caches: Arc<Caches>,
    /// WCPMachines by Cluster.
    machines: Index<WCPMachine>,
    /// Virtual machines by Cluster.
    vms: Index<VirtualMachine>,
    api: Api,
    events: Events,
}

/// Why a reconcile did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user must act.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Something else must happen first.
    #[error(transparent)]
    Waiting(#[from] Waiting),
    /// A cache has not seen our own last write.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The API server refused, or did not answer.
    #[error("{what}: {source}")]
    Api {
        /// What was tried, of which object.
        what: String,
        /// What came of it.
        source: kube::Error,
    },
}

impl Error {
    /// Somebody else was quicker, or the cache is slow: the next look, soon, knows more. Nothing went wrong.
    pub fn is_overtaken(&self) -> bool {
        match self {
            Self::Behind(_) => true,
            Self::Api { source, .. } => kit::apply::is_conflict(source),
            Self::Invalid(_) | Self::Waiting(_) => false,
        }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            // Whose the object is may change, and no watch tells us of another's.
            Self::Invalid(Invalid::NameTaken(_)) => Disposition::Waiting(Some(upstream::MENDED)),
            Self::Waiting(_) => Disposition::Waiting(None),
            Self::Behind(_) => Disposition::Waiting(Some(REQUEUE_SOON)),
            Self::Api { source, .. } => Disposition::from_api_error(source),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) => "Waiting",
            Self::Behind(_) => "Behind",
            Self::Api { .. } => "Api",
        }
    }
}

/// Runs the controller until the program ends.
pub async fn controller(started: &Runtime, caches: &Arc<Caches>) {
    let context = Context {
        caches: Arc::clone(caches),
        machines: caches.wcp_machines.index(|machine| of_cluster(machine, label::CLUSTER_NAME)),
        vms: caches.vms.index(|vm| of_cluster(vm, label::CAPW_CLUSTER_NAME)),
        api: Api::new(started, "capw/cluster"),
        events: Events::new(started, "capw-wcpcluster"),
    };
    let (clusters, also_clusters) = (caches.clusters.clone(), caches.clusters.clone());
    Controller::new("wcpcluster", started, &caches.wcp_clusters)
        .owns(&caches.policies)
        .owns(&caches.networks)
        .owns(&caches.services)
        .watches_changes(&caches.clusters, of_changed_cluster)
        .watches_changes(&caches.wcp_machines, move |change| {
            of_gone(change, label::CLUSTER_NAME, &clusters).into_iter().collect()
        })
        .watches_changes(&caches.vms, move |change| {
            of_gone(change, label::CAPW_CLUSTER_NAME, &also_clusters).into_iter().collect()
        })
        .concurrency(16)
        .run(Arc::new(context), reconcile)
        .await;
}

/// Brings a cluster's network, place and endpoint about.
async fn reconcile(mut cluster: Arc<WCPCluster>, ctx: Arc<Context>) -> Result<Next, Error> {
    if upstream::is_moving(&*cluster) || upstream::is_externally_managed(&*cluster) {
        return Ok(Next::OnChange);
    }
    let facts = gather::facts(&cluster, &ctx)?;
    if facts.paused {
        return report(&cluster, &facts, Ok(Done::Nothing), &ctx).await;
    }
    if cluster.meta().deletion_timestamp.is_some() {
        return match delete::carry_out(&cluster, &facts, &ctx).await {
            Ok(Done::Gone) => Ok(Next::OnChange),
            outcome => report(&cluster, &facts, outcome, &ctx).await,
        };
    }
    let outcome = match plan::plan(&cluster, &facts) {
        Ok(plan) => act::carry_out(&mut cluster, plan, &facts, &ctx).await,
        Err(stop) => Err(stop.into()),
    };
    report(&cluster, &facts, outcome, &ctx).await
}

/// Writes the status, tells of what changed, and passes the outcome on.
async fn report(
    cluster: &WCPCluster,
    facts: &Facts,
    outcome: Result<Done, Error>,
    ctx: &Context,
) -> Result<Next, Error> {
    if outcome.as_ref().is_err_and(Error::is_overtaken) {
        return outcome.map(|_| Next::OnChange);
    }
    let status = status::status(cluster, facts, &outcome, Timestamp::now());
    let sent = ctx.api.patch_status(cluster, &status).await.map_err(|source| Error::Api {
        what: format!("status of {}", kit::events::named(cluster)),
        source,
    })?;
    if sent {
        let old = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        status::tell(&ctx.events, cluster, old, &status.conditions);
    }
    match outcome? {
        Done::Made(made) => made.failure().map_or(Ok(Next::OnChange), Err),
        Done::Nothing | Done::Gone => Ok(Next::OnChange),
    }
}

/// Index key of the Cluster that an object is labelled with.
fn of_cluster<K: Resource>(object: &K, label: &str) -> Vec<String> {
    let cluster = object.labels().get(label);
    cluster.map(|cluster| key(object.meta().namespace.as_deref(), cluster)).into_iter().collect()
}

/// The WCPCluster of a Cluster whose spec or metadata changed.
fn of_changed_cluster(change: &Change<Cluster>) -> Vec<ObjectRef<WCPCluster>> {
    let Some(cluster) = &change.new else { return Vec::new() };
    let Some(reference) = &cluster.spec.infrastructure_ref else { return Vec::new() };
    if reference.kind != WCPCluster::kind(&()) || !steers(change.old.as_deref(), &**cluster) {
        return Vec::new();
    }
    vec![ObjectRef::new(&reference.name).within(&cluster.namespace().unwrap_or_default())]
}

/// The WCPCluster that may be waiting for this object to be gone from its Cluster.
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
    use super::*;
    use crate::fixtures;
    use kube::runtime::{reflector::store::Writer, watcher::Event};

    /// A cache that holds the fixture's Cluster, whose WCPCluster bears another name.
    fn clusters() -> (Cache<Cluster>, Writer<Cluster>) {
        let (cache, mut writer) = Cache::new(Arc::default());
        let mut cluster = fixtures::cluster();
        cluster.spec.infrastructure_ref.as_mut().unwrap().name = "test-cluster-x7k2p".into();
        writer.apply_watcher_event(&Event::Apply(cluster));
        (cache, writer)
    }

    #[test]
    fn whoever_waits_for_a_machine_to_go_is_woken_whatever_his_name() {
        let (clusters, _writer) = clusters();
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

    #[test]
    fn a_lost_race_is_no_failure() {
        let error = |code, reason: &str| Error::Api {
            what: "applying it".into(),
            source: kube::Error::Api(Box::new(kube::core::Status::failure("m", reason).with_code(code))),
        };
        assert!(error(409, "Conflict").is_overtaken());
        assert!(!error(409, "AlreadyExists").is_overtaken());
        assert!(!error(500, "InternalError").is_overtaken());
    }
}
