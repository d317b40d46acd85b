//! WCPCluster: what a cluster needs of vSphere besides its machines.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiEndpoint, Initialization, TemplateMeta};

/// The vSphere infrastructure of a cluster besides its machines: network, endpoint, placement.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "WCPCluster",
    namespaced,
    category = "cluster-api",
    status = "WCPClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The vSphere infrastructure of a cluster besides its machines.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        priority = 1
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.controlPlaneEndpoint.host",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPClusterSpec {
    /// The endpoint of the API server. The provider determines it unless you set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
}

/// The observed state of the infrastructure of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPClusterStatus {
    /// Reports the first provisioning of the infrastructure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The infrastructure is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The endpoints of the API server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// The VirtualMachineSetResourcePolicy of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_policy_name: Option<String>,
    /// The failure domains in which machines can be placed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub failure_domains: Vec<FailureDomain>,
    /// The conditions of the infrastructure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A failure domain for machines: a vSphere zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct FailureDomain {
    /// The name of the zone.
    pub name: String,
    /// True if control plane machines can be placed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// The template from which a ClusterClass creates WCPClusters.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "WCPClusterTemplate",
    namespaced,
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "The template from which a ClusterClass creates WCPClusters.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct WCPClusterTemplateSpec {
    /// The contents of each WCPCluster. It cannot be changed.
    pub template: WCPClusterTemplateResource,
}

/// The contents of each WCPCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct WCPClusterTemplateResource {
    /// Its labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Its spec.
    pub spec: WCPClusterSpec,
}
