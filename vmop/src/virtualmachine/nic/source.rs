//! Decides which source defines the network of a NIC.

use api::conditions::vmop as reason;
use api::net;
use api::net::netoperator;
use api::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, VirtualMachine, VirtualMachineNetworkInterface,
};

use super::realization::wrong;
use super::request::{InterfaceKind, request_name};
use crate::unmet::{Need, Unmet};
use crate::vcenter::settings::NetworkProvider;

/// The source that defines the network of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicSource<'a> {
    /// The vCenter network with this name, or the default network.
    Named(Option<&'a str>),
    /// The default network, once the VirtualNetwork with this name is realized.
    VirtualNetwork(&'a str),
    /// The network interface object with this name, which the user created.
    Given(InterfaceKind, &'a str),
    /// The network interface object with this name, which this controller creates.
    Requested(InterfaceKind, String),
}

/// The available network providers.
#[derive(Clone, Copy, Debug)]
pub struct NetworkProviders {
    /// The configured network provider.
    pub configured: Option<NetworkProvider>,
    /// True if a default network is configured.
    pub default_network: bool,
    /// True if the API server serves NetworkInterfaces.
    pub net_operator: bool,
    /// True if the API server serves VirtualNetworkInterfaces.
    pub nsx: bool,
}

/// Returns the source that defines the network of a NIC. The function is long because it is a table of providers and types.
pub fn resolve_nic_source<'a>(
    vm: &VirtualMachine,
    interface: &'a VirtualMachineNetworkInterface,
    providers: NetworkProviders,
) -> Need<NicSource<'a>> {
    if let Some(given) = &interface.provider_ref {
        return match (given.api_group.as_str(), given.kind.as_str()) {
            (netoperator::GROUP, "NetworkInterface") => {
                Ok(NicSource::Given(require_served(InterfaceKind::NetOperator, providers)?, &given.name))
            }
            (net::GROUP, "VirtualNetworkInterface") => {
                Ok(NicSource::Given(require_served(InterfaceKind::Nsx, providers)?, &given.name))
            }
            (group, kind) => Err(wrong(format!(
                "providerRef names a {kind} of {group}. Name a NetworkInterface of {}",
                netoperator::GROUP
            ))),
        };
    }
    let name = interface.network_name.as_deref().filter(|name| !name.is_empty());
    let requested =
        |kind| Ok(NicSource::Requested(require_served(kind, providers)?, request_name(vm, kind, name)));
    let type_ = match (interface.network_type.as_deref().unwrap_or_default(), providers.configured) {
        ("", Some(NetworkProvider::Distributed)) => NETWORK_TYPE_DISTRIBUTED,
        ("", Some(NetworkProvider::Nsx)) => NETWORK_TYPE_NSX_T,
        (type_, _) => type_,
    };
    match (type_, providers.configured) {
        ("", _) => Ok(NicSource::Named(name)),
        (NETWORK_TYPE_DISTRIBUTED, Some(NetworkProvider::Distributed)) => {
            requested(InterfaceKind::NetOperator)
        }
        (NETWORK_TYPE_DISTRIBUTED, None) if providers.net_operator => requested(InterfaceKind::NetOperator),
        (NETWORK_TYPE_DISTRIBUTED, _) => Ok(NicSource::Named(name)),
        (NETWORK_TYPE_NSX_T, Some(NetworkProvider::Nsx)) => requested(InterfaceKind::Nsx),
        (NETWORK_TYPE_NSX_T, None) if providers.nsx && !providers.default_network => {
            requested(InterfaceKind::Nsx)
        }
        (NETWORK_TYPE_NSX_T, _) => Ok(NicSource::VirtualNetwork(name.unwrap_or_default())),
        (other, _) => Err(wrong(format!(
            "networkType {other:?} is not supported. Use nsx-t or vsphere-distributed, or leave it out"
        ))),
    }
}

fn require_served(kind: InterfaceKind, providers: NetworkProviders) -> Need<InterfaceKind> {
    let (there, word, who) = match kind {
        InterfaceKind::NetOperator => (providers.net_operator, "NetworkInterface", "net-operator"),
        InterfaceKind::Nsx => (providers.nsx, "VirtualNetworkInterface", "NSX's container plug-in"),
    };
    if there {
        return Ok(kind);
    }
    let message = format!(
        "The API server does not serve the kind {word}. Install {who}, or set NetworkProvider to NAMED in the provider configuration"
    );
    Err(Unmet::in_vcenter(reason::NETWORK_NOT_READY, message))
}
