//! TanzuKubernetesCluster v1alpha1, which has a single worker group, and a version instead of a release reference.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::parts::{
    ClusterApiStatus, Distribution, MAX_NODES, NetworkSettings, RemediatedNode, Settings, StorageSettings,
    Volume, node_status, phase,
};
use crate::conditions::Condition;

/// Kubernetes cluster on virtual machines.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "TanzuKubernetesCluster",
    namespaced,
    shortname = "tkc",
    status = "TanzuKubernetesClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Kubernetes cluster on virtual machines.",
    printcolumn(name = "Control Plane", type_ = "integer", json_path = ".spec.topology.controlPlane.count"),
    printcolumn(name = "Worker", type_ = "integer", json_path = ".spec.topology.workers.count"),
    printcolumn(name = "Distribution", type_ = "string", json_path = ".spec.distribution.fullVersion"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
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
#[schemars(extend("required" = ["topology", "distribution"]))]
pub struct TanzuKubernetesClusterSpec {
    /// Control plane and worker nodes.
    pub topology: Topology,
    /// Kubernetes version.
    pub distribution: Distribution,
    /// Network, storage and authentication settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// Control plane and worker nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["controlPlane", "workers"]))]
pub struct Topology {
    /// Nodes that run the cluster's API server and etcd.
    pub control_plane: ControlPlane,
    /// Nodes that run the user's pods.
    pub workers: Nodes,
}

/// Nodes with the same configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["count", "class", "storageClass"]))]
pub struct Nodes {
    /// Number of nodes, at most 5000; for the control plane, 1 or 3.
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub count: i32,
    /// VirtualMachineClass for the nodes. It must be bound to the namespace.
    #[schemars(length(max = 253))]
    pub class: String,
    /// Storage class for the root disks. It must be assigned to the namespace.
    #[schemars(length(max = 253))]
    pub storage_class: String,
    /// Additional disks for each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
}

/// Control plane nodes.
pub type ControlPlane = Nodes;

/// Observed cluster state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TanzuKubernetesClusterStatus {
    /// Cluster phase: `creating`, `running`, `updating`, `updateFailed`, `unhealthy`, `deleting` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Version that is running. During an upgrade, the old version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Summary of the Cluster API Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_api_status: Option<ClusterApiStatus>,
    /// Virtual machine states by Machine name: `pending`, `created`, `poweredon`, `ready`, `deleting`, `notfound` or
    /// `error`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vm_status: BTreeMap<String, String>,
    /// Node states by Machine name: `pending`, `ready`, `notready` or `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_status: BTreeMap<String, String>,
    /// Add-ons by purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addons: Option<AddonsStatus>,
    /// Number of unhealthy nodes that were replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_remediation_count: Option<i32>,
    /// Most recently replaced nodes, in chronological order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediated_nodes: Vec<RemediatedNode>,
    /// Cluster conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Number of worker nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_worker_replicas: Option<i32>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Add-ons by purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", default)]
pub struct AddonsStatus {
    /// DNS: CoreDNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<AddonStatus>,
    /// Service proxy: kube-proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<AddonStatus>,
    /// Pod security: defaultpsp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psp: Option<AddonStatus>,
    /// Container network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<AddonStatus>,
    /// Storage driver: pvcsi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<AddonStatus>,
    /// Cloud provider for load balancers and routes: vmware-guest-cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloudprovider: Option<AddonStatus>,
    /// Single sign-on: authsvc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authsvc: Option<AddonStatus>,
    /// Metrics: metrics-server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metricsserver: Option<AddonStatus>,
}

/// Observed add-on state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonStatus {
    /// Add-on name, such as `CoreDNS`, `kube-proxy` or `calico`.
    pub name: String,
    /// Add-on status: `pending`, `applied`, `error` or `unmanaged`.
    pub status: String,
    /// Version that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Error that prevents the add-on from being applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_message: Option<String>,
    /// Add-on conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
