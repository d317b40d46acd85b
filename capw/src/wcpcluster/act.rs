//! All writes of a WCPCluster reconcile, except status and deletion.

use std::net::IpAddr;
use std::sync::Arc;

use api::capi::{Cluster, IpAddress, IpAddressClaim};
use api::capw::{ApiEndpoint, WCPCluster};
use api::names::{annotation, finalizer};
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachineService, VirtualMachineSetResourcePolicy};
use kit::ReconcileError;
use kit::apply::ApplyResult;
use kit::watch::Watchable;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::json;

use super::context::Context;
use super::gather::Facts;
use super::occupied::OccupiedAddress;
use super::plan::{Front, Plan, claimed_address, endpoint, endpoint_use, load_balancer_address};
use crate::error::Error;
use crate::virtual_router::virtual_router;

/// The result of each step. A failed step doesn't prevent the other steps.
pub struct StepResults {
    pub policy: Result<Arc<VirtualMachineSetResourcePolicy>, Error>,
    /// The cluster's own network, if it has one.
    pub network: Option<Result<Arc<VirtualNetwork>, Error>>,
    /// The load balancer or virtual IP for the API servers.
    pub front: FrontResult,
    /// The control plane endpoint, once it is known and persisted.
    pub endpoint: Result<Option<ApiEndpoint>, Error>,
}

/// The result for the load balancer or virtual IP.
pub enum FrontResult {
    LoadBalancer(Result<Arc<VirtualMachineService>, Error>),
    /// The claim, and the address that an IPAM provider assigned.
    VirtualIp(Result<Arc<IpAddressClaim>, Error>, Option<Arc<IpAddress>>),
    /// Another machine uses the assigned address.
    InUse(OccupiedAddress),
    /// The VM operator hasn't reported yet whether a VM in vCenter has this address.
    Unchecked(IpAddr),
    /// The user set the endpoint.
    Given,
    /// The endpoint isn't set, and a pool isn't configured.
    Missing,
}

impl FrontResult {
    /// Returns the host of the endpoint, once it is known.
    fn host(&self) -> Option<&str> {
        match self {
            Self::LoadBalancer(service) => service.as_deref().ok().and_then(load_balancer_address),
            Self::VirtualIp(_, address) => address.as_deref().and_then(claimed_address),
            Self::InUse(_) | Self::Unchecked(_) | Self::Given | Self::Missing => None,
        }
    }

    fn failure(self) -> Option<Error> {
        match self {
            Self::LoadBalancer(service) => service.err(),
            Self::VirtualIp(claim, _) => claim.err(),
            Self::InUse(_) | Self::Unchecked(_) | Self::Given | Self::Missing => None,
        }
    }
}

impl StepResults {
    /// Returns the error of the first failed step.
    pub fn failure(self) -> Option<Error> {
        let Self { policy, network, front, endpoint } = self;
        policy.err().or(network.and_then(Result::err)).or(front.failure()).or(endpoint.err())
    }
}

/// Writes the virtual router number and the finalizer, then carries out the plan. Sets `cluster` to the version that was
/// written.
pub async fn carry_out(
    cluster: &mut Arc<WCPCluster>,
    plan: Plan,
    facts: &Facts,
    ctx: &Context,
) -> Result<Box<StepResults>, Error> {
    let Plan { policy, network, front } = plan;
    // With NSX, a load balancer has the address. Clusters from earlier versions keep their number, which their nodes contain.
    if !(network.is_some() && matches!(front, Front::LoadBalancer(_))) {
        keep_virtual_router(cluster, facts, ctx).await?;
    }
    let marked = ctx.api.add_finalizer(&**cluster, finalizer::WCP_CLUSTER).await;
    if let Some(marked) = marked.map_err(Error::api(&**cluster, "adding the finalizer to"))? {
        *cluster = Arc::new(marked);
    }
    let network = async {
        match &network {
            Some(network) => Some(apply(network, facts.network.as_ref(), ctx).await),
            None => None,
        }
    };
    let (policy, network, front) = tokio::join!(
        apply(&policy, facts.policy.as_ref(), ctx),
        network,
        carry_out_front(&front, facts, ctx),
    );
    let endpoint = match persist_endpoint(cluster, facts.cluster.as_deref(), front.host(), ctx).await {
        Err(error) if error.is_overtaken() => return Err(error),
        endpoint => endpoint,
    };
    Ok(Box::new(StepResults { policy, network, front, endpoint }))
}

/// Chooses and writes the cluster's virtual router number if the cluster doesn't have one yet. If a VM in vCenter uses the
/// number, replaces it as long as the cluster doesn't have an endpoint. The number is written before the endpoint, so that every
/// node finds it.
async fn keep_virtual_router(
    cluster: &mut Arc<WCPCluster>,
    facts: &Facts,
    ctx: &Context,
) -> Result<(), Error> {
    let found = endpoint_use(cluster, facts);
    let taken = found.map(|found| found.virtual_router_ids.as_slice()).unwrap_or_default();
    if virtual_router(cluster).is_some_and(|id| !taken.contains(&i32::from(id))) {
        return Ok(());
    }
    let others = ctx.caches.wcp_clusters.all();
    let start = uuid::Uuid::new_v4().as_bytes()[0];
    if let Some(id) = ctx.draws.draw(cluster, &others, taken, start) {
        let patch = json!({ "metadata": { "annotations": { annotation::VIRTUAL_ROUTER: id.to_string() } } });
        let written = ctx.api.patch(&**cluster, patch).await;
        *cluster = Arc::new(written.map_err(Error::api(&**cluster, "writing the virtual router number of"))?);
    }
    Ok(())
}

