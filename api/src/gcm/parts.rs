//! What the versions of TanzuKubernetesCluster have in common.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::conditions::Condition;

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
    /// How many nodes: 1 or 3. Left out it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
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
    /// The release the nodes run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tkr: Option<Tkr>,
    /// How long draining a node may take. 0 or left out: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_drain_timeout: Option<String>,
}

/// A group of nodes that are alike.
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
    /// The vSphere zone the nodes are placed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub failure_domain: Option<String>,
    /// How many nodes. Left out, something else (an autoscaler) decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
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
    /// The release the nodes run. Left out it is the control plane's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tkr: Option<Tkr>,
    /// How long draining a node may take. 0 or left out: no limit.
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
    /// The storage class of the disk. Left out it is the node's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

/// The release of a group of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tkr {
    /// The TanzuKubernetesRelease; only its name counts.
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
    /// A hint, such as `v1.33`: the newest release that begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
}

/// What is not topology: network and storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How pods and services are addressed, and what lies between the nodes and the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSettings>,
    /// Which storage classes the cluster offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSettings>,
}

/// How pods and services are addressed, and what lies between the nodes and the world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSettings {
    /// The container network: `antrea`, `calico` or `antrea-nsx-routed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<Cni>,
    /// Addresses of pods. Left out: 192.168.0.0/16, or none for `antrea-nsx-routed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// Addresses of services. Left out: 10.96.0.0/12.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    /// The domain of service names. Left out: `cluster.local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_domain: Option<String>,
    /// The proxy the nodes go through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Certificate authorities the nodes trust besides the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

/// The container network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Cni {
    /// `antrea`, `calico` or `antrea-nsx-routed`.
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

/// The proxy the nodes go through. Its addresses may carry a password, which [`fmt::Debug`] leaves
/// out.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    /// Where requests by HTTP go, as `http://user:password@address:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub http_proxy: Option<String>,
    /// Where requests by HTTPS go, as `http://user:password@address:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub https_proxy: Option<String>,
    /// What is reached without the proxy: addresses, ranges and domains.
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

/// Certificate authorities the nodes trust besides the public ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Trust {
    /// The authorities.
    #[serde(rename = "additionalTrustedCAs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub additional_trusted_cas: Option<Vec<TrustedCa>>,
}

/// A certificate authority the nodes trust.
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

/// Which storage classes the cluster offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageSettings {
    /// The classes of the namespace that the cluster offers. Left out: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub classes: Option<Vec<String>>,
    /// The class a claim without one gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub default_class: Option<String>,
}

/// Where an API server answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["host", "port"]))]
pub struct ApiEndpoint {
    /// The address or name.
    pub host: String,
    /// The port.
    pub port: i32,
}

/// An abridged status of the Cluster below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterApiStatus {
    /// Where the API server answers. Only v1alpha1 shows it here; see `status.apiEndpoints`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// Why the Cluster failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// Why the Cluster failed, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// How far the Cluster is: `provisioning`, `provisioned` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// A node that was replaced because it was not healthy, with what was known of it: its Machine is gone.
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
    /// Why, for people: what the health check found, and what was last known of the virtual machine and its first boot.
    pub message: String,
}

/// An add-on of the cluster, as v1alpha2 and later list it.
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
    /// How it is: `Provisioned`.
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

/// How far a node's virtual machine is, in one word.
pub mod vm_status {
    /// There is no virtual machine any more.
    pub const NOT_FOUND: &str = "notfound";
    /// The virtual machine is asked for.
    pub const PENDING: &str = "pending";
    /// vCenter has it.
    pub const CREATED: &str = "created";
    /// It is on.
    pub const POWERED_ON: &str = "poweredon";
    /// It is on and has an address. Says nothing of kubeadm.
    pub const READY: &str = "ready";
    /// It is going away.
    pub const DELETING: &str = "deleting";
    /// It cannot be made.
    pub const ERROR: &str = "error";
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
