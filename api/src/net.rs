//! The handshake with the network provider, group `vmware.com`: capw asks for a VirtualNetwork, the
//! provider (NSX, or whatever plays it) realises it and addresses the interfaces on it. That with port groups is
//! in [`netoperator`].

pub mod netoperator;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// The API group of the network kinds.
pub const GROUP: &str = "vmware.com";
/// The condition of a network or an interface that is realised.
pub const READY: &str = "Ready";

/// A network of its own for the nodes of one cluster.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmware.com",
    version = "v1alpha1",
    kind = "VirtualNetwork",
    namespaced,
    status = "VirtualNetworkStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A separate network for the nodes of one cluster."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkSpec {
    /// Nodes get addresses that are reachable from outside without network address translation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<bool>,
    /// The address ranges that can reach the network, separated by commas. If left out: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist_source_ranges: Option<String>,
}

/// The observed state of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkStatus {
    /// The conditions of the network: `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The source address of the network's outgoing traffic.
    #[serde(rename = "defaultSNATIP", skip_serializing_if = "Option::is_none")]
    pub default_snat_ip: Option<String>,
}

/// One virtual machine's place on a network.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmware.com",
    version = "v1alpha1",
    kind = "VirtualNetworkInterface",
    namespaced,
    status = "VirtualNetworkInterfaceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The network interface of one virtual machine on a network."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkInterfaceSpec {
    /// The VirtualNetwork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_network: Option<String>,
    /// The port, if it is known in advance.
    #[serde(rename = "portID", skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
}

/// The observed state of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkInterfaceStatus {
    /// The conditions of the interface: `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The identity of the interface.
    #[serde(rename = "interfaceID", skip_serializing_if = "Option::is_none")]
    pub interface_id: Option<String>,
    /// The MAC address that the virtual machine must use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// The addresses that the virtual machine must use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<InterfaceAddress>,
    /// The identity of the network at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<ProviderStatus>,
}

/// An address of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: String,
    /// The router.
    pub gateway: String,
    /// The mask of the subnet.
    pub subnet_mask: String,
}

/// The identity of a network at the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderStatus {
    /// The logical switch, as vCenter's opaque networks name it.
    #[serde(rename = "nsxLogicalSwitchID", skip_serializing_if = "Option::is_none")]
    pub nsx_logical_switch_id: Option<String>,
}