async fn carry_out_front(front: &Front, facts: &Facts, ctx: &Context) -> FrontResult {
    match front {
        Front::LoadBalancer(service) => {
            FrontResult::LoadBalancer(apply(&**service, facts.service.as_ref(), ctx).await)
        }
        Front::VirtualIp(claim) => {
            // The plan may contain the next claim, which doesn't exist yet and therefore has no address.
            let name = claim.name_any();
            let live = facts.address_claim.as_ref().filter(|live| live.name_any() == name);
            let address = facts.address.clone().filter(|address| address.spec.claim_ref.name == name);
            FrontResult::VirtualIp(apply(&**claim, live, ctx).await, address)
        }
        Front::InUse(occupied) => FrontResult::InUse(occupied.clone()),
        Front::Unchecked(address) => FrontResult::Unchecked(*address),
        Front::Given => FrontResult::Given,
        Front::Missing => FrontResult::Missing,
    }
}

async fn apply<K>(intent: &K, live: Option<&Arc<K>>, ctx: &Context) -> Result<Arc<K>, Error>
where
    K: Watchable + Serialize,
{
    let applied: ApplyResult<K> =
        ctx.api.create_or_apply(intent, live).await.map_err(Error::api(intent, "applying"))?;
    Ok(Arc::clone(applied.object()))
}

/// Persists the endpoint. A known endpoint never changes, because every kubeconfig and node contains it.
async fn persist_endpoint(
    cluster: &mut Arc<WCPCluster>,
    owner: Option<&Cluster>,
    host: Option<&str>,
    ctx: &Context,
) -> Result<Option<ApiEndpoint>, Error> {
    let Some(endpoint) = endpoint(cluster, owner, host) else { return Ok(None) };
    if cluster.spec.control_plane_endpoint.as_ref() != Some(&endpoint) {
        let patch = json!({ "spec": { "controlPlaneEndpoint": endpoint } });
        let written = ctx.api.patch(&**cluster, patch).await;
        *cluster = Arc::new(written.map_err(Error::api(&**cluster, "persisting the endpoint of"))?);
        let at = format!("the API server will answer at {}:{}", endpoint.host, endpoint.port);
        ctx.events.normal(&**cluster, "ControlPlaneEndpointKnown", at);
    }
    Ok(Some(endpoint))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kit::Runtime;

    use super::*;
    use crate::fixtures::{self, answering_client, nsx, on_port_groups, wcp_cluster};
    use crate::network::{EndpointProvider, NetworkFlags};
    use crate::wcpcluster::gather::facts;
    use crate::wcpcluster::gather::tests::context;
    use crate::wcpcluster::plan::plan;

    /// Returns the requests that one reconcile sends to change a WCPCluster, in order.
    async fn written(cluster: WCPCluster, network: NetworkFlags) -> Vec<String> {
        let sent = Arc::<Mutex<Vec<String>>>::default();
        let started = Runtime::detached(answering_client(&sent, 200, json!(cluster)));
        let ctx = context(&started, Vec::new());
        let owner = Some(Arc::new(fixtures::cluster()));
        let facts = Facts { cluster: owner, flags: network, ..facts(&cluster, &ctx).expect("facts") };
        let plan = plan(&cluster, &facts).unwrap();
        let mut cluster = Arc::new(cluster);
        // The fake server responds to every request with the cluster. Later steps therefore fail, but only after the writes to
        // the cluster.
        let _ = carry_out(&mut cluster, plan, &facts, &ctx).await;
        let sent = sent.lock().unwrap().clone();
        started.shutdown.cancel();
        let of_cluster = |line: &String| line.starts_with("PATCH") && line.contains("/wcpclusters/");
        sent.into_iter().filter(of_cluster).collect()
    }

    #[tokio::test]
    async fn the_virtual_router_number_is_written_once_and_before_the_finalizer() {
        let lines = written(wcp_cluster(), on_port_groups()).await;
        assert!(lines[0].contains(annotation::VIRTUAL_ROUTER), "{lines:?}");
        assert!(!lines[0].contains(finalizer::WCP_CLUSTER), "{lines:?}");
        assert!(lines[1].contains(finalizer::WCP_CLUSTER), "{lines:?}");
        let mut numbered = wcp_cluster();
        numbered.metadata.annotations =
            Some([(annotation::VIRTUAL_ROUTER.to_owned(), "7".to_owned())].into());
        let lines = written(numbered, on_port_groups()).await;
        assert!(lines.iter().all(|line| !line.contains(annotation::VIRTUAL_ROUTER)), "{lines:?}");
        assert!(lines[0].contains(finalizer::WCP_CLUSTER), "{lines:?}");
    }

    #[tokio::test]
    async fn a_cluster_has_no_virtual_router_number_if_a_load_balancer_of_nsx_has_its_address() {
        let virtual_ip = NetworkFlags { endpoint_provider: Some(EndpointProvider::VirtualIp), ..nsx() };
        for (network, is_numbered) in [(nsx(), false), (virtual_ip, true), (on_port_groups(), true)] {
            let lines = written(wcp_cluster(), network.clone()).await;
            let numbered = lines.iter().any(|line| line.contains(annotation::VIRTUAL_ROUTER));
            assert_eq!(numbered, is_numbered, "{network:?}: {lines:?}");
        }
    }
}
