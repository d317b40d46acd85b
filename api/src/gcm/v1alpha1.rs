//! TanzuKubernetesCluster v1alpha1: one group of workers, and a version instead of a release.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::parts::{
    ClusterApiStatus, Distribution, MAX_NODES, NetworkSettings, RemediatedNode, Settings, StorageSettings,
    Volume, node_status, phase,
};
use crate::conditions::Condition;

/// The desired state of a Kubernetes cluster of virtual machines.
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
    doc = "A Kubernetes cluster of virtual machines.",
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
    /// The nodes: a control plane and workers.
    pub topology: Topology,
    /// The version of Kubernetes.
    pub distribution: Distribution,
    /// Network and storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

/// The nodes: a control plane and workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["controlPlane", "workers"]))]
pub struct Topology {
    /// The nodes that run the cluster's API server and etcd.
    pub control_plane: ControlPlane,
    /// The nodes that run the user's pods.
    pub workers: Nodes,
}

/// Nodes that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["count", "class", "storageClass"]))]
pub struct Nodes {
    /// The number of nodes, at most 5000.
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub count: i32,
    /// The VirtualMachineClass of the nodes; it must be bound to the namespace.
    #[schemars(length(max = 253))]
    pub class: String,
    /// The storage class of the root disks; it must be assigned to the namespace.
    #[schemars(length(max = 253))]
    pub storage_class: String,
    /// Further disks of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
}

/// The nodes of the control plane.
pub type ControlPlane = Nodes;

/// The observed state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TanzuKubernetesClusterStatus {
    /// The phase of the cluster: `creating`, `running`, `updating`, `updateFailed`, `unhealthy`, `deleting` or
    /// `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The version that is running; during an upgrade, the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A summary of the Cluster API Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_api_status: Option<ClusterApiStatus>,
    /// The state of each node's virtual machine, by Machine: `pending`, `created`, `poweredon`, `ready`, `deleting`,
    /// `notfound` or `error`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vm_status: BTreeMap<String, String>,
    /// The state of each node, by Machine: `pending`, `ready`, `notready` or `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_status: BTreeMap<String, String>,
    /// The add-ons, by purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addons: Option<AddonsStatus>,
    /// The number of nodes that were replaced because they were unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_remediation_count: Option<i32>,
    /// The last of these nodes, the most recent one at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediated_nodes: Vec<RemediatedNode>,
    /// The conditions of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The number of worker nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_worker_replicas: Option<i32>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The add-ons, by purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", default)]
pub struct AddonsStatus {
    /// Name resolution: CoreDNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<AddonStatus>,
    /// Service routing: kube-proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<AddonStatus>,
    /// Pod security: defaultpsp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psp: Option<AddonStatus>,
    /// The container network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<AddonStatus>,
    /// Storage: pvcsi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<AddonStatus>,
    /// Load balancers and routes: vmware-guest-cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloudprovider: Option<AddonStatus>,
    /// Single sign-on: authsvc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authsvc: Option<AddonStatus>,
    /// Metrics: metrics-server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metricsserver: Option<AddonStatus>,
}

/// The observed state of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonStatus {
    /// The name, such as `CoreDNS`, `kube-proxy` or `calico`.
    pub name: String,
    /// `pending`, `applied`, `error` or `unmanaged`.
    pub status: String,
    /// The version that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The error that prevents it from being applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_message: Option<String>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
