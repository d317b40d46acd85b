//! NetworkInterface, API group `netoperator.vmware.com`: a request for an interface on a port group. net-operator
//! assigns the port group, MAC address and IP addresses.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::vmop::NetworkInterfaceProviderReference;

/// The API group of net-operator's kinds.
pub const GROUP: &str = "netoperator.vmware.com";
/// The condition type of an interface that can't be provided.
pub const FAILURE: &str = "Failure";
/// The only interface type.
pub const VMXNET3: &str = "vmxnet3";

/// Network interface of one virtual machine on a Network.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "netoperator.vmware.com",
    version = "v1alpha1",
    kind = "NetworkInterface",
    namespaced,
    status = "NetworkInterfaceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Network interface of one virtual machine on a Network."
)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterfaceSpec {
    /// Network name, in the same namespace. Defaults to the namespace's default network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// Interface type: `vmxnet3`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Provider object with details about the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NetworkInterfaceProviderReference>,
    /// Request for a port before the virtual machine exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_allocation: Option<PortAllocation>,
    /// Requested `status.externalID`.
    #[serde(rename = "externalID", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// Request for a port before the virtual machine exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["nodeName"]))]
pub struct PortAllocation {
    /// Name of the node that the port is on.
    pub node_name: String,
}

/// Observed interface state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterfaceStatus {
    /// Interface conditions: `Ready` and `Failure`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// IP addresses that the virtual machine must use.
    #[serde(rename = "ipConfigs", skip_serializing_if = "Vec::is_empty")]
    pub ip_configs: Vec<IpConfig>,
    /// MAC address that the virtual machine must use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Interface ID at the network provider.
    #[serde(rename = "externalID", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Network ID in vCenter: a port group reference, such as `dvportgroup-17`.
    #[serde(rename = "networkID", skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    /// Port ID, if a port was requested.
    #[serde(rename = "portID", skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
    /// Connection ID of the port, if a port was requested.
    #[serde(rename = "connectionID", skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<String>,
    /// Address assignment: `staticpool`, `dhcp` or `none`. If not set, it is derived from the addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_assignment_mode: Option<String>,
}

/// Interface address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["ip", "ipFamily", "gateway", "subnetMask"]))]
pub struct IpConfig {
    /// IP address.
    pub ip: String,
    /// Address family: `IPv4` or `IPv6`.
    pub ip_family: String,
    /// Gateway address.
    pub gateway: String,
    /// Subnet mask, if the prefix length isn't set.
    pub subnet_mask: String,
    /// Subnet prefix length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
}
