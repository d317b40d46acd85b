//! Parses the status in which a network provider publishes a NIC's network, MAC and addresses.

use std::net::IpAddr;

use api::conditions::{self, Condition, vmop as reason};
use api::net::netoperator::{self, NetworkInterface};
use api::net::{self, VirtualNetwork, VirtualNetworkInterface};
use kit::events::describe_object;

use super::adapter::{Addressing, StaticAddress, prefix_of};
use crate::unmet::{Need, Unmet};

/// The network provider's ID for a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkId {
    /// A port group, such as `dvportgroup-17`.
    Portgroup(String),
    /// An NSX segment, by its UUID.
    Segment(String),
}

/// The network provider's settings for a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realization {
    /// The network that the NIC is connected to.
    pub network: NetworkId,
    /// The MAC; `None` if vCenter chooses it.
    pub mac: Option<String>,
    /// The network provider's ID for the port.
    pub external_id: Option<String>,
    /// The method by which the guest gets its addresses.
    pub addressing: Addressing,
}

/// Checks that the VirtualNetwork is Ready.
pub fn check_network(namespace: &str, name: &str, network: Option<&VirtualNetwork>) -> Need<()> {
    let named = format!("VirtualNetwork {namespace}/{name}");
    let Some(network) = network else {
        return Err(wrong(format!("{named} does not exist. Create it, or use another network")));
    };
    let conditions = network.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if conditions::holds(conditions, net::READY) { Ok(()) } else { Err(not_ready(&named)) }
}

/// Reads net-operator's settings from the interface's status. `segments` is true if the network ID is an NSX segment.
pub fn read_net_operator(interface: &NetworkInterface, segments: bool) -> Need<Realization> {
    let named = describe_object(interface);
    let status = interface.status.clone().unwrap_or_default();
    require_ready(&named, &status.conditions)?;
    let id = filled(status.network_id).ok_or_else(|| lacks(&named, "networkID"))?;
    let addresses = status.ip_configs.iter().filter(|config| !config.ip.is_empty());
    let addresses = addresses.map(|config| {
        let prefix = config.prefix.and_then(|prefix| u8::try_from(prefix).ok());
        address(&named, &config.ip, prefix, &config.subnet_mask, &config.gateway)
    });
    let addresses = addresses.collect::<Need<Vec<_>>>()?;
    let addressing = match status.ip_assignment_mode.as_deref() {
        Some("none") => Addressing::Unaddressed,
        Some("dhcp") => Addressing::Dhcp,
        _ if addresses.is_empty() => Addressing::Dhcp,
        _ => Addressing::Static(addresses),
    };
    Ok(Realization {
        network: if segments { NetworkId::Segment(id) } else { NetworkId::Portgroup(id) },
        mac: mac(status.mac_address),
        external_id: filled(status.external_id),
        addressing,
    })
}

/// Reads NSX's settings from the interface's status.
pub fn read_nsx(interface: &VirtualNetworkInterface) -> Need<Realization> {
    let named = describe_object(interface);
    let status = interface.status.clone().unwrap_or_default();
    require_ready(&named, &status.conditions)?;
    let segment = status.provider_status.and_then(|provider| filled(provider.nsx_logical_switch_id));
    let segment = segment.ok_or_else(|| lacks(&named, "providerStatus.nsxLogicalSwitchID"))?;
    let addresses = status.ip_addresses.iter().filter(|address| !address.ip.is_empty());
    let addresses =
        addresses.map(|given| address(&named, &given.ip, None, &given.subnet_mask, &given.gateway));
    let addresses = addresses.collect::<Need<Vec<_>>>()?;
    Ok(Realization {
        network: NetworkId::Segment(segment),
        mac: mac(status.mac_address),
        external_id: filled(status.interface_id),
        addressing: if addresses.is_empty() { Addressing::Dhcp } else { Addressing::Static(addresses) },
    })
}

/// Returns the addresses that net-operator has assigned, even if the interface isn't Ready at the moment.
pub fn net_operator_addresses(interface: &NetworkInterface) -> Vec<IpAddr> {
    let status = interface.status.iter();
    status.flat_map(|status| &status.ip_configs).filter_map(|config| config.ip.parse().ok()).collect()
}

/// Returns the addresses that NSX has assigned, even if the interface isn't Ready at the moment.
pub fn nsx_addresses(interface: &VirtualNetworkInterface) -> Vec<IpAddr> {
    let status = interface.status.iter();
    status.flat_map(|status| &status.ip_addresses).filter_map(|given| given.ip.parse().ok()).collect()
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Normalizes a MAC to the format of vCenter and guests.
fn mac(given: Option<String>) -> Option<String> {
    filled(given).map(|mac| mac.replace('-', ":").to_ascii_lowercase())
}

fn require_ready(named: &str, conditions: &[Condition]) -> Need<()> {
    if conditions::holds(conditions, net::READY) {
        return Ok(());
    }
    let failed = conditions::find(conditions, netoperator::FAILURE)
        .filter(|failure| failure.status == conditions::TRUE)
        .or_else(|| conditions::find(conditions, net::READY));
    match failed.and_then(|failed| failed.message.clone().or(failed.reason.clone())) {
        Some(why) if !why.is_empty() => Err(wrong(format!("{named}: {why}"))),
        _ => Err(not_ready(named)),
    }
}

/// Returns the unmet need for an object that the network provider hasn't realized yet. `named` describes the object.
pub fn not_ready(named: &str) -> Unmet {
    let message = format!("{named} is not Ready yet; waiting for the network provider");
    Unmet::underway(reason::NETWORK_NOT_READY, message)
}

fn lacks(named: &str, field: &str) -> Unmet {
    wrong(format!(
        "{named} is Ready but has no status.{field}. Contact the administrator of the network provider"
    ))
}

fn address(named: &str, ip: &str, prefix: Option<u8>, mask: &str, gateway: &str) -> Need<StaticAddress> {
    let parsed: Option<IpAddr> = ip.parse().ok();
    let prefix = prefix.or_else(|| prefix_of(mask));
    let gateway = Some(gateway).filter(|gateway| !gateway.is_empty()).map(str::parse::<IpAddr>).transpose();
    match (parsed, prefix, gateway) {
        (Some(ip), Some(prefix), Ok(gateway)) if prefix <= if ip.is_ipv4() { 32 } else { 128 } => {
            Ok(StaticAddress { ip, prefix, gateway })
        }
        _ => Err(wrong(format!(
            "{named} has an address that can't be read ({ip} {mask}). Contact the administrator of the network provider"
        ))),
    }
}

/// Returns the unmet need for a network that won't be ready until a user or an administrator changes something.
pub(super) fn wrong(message: impl Into<String>) -> Unmet {
    Unmet::wrong(reason::NETWORK_NOT_READY, message)
}
