//! Pools of addresses as Cluster API's in-cluster IPAM provider has them, group `ipam.cluster.x-k8s.io`.
//!
//! Administrators make these objects, and the provider writes their status; here are the fields that are read. Claims and addresses are Cluster API's own: see [`crate::capi`].

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

/// How a pool of either kind is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolStatus {
    /// The numbers of its addresses; none until the provider has seen the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<InClusterIpPoolStatusAddresses>,
}

/// Numbers of a pool's addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolStatusAddresses {
    /// All of them.
    pub total: i64,
    /// Those that are in use.
    pub used: i64,
    /// Those that a claim can get. Negative if the pool became smaller than what is in use.
    pub free: i64,
}
