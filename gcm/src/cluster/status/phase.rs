//! Computes a cluster's phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::MachineDeployment;
use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::phase;
use api::names::label;
use kube::ResourceExt;

use crate::cluster::error::Error;
use crate::cluster::facts::Facts;
use crate::cluster::input::release_label;
use crate::cluster::node_groups::replicas::{ReplicaCounts, count_pools};
use crate::spec::release::current_version;

/// Computes the phase. `serves` is true if nodes and add-ons are ready. `cause` is the first cause if something isn't ready.
///
/// A changed cluster is updating until it runs, or until the update meets a problem that doesn't resolve by itself. An
/// unhealthy cluster stays unhealthy until it runs or its spec changes, even while machines are being replaced.
pub fn compute_phase(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    error: Option<&Error>,
    serves: bool,
    cause: Option<&Cause>,
) -> &'static str {
    let before = tkc.status.as_ref().and_then(|status| status.phase.as_deref());
    if tkc.metadata.deletion_timestamp.is_some() {
        return phase::DELETING;
    }
    if matches!(error, Some(Error::Invalid(_))) && facts.cluster.is_none() {
        return phase::FAILED;
    }
    let complete = is_complete(tkc, facts);
    if serves && complete {
        return phase::RUNNING;
    }
    let control_plane = facts.control_plane.as_deref().map(ReplicaCounts::of_control_plane);
    let groups: Vec<_> =
        control_plane.into_iter().chain(count_pools(facts).map(|(_, group)| group)).collect();
    let changes = !complete || groups.iter().any(ReplicaCounts::is_changing);
    let updating = || {
        let halted = cause.is_some_and(|cause| cause.severity == Severity::Error);
        if halted { phase::UPDATE_FAILED } else { phase::UPDATING }
    };
    match before {
        Some(phase::UPDATING | phase::UPDATE_FAILED) => updating(),
        Some(phase::UNHEALTHY) if changes => updating(),
        Some(phase::RUNNING) if changes || groups.iter().any(ReplicaCounts::is_moving) => phase::UPDATING,
        Some(phase::RUNNING | phase::UNHEALTHY) => phase::UNHEALTHY,
        _ => phase::CREATING,
    }
}

/// Returns true if the objects match the spec: the pools, their replicas and the release.
fn is_complete(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let topology = &tkc.spec.topology;
    let Some(kcp) = &facts.control_plane else { return false };
    let release = current_version(tkc).map(|version| release_label(&version));
    let is_release = |labels: &BTreeMap<String, String>| match &release {
        Some(release) => labels.get(label::TKR) == Some(release),
        None => true,
    };
    let pools = topology.node_pools.iter().all(|pool| {
        let of_pool = |d: &&Arc<MachineDeployment>| d.labels().get(label::NODE_POOL) == Some(&pool.name);
        facts.deployments.iter().find(of_pool).is_some_and(|deployment| {
            pool.replicas.is_none_or(|replicas| deployment.spec.replicas == Some(replicas))
                && is_release(deployment.labels())
        })
    });
    kcp.spec.replicas == Some(topology.control_plane.replicas.unwrap_or(1))
        && is_release(kcp.labels())
        && pools
        && facts.deployments.len() == topology.node_pools.len()
}
