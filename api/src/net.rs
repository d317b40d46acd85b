//! The API between capw and a network provider such as NSX, group `vmware.com`: capw creates a VirtualNetwork, and the
//! provider realizes it and assigns addresses to the interfaces on it. The API for port groups is in [`netoperator`].

pub mod netoperator;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// The API group of the network kinds.
pub const GROUP: &str = "vmware.com";
/// The condition type of a realized network or interface.
pub const READY: &str = "Ready";

/// Separate network for the nodes of one cluster.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmware.com",
    version = "v1alpha1",
    kind = "VirtualNetwork",
    namespaced,
    status = "VirtualNetworkStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Separate network for the nodes of one cluster."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkSpec {
    /// If true, nodes get addresses that are reachable from outside without network address translation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<bool>,
    /// Comma-separated address ranges that can reach the network. Defaults to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist_source_ranges: Option<String>,
}

/// Observed network state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkStatus {
    /// Network conditions: `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Source address for outgoing traffic (SNAT).
    #[serde(rename = "defaultSNATIP", skip_serializing_if = "Option::is_none")]
    pub default_snat_ip: Option<String>,
}

/// Network interface of one virtual machine on a VirtualNetwork.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmware.com",
    version = "v1alpha1",
    kind = "VirtualNetworkInterface",
    namespaced,
    status = "VirtualNetworkInterfaceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Network interface of one virtual machine on a VirtualNetwork."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkInterfaceSpec {
    /// VirtualNetwork name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_network: Option<String>,
    /// Port ID, if it is known in advance.
    #[serde(rename = "portID", skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
}

/// Observed interface state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualNetworkInterfaceStatus {
    /// Interface conditions: `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Interface ID.
    #[serde(rename = "interfaceID", skip_serializing_if = "Option::is_none")]
    pub interface_id: Option<String>,
    /// MAC address that the virtual machine must use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IP addresses that the virtual machine must use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<InterfaceAddress>,
    /// Network ID at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<ProviderStatus>,
}

/// Interface address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InterfaceAddress {
    /// IP address.
    pub ip: String,
    /// Gateway address.
    pub gateway: String,
    /// Subnet mask.
    pub subnet_mask: String,
}

/// Network ID at the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderStatus {
    /// NSX logical switch ID, which vCenter's opaque networks refer to.
    #[serde(rename = "nsxLogicalSwitchID", skip_serializing_if = "Option::is_none")]
    pub nsx_logical_switch_id: Option<String>,
}
