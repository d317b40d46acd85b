//! WCPMachine: one Machine's virtual machine, asked for by one VirtualMachine.

pub mod act;
pub mod delete;
pub mod gather;
pub mod plan;
pub mod status;

use crate::{Caches, upstream};
use act::Done;
use api::{
    capi::{Cluster, Machine},
    capw::WCPMachine,
    names::label,
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
    watch::Change,
};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use plan::{Invalid, Waiting};
use std::sync::Arc;

/// What a reconcile works with.
pub struct Context {
    caches: Arc<Caches>,
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
            Self::Invalid(invalid) => {
                invalid.look_again().map_or(Disposition::Invalid, |again| Disposition::Waiting(Some(again)))
            }
            Self::Waiting(waiting) => Disposition::Waiting(waiting.look_again()),
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
    let by_cluster = caches.wcp_machines.index(|machine| of_cluster(machine).into_iter().collect());
    let context = Context {
        caches: Arc::clone(caches),
        api: Api::new(started, "capw/machine"),
        events: Events::new(started, "capw-wcpmachine"),
    };
    Controller::new("wcpmachine", started, &caches.wcp_machines)
        .owns(&caches.vms)
        .watches_changes(&caches.machines, of_machine)
        .watches_changes(&caches.clusters, move |change| of_changed_cluster(change, &by_cluster))
        .concurrency(32)
        .run(Arc::new(context), reconcile)
        .await;
}

/// Brings one VirtualMachine, and what it boots from, to what its Machine needs.
async fn reconcile(mut machine: Arc<WCPMachine>, ctx: Arc<Context>) -> Result<Next, Error> {
    if upstream::is_moving(&*machine) {
        return Ok(Next::OnChange);
    }
    let facts = gather::facts(&machine, &ctx).await?;
    if facts.paused {
        return report(&machine, &facts, Ok(Done::Nothing), &ctx).await;
    }
    if machine.meta().deletion_timestamp.is_some() {
        let outcome = delete::carry_out(&machine, &facts, &ctx).await;
        return match outcome {
            Ok(Done::Gone) => Ok(Next::OnChange),
            outcome => report(&machine, &facts, outcome, &ctx).await,
        };
    }
    let outcome = match plan::plan(&machine, &facts) {
        Ok(plan) => act::carry_out(&mut machine, plan, &facts, &ctx).await,
        Err(invalid) => Err(invalid.into()),
    };
    report(&machine, &facts, outcome, &ctx).await
}

/// Writes the status, tells of what changed, and passes the outcome on.
async fn report(
    machine: &WCPMachine,
    facts: &Facts,
    outcome: Result<Done, Error>,
    ctx: &Context,
) -> Result<Next, Error> {
    if outcome.as_ref().is_err_and(Error::is_overtaken) {
        return outcome.map(|_| Next::OnChange);
    }
    let status = status::status(machine, facts, &outcome, Timestamp::now());
    let sent = ctx.api.patch_status(machine, &status).await.map_err(|source| Error::Api {
        what: format!("status of {}", kit::events::named(machine)),
        source,
    })?;
    if sent {
        let old = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        status::tell(&ctx.events, machine, old, &status.conditions);
    }
    outcome.map(|_| Next::OnChange)
}

/// Index key of the Cluster that a WCPMachine belongs to.
fn of_cluster(machine: &WCPMachine) -> Option<String> {
    let cluster = machine.labels().get(label::CLUSTER_NAME)?;
    Some(key(machine.meta().namespace.as_deref(), cluster))
}

/// The WCPMachine of a Machine whose spec or metadata changed.
fn of_machine(change: &Change<Machine>) -> Vec<ObjectRef<WCPMachine>> {
    let Some(machine) = &change.new else { return Vec::new() };
    let reference = &machine.spec.infrastructure_ref;
    if reference.kind != WCPMachine::kind(&()) || !steers(change.old.as_deref(), &**machine) {
        return Vec::new();
    }
    vec![ObjectRef::new(&reference.name).within(&machine.namespace().unwrap_or_default())]
}

/// The WCPMachines of a Cluster that was paused, resumed, or got what machines wait for.
fn of_changed_cluster(
    change: &Change<Cluster>,
    by_cluster: &Index<WCPMachine>,
) -> Vec<ObjectRef<WCPMachine>> {
    let Some(cluster) = &change.new else { return Vec::new() };
    let told = |cluster: &Cluster| (cluster.spec.clone(), upstream::infrastructure_provisioned(cluster));
    if change.old.as_deref().is_some_and(|old| told(old) == told(cluster)) {
        return Vec::new();
    }
    by_cluster.refs(&key(cluster.meta().namespace.as_deref(), &cluster.name_any()))
}
