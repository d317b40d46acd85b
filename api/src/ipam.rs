//! Address pools of Cluster API's in-cluster IPAM provider, API group `ipam.cluster.x-k8s.io`.
//!
//! Administrators create these objects, and the provider writes their status. The types contain only the fields that
//! Layercake reads. IPAddressClaim and IPAddress are Cluster API kinds: see [`crate::capi`].

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Address pool for one namespace.
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
    doc = "Address pool for one namespace."
)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolSpec {
    /// IP addresses, ranges (`first-last`) and CIDRs.
    pub addresses: Vec<String>,
    /// Network prefix length.
    pub prefix: i32,
    /// Network gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// Address pool for all namespaces.
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
    doc = "Address pool for all namespaces."
)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalInClusterIpPoolSpec {
    /// IP addresses, ranges (`first-last`) and CIDRs.
    pub addresses: Vec<String>,
    /// Network prefix length.
    pub prefix: i32,
    /// Network gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// Observed pool state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolStatus {
    /// Address counts. Not set until the provider has read the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<InClusterIpPoolStatusAddresses>,
}

/// Address counts of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InClusterIpPoolStatusAddresses {
    /// Total number of addresses.
    pub total: i64,
    /// Number of addresses in use.
    pub used: i64,
    /// Number of free addresses. Negative if more addresses are in use than the pool contains.
    pub free: i64,
}
