//! VirtualMachineService: an address in front of a set of virtual machines.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// An address in front of a set of virtual machines.
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
    doc = "An address for a set of virtual machines.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct VirtualMachineServiceSpec {
    /// `ClusterIP`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["ClusterIP", "LoadBalancer", "ExternalName"]))]
    pub type_: String,
    /// The ports of the service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<VirtualMachineServicePort>,
    /// The labels of the virtual machines behind it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// The requested address, if the provider supports a choice.
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub load_balancer_ip: Option<String>,
    /// The address ranges that can reach the service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)))]
    pub load_balancer_source_ranges: Vec<String>,
    /// The address inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cluster_ip: Option<String>,
    /// The DNS name of a service of type ExternalName.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 254))]
    pub external_name: Option<String>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "protocol", "port", "targetPort"]))]
pub struct VirtualMachineServicePort {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    #[schemars(length(max = 16))]
    pub protocol: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// The port of the virtual machines.
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: i32,
}

/// The observed state of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineServiceStatus {
    /// The addresses of the load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The addresses of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// Its addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// An address of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}
