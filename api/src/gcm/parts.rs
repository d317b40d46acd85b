//! What the versions of TanzuKubernetesCluster have in common.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::capw::ApiEndpoint;
use crate::conditions::Condition;
use crate::gcm::authentication::AuthenticationSettings;

/// The maximum number of nodes of a cluster, which is that of Kubernetes.
pub const MAX_NODES: i32 = 5000;

/// The shape of the cluster since v1alpha2: one control plane and any number of node pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["controlPlane", "nodePools"]))]
pub struct Topology {
    /// The nodes that run the cluster's API server and etcd.
    pub control_plane: ControlPlane,
    /// The groups of nodes that run the user's pods. May be empty.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub node_pools: Vec<NodePool>,
}

/// The nodes that run the cluster's API server and etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["vmClass", "storageClass"]))]
pub struct ControlPlane {
    /// The number of nodes: 1 or 3. If left out: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub replicas: Option<i32>,
    /// The VirtualMachineClass of the nodes; it must be bound to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub vm_class: String,
    /// The storage class of the root disks; it must be assigned to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub storage_class: String,
    /// Further disks of each node, mounted before etcd and containerd start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// The release of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tkr: Option<Tkr>,
    /// The maximum time for draining a node. 0 or left out: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_drain_timeout: Option<String>,
}

/// A group of nodes with the same configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "vmClass", "storageClass"]))]
pub struct NodePool {
    /// The name of the pool, unique in the cluster and part of its nodes' names.
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Labels of the pool's nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Taints of the pool's nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub taints: Option<Vec<Taint>>,
    /// The vSphere zone in which the nodes are placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub failure_domain: Option<String>,
    /// The number of nodes, at most 5000. If left out, another component decides, such as an autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub replicas: Option<i32>,
    /// The VirtualMachineClass of the nodes; it must be bound to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub vm_class: String,
    /// The storage class of the root disks; it must be assigned to the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub storage_class: String,
    /// Further disks of each node, mounted before containerd starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// The release of the nodes. If left out: that of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tkr: Option<Tkr>,
    /// The maximum time for draining a node. 0 or left out: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_drain_timeout: Option<String>,
}

/// A further disk of every node of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "mountPath", "capacity"]))]
pub struct Volume {
    /// The name of the disk, unique on the node.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Where the node mounts the disk.
    #[schemars(length(max = 4096))]
    pub mount_path: String,
    /// The size of the disk, under the key `storage`.
    #[schemars(extend("maxProperties" = 8))]
    pub capacity: BTreeMap<String, Quantity>,
    /// The storage class of the disk. If left out: that of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

/// The release of a group of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tkr {
    /// The TanzuKubernetesRelease; only its name is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectReference>,
}

impl Tkr {
    /// The release of this name.
    pub fn named(name: impl Into<String>) -> Self {
        let reference = ObjectReference { name: Some(name.into()), ..ObjectReference::default() };
        Self { reference: Some(reference) }
    }

    /// The name of the release, if it says one.
    pub fn name(&self) -> Option<&str> {
        self.reference.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
    }
}

/// The version of Kubernetes, as v1alpha1 knows it and later versions still take it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Distribution {
    /// One exact release, such as `v1.33.1+vmware.1-tkg.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub full_version: Option<String>,
    /// A version hint, such as `v1.33`: the newest release that begins with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
}

/// Settings besides the topology: network, storage and authentication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The addresses of pods and services, the container network, the proxy and the trusted authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSettings>,
    /// The storage classes of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSettings>,
    /// The issuers of tokens with which users log in to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<AuthenticationSettings>,
}

/// The addresses of pods and services, the container network, the proxy and the trusted authorities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSettings {
    /// The container network: `antrea`, `calico`, `antrea-nsx-routed`, `flannel` or an add-on bundle of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<Cni>,
    /// Addresses of pods. If left out: 192.168.0.0/16, or none for `antrea-nsx-routed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// Addresses of services. If left out: 10.96.0.0/12.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    /// The domain of service names. If left out: `cluster.local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_domain: Option<String>,
    /// The proxy of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Certificate authorities that the nodes trust in addition to the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

/// The container network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Cni {
    /// `antrea`, `calico`, `antrea-nsx-routed`, `flannel` or an add-on bundle of the namespace.
    #[schemars(length(max = 63))]
    pub name: String,
}

/// Addresses in CIDR notation. Bits of the host part are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkRanges {
    /// The ranges, such as `192.168.0.0/16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(max = 64)))]
    pub cidr_blocks: Option<Vec<String>>,
}

/// The proxy of the nodes. Its addresses may carry a password, which [`fmt::Debug`] leaves out.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    /// The proxy for HTTP requests, as `http://user:password@address:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub http_proxy: Option<String>,
    /// The proxy for HTTPS requests, as `http://user:password@address:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub https_proxy: Option<String>,
    /// The addresses, ranges and domains that are reached without the proxy.
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

/// Certificate authorities that the nodes trust in addition to the public ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Trust {
    /// The authorities.
    #[serde(rename = "additionalTrustedCAs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub additional_trusted_cas: Option<Vec<TrustedCa>>,
}

/// A certificate authority that the nodes trust.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "data"]))]
pub struct TrustedCa {
    /// The name of its file on the nodes.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its certificate: base64 of PEM.
    #[schemars(length(max = 1_500_000))]
    pub data: String,
}

/// The storage classes of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageSettings {
    /// The classes of the namespace that the cluster offers. If left out: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub classes: Option<Vec<String>>,
    /// The default storage class of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub default_class: Option<String>,
}

/// An abridged status of the Cluster below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterApiStatus {
    /// The endpoints of the API server. Only v1alpha1 shows it here; see `status.apiEndpoints`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// Why the Cluster failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// Why the Cluster failed, as a text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The phase of the Cluster: `provisioning`, `provisioned` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// A node that was replaced because it was unhealthy. Its Machine no longer exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["machine", "time"]))]
pub struct RemediatedNode {
    /// The Machine.
    pub machine: String,
    /// The node, if it had joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When its replacement began, as `2026-11-21T13:00:00Z`.
    pub time: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, as a text for people: the finding of the health check, and the last known state of the virtual machine and
    /// its first boot.
    pub message: String,
}

/// An add-on of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct AddonStatus {
    /// The name, such as `CoreDNS`, `kube-proxy` or `calico`.
    pub name: String,
    /// `AuthService`, `CNI`, `CPI`, `CSI`, `DNS`, `Proxy`, `PSP` or `MetricsServer`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The version that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The conditions: `Provisioned`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// How far a cluster is, in one word.
pub mod phase {
    /// The cluster is being made.
    pub const CREATING: &str = "creating";
    /// The cluster serves.
    pub const RUNNING: &str = "running";
    /// The cluster is going away.
    pub const DELETING: &str = "deleting";
    /// The cluster cannot be made.
    pub const FAILED: &str = "failed";
    /// The cluster is changing its version or its nodes' shape.
    pub const UPDATING: &str = "updating";
    /// The change came to a halt.
    pub const UPDATE_FAILED: &str = "updateFailed";
    /// The cluster served and does not any more.
    pub const UNHEALTHY: &str = "unhealthy";
}

/// How a node is, in one word.
pub mod node_status {
    /// It has not joined yet.
    pub const PENDING: &str = "pending";
    /// Not known.
    pub const UNKNOWN: &str = "unknown";
    /// It joined and is not Ready.
    pub const NOT_READY: &str = "notready";
    /// It is Ready.
    pub const READY: &str = "ready";
}
