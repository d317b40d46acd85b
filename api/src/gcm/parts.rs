//! Types that all TanzuKubernetesCluster versions share.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::capw::ApiEndpoint;
use crate::conditions::Condition;
use crate::gcm::authentication::AuthenticationSettings;

/// The maximum number of nodes in a cluster, which is Kubernetes' own limit.
pub const MAX_NODES: i32 = 5000;

/// Control plane and node pools, in v1alpha2 and later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["controlPlane", "nodePools"]))]
pub struct Topology {
    /// Nodes that run the cluster's API server and etcd.
    pub control_plane: ControlPlane,
    /// Node pools that run the user's pods. Can be empty.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub node_pools: Vec<NodePool>,
}

/// Nodes that run the cluster's API server and etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["vmClass", "storageClass"]))]
pub struct ControlPlane {
    /// Number of nodes: 1 or 3. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub replicas: Option<i32>,
    /// VirtualMachineClass for the nodes. It must be bound to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub vm_class: String,
    /// Storage class for the root disks. It must be assigned to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub storage_class: String,
    /// Additional disks for each node, mounted before etcd and containerd start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// Release for the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tkr: Option<Tkr>,
    /// Maximum time to drain a node, such as `10m`. 0 or unset means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_drain_timeout: Option<String>,
}

/// Node pool: nodes with the same configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "vmClass", "storageClass"]))]
pub struct NodePool {
    /// Pool name, unique in the cluster. It is part of the node names.
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Labels for the pool's nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Taints for the pool's nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub taints: Option<Vec<Taint>>,
    /// vSphere zone in which the nodes are placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub failure_domain: Option<String>,
    /// Number of nodes, at most 5000. If not set, another component sets the pool size, such as an autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub replicas: Option<i32>,
    /// VirtualMachineClass for the nodes. It must be bound to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub vm_class: String,
    /// Storage class for the root disks. It must be assigned to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub storage_class: String,
    /// Additional disks for each node, mounted before containerd starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// Release for the nodes. Defaults to the release of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tkr: Option<Tkr>,
    /// Maximum time to drain a node, such as `10m`. 0 or unset means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_drain_timeout: Option<String>,
}

/// Additional disk for each node in a control plane or pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "mountPath", "capacity"]))]
pub struct Volume {
    /// Disk name, unique on the node.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Path at which the node mounts the disk.
    #[schemars(length(max = 4096))]
    pub mount_path: String,
    /// Disk size, under the key `storage`.
    #[schemars(extend("maxProperties" = 8))]
    pub capacity: BTreeMap<String, Quantity>,
    /// Storage class for the disk. Defaults to the node's storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

/// Release for the nodes in a control plane or pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tkr {
    /// Reference to a TanzuKubernetesRelease. Only its name is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectReference>,
}

impl Tkr {
    /// Returns a reference to the release with this name.
    pub fn named(name: impl Into<String>) -> Self {
        let reference = ObjectReference { name: Some(name.into()), ..ObjectReference::default() };
        Self { reference: Some(reference) }
    }

    /// Returns the release name, unless it is empty.
    pub fn name(&self) -> Option<&str> {
        self.reference.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
    }
}

/// Kubernetes version in the v1alpha1 format, which later versions still accept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Distribution {
    /// Exact release version, such as `v1.33.1+vmware.1-tkg.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub full_version: Option<String>,
    /// Version prefix, such as `v1.33`. It selects the newest release that starts with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
}

/// Network, storage and authentication settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Pod and service networks, container network, proxy and trusted certificate authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSettings>,
    /// Storage classes for the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSettings>,
    /// Token issuers with which users log in to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<AuthenticationSettings>,
}

/// Pod and service networks, container network, proxy and trusted certificate authorities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSettings {
    /// Container network: `antrea`, `calico`, `antrea-nsx-routed`, `flannel` or an add-on bundle in the namespace.
    /// Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<Cni>,
    /// Pod network. Defaults to 192.168.0.0/16, or to empty with `antrea-nsx-routed`. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// Service network. Defaults to 10.96.0.0/12. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    /// Domain for service names. Defaults to `cluster.local`. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_domain: Option<String>,
    /// Proxy for the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Certificate authorities that the nodes trust in addition to public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

