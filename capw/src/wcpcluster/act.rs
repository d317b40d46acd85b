//! Every write of a WCPCluster's reconcile, except status and deletion.

use std::sync::Arc;

use api::capi::Cluster;
use api::capw::{ApiEndpoint, WCPCluster};
use api::names::finalizer;
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachineService, VirtualMachineSetResourcePolicy};
use kit::apply::Applied;
use kit::watch::Watchable;
use serde::Serialize;
use serde_json::json;

use super::context::Context;
use super::gather::Facts;
use super::plan::{Plan, endpoint};
use crate::error::Error;

/// What a reconcile came to.
pub enum Done {
    /// Nobody may act.
    Nothing,
    /// Every step was tried; each says how it went.
    Tried(Box<StepResults>),
    /// The WCPCluster itself is gone.
    Gone,
}

/// How each step went: one that fails does not keep the others from their turn.
pub struct StepResults {
    /// Where the machines lie in vCenter.
    pub policy: Result<Arc<VirtualMachineSetResourcePolicy>, Error>,
    /// The machines' network.
    pub network: Result<Arc<VirtualNetwork>, Error>,
    /// What is in front of the API servers.
    pub service: Result<Arc<VirtualMachineService>, Error>,
    /// Where the API server answers, once that is known and persisted.
    pub endpoint: Result<Option<ApiEndpoint>, Error>,
}

impl StepResults {
    /// The first step that failed.
    pub fn failure(self) -> Option<Error> {
        let Self { policy, network, service, endpoint } = self;
        policy.err().or(network.err()).or(service.err()).or(endpoint.err())
    }
}

/// Carries the plan out, the finalizer first; `cluster` is then as it was written.
pub async fn carry_out(
    cluster: &mut Arc<WCPCluster>,
    plan: Plan,
    facts: &Facts,
    ctx: &Context,
) -> Result<Done, Error> {
    let Plan { policy, network, service } = plan;
    let marked = ctx.api.add_finalizer(&**cluster, finalizer::WCP_CLUSTER).await;
    if let Some(marked) = marked.map_err(Error::api(&**cluster, "putting the finalizer on"))? {
        *cluster = Arc::new(marked);
    }
    let (policy, network, service) = tokio::join!(
        apply(&policy, facts.policy.as_ref(), ctx),
        apply(&network, facts.network.as_ref(), ctx),
        apply(&service, facts.service.as_ref(), ctx),
    );
    let endpoint = persist_endpoint(cluster, facts.cluster.as_deref(), service.as_deref().ok(), ctx).await;
    if endpoint.as_ref().is_err_and(Error::is_overtaken) {
        return endpoint.map(|_| Done::Nothing);
    }
    Ok(Done::Tried(Box::new(StepResults { policy, network, service, endpoint })))
}

async fn apply<K>(intent: &K, live: Option<&Arc<K>>, ctx: &Context) -> Result<Arc<K>, Error>
where
    K: Watchable + Serialize,
{
    let applied: Applied<K> =
        ctx.api.create_or_apply(intent, live).await.map_err(Error::api(intent, "applying"))?;
    Ok(Arc::clone(applied.object()))
}

/// The endpoint is written once, and never again: every kubeconfig and every node holds it.
async fn persist_endpoint(
    cluster: &mut Arc<WCPCluster>,
    owner: Option<&Cluster>,
    service: Option<&VirtualMachineService>,
    ctx: &Context,
) -> Result<Option<ApiEndpoint>, Error> {
    let Some(endpoint) = endpoint(cluster, owner, service) else { return Ok(None) };
    if cluster.spec.control_plane_endpoint.as_ref() != Some(&endpoint) {
        let patch = json!({ "spec": { "controlPlaneEndpoint": endpoint } });
        let written = ctx.api.patch(&**cluster, patch).await;
        *cluster = Arc::new(written.map_err(Error::api(&**cluster, "persisting the endpoint of"))?);
        let at = format!("the API server answers at {}:{}", endpoint.host, endpoint.port);
        ctx.events.normal(&**cluster, "ControlPlaneEndpointKnown", at);
    }
    Ok(Some(endpoint))
}
