//! What the cards of a machine are plugged into.

use std::net::IpAddr;

use api::conditions::vmop as reason;
use api::net::VirtualNetwork;
use api::vmop::VirtualMachineNetworkInterface;
use vsphere::{Backing, NicKind};

use crate::unmet::Need;
use crate::unmet::Unmet;

/// A network card as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// What the guest sees.
    pub kind: NicKind,
    /// What it is plugged into.
    pub backing: Backing,
    /// Its MAC, where the network provider chose it; else vCenter does.
    pub mac: Option<String>,
    /// What the network provider calls the port.
    pub external_id: Option<String>,
    /// How the guest gets its addresses.
    pub addressing: Addressing,
}

impl Card {
    /// A card of which no network provider says anything.
    pub fn plain(kind: NicKind, backing: Backing) -> Self {
        Self { kind, backing, mac: None, external_id: None, addressing: Addressing::Dhcp }
    }
}

/// How the guest gets the addresses of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// By DHCP.
    #[default]
    Dhcp,
    /// These.
    Static(Vec<Address>),
    /// Not at all.
    Unaddressed,
}

impl Addressing {
    /// Whether there is a static IPv4 address.
    pub fn has_ipv4(&self) -> bool {
        matches!(self, Self::Static(addresses) if addresses.iter().any(|address| address.ip.is_ipv4()))
    }
}

/// A static address of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The length of the subnet's prefix.
    pub prefix: u8,
    /// The router.
    pub gateway: Option<IpAddr>,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// The VirtualNetwork of that name is realised.
pub fn realised(namespace: &str, name: &str, network: Option<&VirtualNetwork>) -> Need<()> {
    let Some(network) = network else {
        let message =
            format!("VirtualNetwork {namespace}/{name} does not exist. Create it, or name another network");
        return Err(Unmet::wrong(reason::NETWORK_NOT_READY, message));
    };
    let conditions = network.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if api::conditions::holds(conditions, api::net::READY) {
        return Ok(());
    }
    let message = format!("VirtualNetwork {namespace}/{name} is not Ready: the network provider is at it");
    Err(Unmet::underway(reason::NETWORK_NOT_READY, message))
}

/// The kind of card that an interface asks for.
pub fn card_kind(interface: &VirtualMachineNetworkInterface) -> Need<NicKind> {
    match interface.ethernet_card_type.as_deref().unwrap_or_default() {
        "" | "vmxnet3" => Ok(NicKind::Vmxnet3),
        "vmxnet2" => Ok(NicKind::Vmxnet2),
        "e1000" => Ok(NicKind::E1000),
        "e1000e" => Ok(NicKind::E1000e),
        "pcnet32" => Ok(NicKind::Pcnet32),
        other => Err(Unmet::wrong(
            reason::NETWORK_NOT_READY,
            format!("ethernetCardType {other:?} is unknown. Use vmxnet3, vmxnet2, e1000, e1000e or pcnet32"),
        )),
    }
}