/// Container network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Cni {
    /// Container network name: `antrea`, `calico`, `antrea-nsx-routed`, `flannel` or an add-on bundle in the
    /// namespace.
    #[schemars(length(max = 63))]
    pub name: String,
}

/// Network ranges in CIDR notation. Host bits are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkRanges {
    /// List of ranges, such as `192.168.0.0/16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(max = 64)))]
    pub cidr_blocks: Option<Vec<String>>,
}

/// Proxy for the nodes. [`fmt::Debug`] redacts credentials in its addresses.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    /// Proxy for HTTP requests: `http://user:password@address:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub http_proxy: Option<String>,
    /// Proxy for HTTPS requests: `http://user:password@address:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub https_proxy: Option<String>,
    /// Addresses, ranges and domains that nodes access without the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub no_proxy: Option<Vec<String>>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redact = |address: &Option<String>| {
            let address = address.as_deref()?;
            let shown = match (address.split_once("://"), address.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
                (None, Some((_, host))) => format!("…@{host}"),
                (_, None) => address.to_owned(),
            };
            Some(shown)
        };
        f.debug_struct("Proxy")
            .field("http_proxy", &redact(&self.http_proxy))
            .field("https_proxy", &redact(&self.https_proxy))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// Certificate authorities that the nodes trust in addition to public ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Trust {
    /// List of certificate authorities.
    #[serde(rename = "additionalTrustedCAs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub additional_trusted_cas: Option<Vec<TrustedCa>>,
}

/// Certificate authority that the nodes trust.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "data"]))]
pub struct TrustedCa {
    /// Name of the certificate file on the nodes.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Certificate in PEM format, encoded in base64.
    #[schemars(length(max = 1_500_000))]
    pub data: String,
}

/// Storage classes for the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageSettings {
    /// The namespace's storage classes that the cluster offers. Defaults to all storage classes in the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub classes: Option<Vec<String>>,
    /// Default storage class in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub default_class: Option<String>,
}

/// Summary of the Cluster API Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterApiStatus {
    /// API server endpoints. Only v1alpha1 shows them here; see `status.apiEndpoints`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// Reason for which the Cluster has failed, as one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// Human-readable message about the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Cluster phase, such as `provisioning` or `provisioned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// Node that was replaced because it was unhealthy. Its Machine no longer exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["machine", "time"]))]
pub struct RemediatedNode {
    /// Machine name.
    pub machine: String,
    /// Node name, if the node had joined the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Time at which the replacement started, such as `2026-11-21T13:00:00Z`.
    pub time: String,
    /// Reason for the replacement, as one CamelCase word.
    pub reason: String,
    /// Human-readable message with the result of the health check, the last known virtual machine state, and the state
    /// of the first boot.
    pub message: String,
}

/// Add-on in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct AddonStatus {
    /// Add-on name, such as `CoreDNS`, `kube-proxy` or `calico`.
    pub name: String,
    /// Add-on type: `AuthService`, `CNI`, `CPI`, `CSI`, `DNS`, `Proxy`, `PSP` or `MetricsServer`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Version that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Add-on conditions: `Provisioned`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Values of a cluster's `status.phase`.
pub mod phase {
    /// The cluster is being created.
    pub const CREATING: &str = "creating";
    /// The cluster is operational.
    pub const RUNNING: &str = "running";
    /// The cluster is being deleted.
    pub const DELETING: &str = "deleting";
    /// The cluster can't be created.
    pub const FAILED: &str = "failed";
    /// The cluster is changing its version or its nodes.
    pub const UPDATING: &str = "updating";
    /// An error blocks the update.
    pub const UPDATE_FAILED: &str = "updateFailed";
    /// The cluster was operational before, but isn't anymore.
    pub const UNHEALTHY: &str = "unhealthy";
}

/// Values of a cluster's `status.nodeStatus`.
pub mod node_status {
    /// The node hasn't joined yet.
    pub const PENDING: &str = "pending";
    /// The node's state isn't known.
    pub const UNKNOWN: &str = "unknown";
    /// The node has joined but isn't Ready.
    pub const NOT_READY: &str = "notready";
    /// The node is Ready.
    pub const READY: &str = "ready";
}
