//! The handshake with the network provider of port groups, group `netoperator.vmware.com`: a
//! NetworkInterface is asked for, and net-operator says which port group, MAC address and addresses it has.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::vmop::NetworkInterfaceProviderReference;

/// The API group of net-operator's kinds.
pub const GROUP: &str = "netoperator.vmware.com";
/// The condition of an interface that can't be had.
pub const FAILURE: &str = "Failure";
/// The type of an interface: the only one.
pub const VMXNET3: &str = "vmxnet3";

/// One virtual machine's place on a Network of net-operator.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "netoperator.vmware.com",
    version = "v1alpha1",
    kind = "NetworkInterface",
    namespaced,
    status = "NetworkInterfaceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The network interface of one virtual machine on a Network."
)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterfaceSpec {
    /// The Network, in the same namespace. If left out: the default network of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// `vmxnet3`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// An object of the provider with more about the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NetworkInterfaceProviderReference>,
    /// Asks for a port before the virtual machine is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_allocation: Option<PortAllocation>,
    /// The requested `status.externalID`.
    #[serde(rename = "externalID", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// Asks for a port before the virtual machine is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["nodeName"]))]
pub struct PortAllocation {
    /// The node the port is on.
    pub node_name: String,
}

/// The observed state of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterfaceStatus {
    /// The conditions of the interface: `Ready`, `Failure`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The addresses that the virtual machine must use.
    #[serde(rename = "ipConfigs", skip_serializing_if = "Vec::is_empty")]
    pub ip_configs: Vec<IpConfig>,
    /// The MAC address that the virtual machine must use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// The identity of the interface at the network provider.
    #[serde(rename = "externalID", skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// The identity of the network in vCenter: the reference of a port group, such as `dvportgroup-17`.
    #[serde(rename = "networkID", skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    /// The port, where one was asked for.
    #[serde(rename = "portID", skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
    /// The connection to the port, where one was asked for.
    #[serde(rename = "connectionID", skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<String>,
    /// `staticpool`, `dhcp` or `none`. If left out: derived from the addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_assignment_mode: Option<String>,
}

/// An address of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["ip", "ipFamily", "gateway", "subnetMask"]))]
pub struct IpConfig {
    /// The address.
    pub ip: String,
    /// `IPv4` or `IPv6`.
    pub ip_family: String,
    /// The router.
    pub gateway: String,
    /// The mask of the subnet, where there is no prefix.
    pub subnet_mask: String,
    /// The length of the subnet's prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
}
