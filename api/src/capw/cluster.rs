//! WCPCluster: a cluster's vSphere infrastructure except for its machines.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiEndpoint, Initialization, TemplateMeta};

/// vSphere infrastructure for a cluster except for its machines: network, endpoint and placement.
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
    doc = "vSphere infrastructure for a cluster except for its machines: network, endpoint and placement.",
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
    /// API server endpoint. The provider determines it unless you set it. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
}

/// Observed cluster infrastructure state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPClusterStatus {
    /// Initial provisioning of the infrastructure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// True if the infrastructure is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// API server endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// Name of the cluster's VirtualMachineSetResourcePolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_policy_name: Option<String>,
    /// Failure domains in which machines can be placed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub failure_domains: Vec<FailureDomain>,
    /// Infrastructure conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Failure domain for machines: a vSphere zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct FailureDomain {
    /// Zone name.
    pub name: String,
    /// True if control plane machines can be placed in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Additional attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Template from which a ClusterClass creates WCPClusters.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "WCPClusterTemplate",
    namespaced,
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "Template from which a ClusterClass creates WCPClusters.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct WCPClusterTemplateSpec {
    /// Content of each WCPCluster. Immutable.
    pub template: WCPClusterTemplateResource,
}

/// Content of each WCPCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct WCPClusterTemplateResource {
    /// Labels and annotations for the WCPCluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Spec for the WCPCluster.
    pub spec: WCPClusterSpec,
}
