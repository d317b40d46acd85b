//! TanzuKubernetesCluster v1alpha3, which is the stored version and the one that programs use.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::parts::*;
use crate::capw::ApiEndpoint;
use crate::conditions::Condition;

/// Kubernetes cluster on virtual machines.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha3",
    kind = "TanzuKubernetesCluster",
    namespaced,
    shortname = "tkc",
    status = "TanzuKubernetesClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Kubernetes cluster on virtual machines.",
    printcolumn(
        name = "Control Plane",
        type_ = "integer",
        json_path = ".spec.topology.controlPlane.replicas"
    ),
    printcolumn(name = "Worker", type_ = "integer", json_path = ".status.totalWorkerReplicas"),
    printcolumn(
        name = "TKR Name",
        type_ = "string",
        json_path = ".spec.topology.controlPlane.tkr.reference.name"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "TKR Compatible",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='TanzuKubernetesReleaseCompatible')].status"
    ),
    printcolumn(
        name = "Updates Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='UpdatesAvailable')].message"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["topology"]))]
pub struct TanzuKubernetesClusterSpec {
    /// Control plane nodes and node pools.
    pub topology: Topology,
    /// Kubernetes version in the v1alpha1 format. Use `tkr` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Network, storage and authentication settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// Observed cluster state.
///
/// `vmStatus` and `nodeStatus` are extensions: the original API removed them after v1alpha1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TanzuKubernetesClusterStatus {
    /// API server endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// Version that is running. During an upgrade, the old version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Add-ons in the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<AddonStatus>,
    /// Cluster phase: `creating`, `running`, `updating`, `updateFailed`, `unhealthy`, `deleting` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Cluster conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Number of worker nodes in all pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_worker_replicas: Option<i32>,
    /// Virtual machine states by Machine name: `pending`, `created`, `poweredon`, `ready`, `deleting`, `notfound` or
    /// `error`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vm_status: BTreeMap<String, String>,
    /// Node states by Machine name: `pending`, `ready`, `notready` or `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_status: BTreeMap<String, String>,
    /// Summary of the Cluster API Cluster, which v1alpha1 shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_api_status: Option<ClusterApiStatus>,
    /// Number of unhealthy nodes that were replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_remediation_count: Option<i32>,
    /// Most recently replaced nodes, in chronological order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediated_nodes: Vec<RemediatedNode>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
