//! Pools of addresses as Cluster API's in-cluster IPAM provider has them, group `ipam.cluster.x-k8s.io`.
//!
//! Administrators create these objects, and the provider writes their status. The types have only the fields that are read. Claims and
//! addresses are kinds of Cluster API: see [`crate::capi`].

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of one namespace.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha2",
    kind = "InClusterIPPool",
    root = "InClusterIpPool",
    plural = "inclusterippools",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "InClusterIpPoolStatus",
    doc = "A pool of addresses of one namespace."
)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolSpec {
    /// Addresses, ranges `first-last` and CIDRs.
    pub addresses: Vec<String>,
    /// The length of the network's prefix.
    pub prefix: i32,
    /// The network's gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// A pool of all namespaces.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha2",
    kind = "GlobalInClusterIPPool",
    root = "GlobalInClusterIpPool",
    plural = "globalinclusterippools",
    derive = "Default",
    derive = "PartialEq",
    status = "InClusterIpPoolStatus",
    doc = "A pool of addresses of all namespaces."
)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalInClusterIpPoolSpec {
    /// Addresses, ranges `first-last` and CIDRs.
    pub addresses: Vec<String>,
    /// The length of the network's prefix.
    pub prefix: i32,
    /// The network's gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// The status of a pool of either kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolStatus {
    /// The numbers of addresses; missing until the provider has read the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<InClusterIpPoolStatusAddresses>,
}

/// Numbers of a pool's addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolStatusAddresses {
    /// The number of all addresses.
    pub total: i64,
    /// The number of addresses in use.
    pub used: i64,
    /// The number of free addresses. Negative if the pool has fewer addresses than are in use.
    pub free: i64,
}
