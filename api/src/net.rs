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
    doc = "A network of its own for the nodes of one cluster."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkSpec {
    /// Nodes get addresses that the world reaches without translation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<bool>,
    /// Who may reach the network, as ranges divided by commas. Left out: everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist_source_ranges: Option<String>,
}

/// How a network is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkStatus {
    /// How the network is: `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The address its traffic leaves with.
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
    doc = "One virtual machine's place on a network."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkInterfaceSpec {
    /// The VirtualNetwork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_network: Option<String>,
    /// The port to be used, where it is known in advance.
    #[serde(rename = "portID", skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
}

/// How an interface is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkInterfaceStatus {
    /// How the interface is: `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The identity of the interface.
    #[serde(rename = "interfaceID", skip_serializing_if = "Option::is_none")]
    pub interface_id: Option<String>,
    /// The MAC address the virtual machine shall use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// The addresses the virtual machine shall use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<InterfaceAddress>,
    /// What the provider knows the network by.
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

/// What the provider knows a network by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderStatus {
    /// The logical switch, as vCenter's opaque networks name it.
    #[serde(rename = "nsxLogicalSwitchID", skip_serializing_if = "Option::is_none")]
    pub nsx_logical_switch_id: Option<String>,
}
