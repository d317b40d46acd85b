//! TanzuKubernetesCluster v1alpha3: the stored version, and the one the programs work with.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::parts::*;
use crate::capw::ApiEndpoint;
use crate::conditions::Condition;

/// The desired state of a Kubernetes cluster of virtual machines.
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
    doc = "A Kubernetes cluster of virtual machines.",
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
    /// The nodes: one control plane and any number of node pools.
    pub topology: Topology,
    /// The version of Kubernetes in the form of v1alpha1; `tkr` replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Network and storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// The observed state of a cluster.
///
/// `vmStatus` and `nodeStatus` are additions: the original API dropped them after v1alpha1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TanzuKubernetesClusterStatus {
    /// The endpoints of the API server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// The version that is running; during an upgrade, the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The add-ons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<AddonStatus>,
    /// The phase of the cluster: `creating`, `running`, `updating`, `updateFailed`, `unhealthy`, `deleting` or
    /// `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The conditions of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The number of worker nodes in all pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_worker_replicas: Option<i32>,
    /// The state of each node's virtual machine, by Machine: `pending`, `created`, `poweredon`, `ready`, `deleting`,
    /// `notfound` or `error`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vm_status: BTreeMap<String, String>,
    /// The state of each node, by Machine: `pending`, `ready`, `notready` or `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_status: BTreeMap<String, String>,
    /// The Cluster below, abridged; v1alpha1 shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_api_status: Option<ClusterApiStatus>,
    /// The number of nodes that were replaced because they were unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_remediation_count: Option<i32>,
    /// The last of these nodes, the most recent one at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediated_nodes: Vec<RemediatedNode>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
