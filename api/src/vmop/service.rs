//! VirtualMachineService: a virtual address for a set of virtual machines.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// Virtual address for a set of virtual machines.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineService",
    namespaced,
    shortname = "vmservice",
    status = "VirtualMachineServiceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Virtual address for a set of virtual machines.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct VirtualMachineServiceSpec {
    /// Service type: `ClusterIP`, `LoadBalancer` or `ExternalName`. Immutable.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["ClusterIP", "LoadBalancer", "ExternalName"]))]
    pub type_: String,
    /// Service ports. Optional for ExternalName services and headless services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<VirtualMachineServicePort>,
    /// Labels that select the virtual machines behind the service.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// Requested load balancer IP address. Not all providers support it.
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub load_balancer_ip: Option<String>,
    /// CIDRs from which clients can access the load balancer. Only for LoadBalancer services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)))]
    pub load_balancer_source_ranges: Vec<String>,
    /// IP address inside the cluster, or `None` for a headless service. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cluster_ip: Option<String>,
    /// DNS name that the service is an alias for. Required for ExternalName services.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 254))]
    pub external_name: Option<String>,
}

/// Service port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "protocol", "port", "targetPort"]))]
pub struct VirtualMachineServicePort {
    /// Port name, a DNS label unique in the service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Protocol: `TCP`, `UDP` or `SCTP`.
    #[schemars(length(max = 16))]
    pub protocol: String,
    /// Service port number.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Port number on the virtual machines.
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: i32,
}

/// Observed service state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineServiceStatus {
    /// Load balancer addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
    /// Service conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Load balancer addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// List of addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// Load balancer address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// IP address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}
