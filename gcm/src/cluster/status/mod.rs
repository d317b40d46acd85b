//! Computes a cluster's status from its facts.

pub mod blocking;
pub mod conditions;
mod lost;
pub mod milestones;
pub mod phase;
pub mod remaining;

use api::capw::ApiEndpoint;
use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::{Condition, ERROR, INFO, READY, WARNING, tkc as words};
use api::gcm::parts::{AddonStatus, ClusterApiStatus, phase as phases};
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};

use super::error::Error;
use super::facts::Facts;
use super::guest::ConditionWithCause;
use super::health::remediations::collect_remediations;
use super::node_groups::nodes::ClusterMachine;
use super::node_groups::replicas::count_pools;
use crate::spec::release::current_version;
use phase::compute_phase;
use remaining::remaining;

/// A cluster's status, and the cause that its `Ready` condition describes.
#[derive(Clone, Debug)]
pub struct StatusWithCause {
    pub status: TanzuKubernetesClusterStatus,
    /// The first cause that keeps the cluster from being ready.
    pub cause: Option<Cause>,
}

/// Computes a cluster's status. `error` is the reconcile's error, if it failed.
pub fn compute_status(tkc: &TanzuKubernetesCluster, facts: &Facts, error: Option<&Error>) -> StatusWithCause {
    let old = tkc.status.clone().unwrap_or_default();
    let nodes = ClusterMachine::all(facts);
    let conditions = conditions::build_conditions(tkc, facts);
    let ready = summary(tkc, facts, error, &conditions);
    // A failed write doesn't mean that the nodes aren't ready.
    let serves = conditions::nodes_serve(&conditions) && !matches!(error, Some(Error::Waiting(_)));
    let phase = compute_phase(tkc, facts, error, serves, ready.cause.as_ref());
    let (remediated_nodes, node_remediation_count) = collect_remediations(facts, &old);
    let conditions = conditions.into_iter().map(|each| each.condition);
    let status = TanzuKubernetesClusterStatus {
        api_endpoints: endpoints(facts),
        version: compute_version(tkc, &old, phase),
        addons: report_addons(facts, &old),
        phase: Some(phase.to_owned()),
        conditions: std::iter::once(ready.condition).chain(conditions).collect(),
        total_worker_replicas: Some(count_pools(facts).map(|(_, group)| group.there).sum()),
        vm_status: nodes.iter().map(|node| (node.name(), node.vm_status())).collect(),
        node_status: nodes.iter().map(|node| (node.name(), node.node_status().to_owned())).collect(),
        cluster_api_status: Some(cluster_api_status(facts, ready.cause.as_ref())),
        node_remediation_count,
        remediated_nodes,
        observed_generation: tkc.metadata.generation,
    };
    StatusWithCause { status, cause: ready.cause }
}

/// Returns the add-on status. Keeps the old status until the first round in the workload cluster.
fn report_addons(facts: &Facts, old: &TanzuKubernetesClusterStatus) -> Vec<AddonStatus> {
    let Some(reports) = &facts.addons else { return old.addons.clone() };
    let serves = conditions::all_nodes_ready(&ClusterMachine::all(facts));
    reports.iter().map(|report| report.status(serves)).collect()
}

fn summary(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    error: Option<&Error>,
    conditions: &[ConditionWithCause],
) -> ConditionWithCause {
    if tkc.metadata.deletion_timestamp.is_some() {
        return build_deletion_status(facts, error);
    }
    match error {
        Some(Error::Invalid(invalid)) => {
            Condition::is_false(READY, ERROR, words::INVALID, invalid.to_string()).into()
        }
        Some(
            Error::Taken(_) | Error::Secret(_) | Error::Exceeded(_) | Error::Settling(_) | Error::Api(_),
        ) => {
            let message = error.map(ToString::to_string).unwrap_or_default();
            Condition::is_false(READY, WARNING, words::RECONCILE_FAILED, message).into()
        }
        Some(Error::Arriving(why)) => {
            Condition::is_false(READY, INFO, words::WAITING_FOR_CLUSTER, why).into()
        }
        Some(Error::Waiting(why)) => Condition::is_false(READY, WARNING, words::CLUSTER_DELETED, why).into(),
        Some(Error::Behind(_)) | None => conditions::summarize_ready(conditions),
    }
}

fn build_deletion_status(facts: &Facts, error: Option<&Error>) -> ConditionWithCause {
    let cause = blocking::find_deletion_cause(facts);
    let message = match (error, &cause) {
        (Some(Error::Waiting(_)) | None, None) => format!("Waiting for {}", remaining(facts)),
        (Some(Error::Waiting(_)) | None, Some(cause)) => {
            format!("Waiting for {}: {cause}", remaining(facts))
        }
        (Some(error), _) => error.to_string(),
    };
    let severity = if cause.is_some() { WARNING } else { INFO };
    let condition = Condition::is_false(READY, severity, words::DELETING, message);
    ConditionWithCause { condition, cause }
}

fn endpoints(facts: &Facts) -> Vec<ApiEndpoint> {
    let endpoint = facts.cluster.as_ref().and_then(|cluster| cluster.spec.control_plane_endpoint.as_ref());
    endpoint
        .and_then(|endpoint| Some(ApiEndpoint { host: endpoint.host.clone()?, port: endpoint.port? }))
        .filter(|endpoint| !endpoint.host.is_empty() && endpoint.port > 0)
        .into_iter()
        .collect()
}

/// Returns the requested version if the cluster is being created, runs that version, or hasn't reported a version yet.
/// Otherwise returns the version that the status already contains.
fn compute_version(
    tkc: &TanzuKubernetesCluster,
    old: &TanzuKubernetesClusterStatus,
    phase: &str,
) -> Option<String> {
    let wanted = current_version(tkc).map(|version| version.to_string());
    match &old.version {
        Some(before) if phase != phases::RUNNING && phase != phases::CREATING => Some(before.clone()),
        _ => wanted,
    }
}

fn cluster_api_status(facts: &Facts, cause: Option<&Cause>) -> ClusterApiStatus {
    let phase = facts.cluster.as_ref().and_then(|cluster| cluster.status.as_ref()?.phase.as_ref());
    let phase =
        phase.map_or_else(|| "provisioning".to_owned(), |phase| format!("{phase:?}").to_ascii_lowercase());
    // Cluster API no longer provides these error fields. Only report errors that don't resolve by themselves.
    let error = cause.filter(|cause| cause.severity == Severity::Error);
    ClusterApiStatus {
        api_endpoints: Vec::new(),
        error_reason: error.map(|cause| cause.reason.clone()),
        error_message: error.map(ToString::to_string),
        phase: Some(phase),
    }
}
