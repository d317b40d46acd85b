//! The desired state of a NIC.

use std::net::{IpAddr, Ipv6Addr};

use api::conditions::vmop as reason;
use api::vmop::VirtualMachineNetworkInterface;
use sha2::{Digest, Sha256};
use vsphere::{Backing, NicKind};

use crate::unmet::{Need, Unmet};
use crate::virtualmachine::identity::uuids::Identity;

/// The desired state of a NIC.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// The adapter type that the guest sees.
    pub kind: NicKind,
    /// The vSphere network that the NIC is connected to.
    pub backing: Backing,
    /// The MAC, if the network provider assigned it or the bootstrap data needs it in advance. Otherwise vCenter chooses the
    /// MAC.
    pub mac: Option<String>,
    /// The network provider's ID for the port.
    pub external_id: Option<String>,
    /// The method by which the guest gets its addresses.
    pub addressing: Addressing,
}

impl Nic {
    /// Creates a NIC without settings from a network provider.
    pub fn plain(kind: NicKind, backing: Backing) -> Self {
        Self { kind, backing, mac: None, external_id: None, addressing: Addressing::Dhcp }
    }

    /// Returns true if the guest's default behavior is right for this NIC: DHCP, and any MAC.
    pub fn is_plain(&self) -> bool {
        self.mac.is_none() && self.addressing == Addressing::Dhcp
    }

    /// Returns this NIC, with a generated MAC if it doesn't have one. `at` is the NIC's index in the VM.
    ///
    /// The generated MAC is locally administered, and always the same for the same VM and index.
    pub fn with_mac(self, identity: Identity, at: usize) -> Self {
        let draw = || {
            let digest = Sha256::digest(format!("{}/{at}", identity.instance));
            digest.iter().take(5).fold("02".to_owned(), |mac, byte| format!("{mac}:{byte:02x}"))
        };
        Self { mac: self.mac.or_else(|| Some(draw())), ..self }
    }
}

/// The method by which the guest gets the addresses of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// The guest uses DHCP.
    #[default]
    Dhcp,
    /// The guest configures these static addresses.
    Static(Vec<StaticAddress>),
    /// The guest doesn't configure an address.
    Unaddressed,
}

impl Addressing {
    /// Returns true if there is a static IPv4 address.
    pub fn has_ipv4(&self) -> bool {
        matches!(self, Self::Static(addresses) if addresses.iter().any(|address| address.ip.is_ipv4()))
    }
}

/// A static address of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticAddress {
    pub ip: IpAddr,
    /// The prefix length of the subnet.
    pub prefix: u8,
    /// The subnet's gateway.
    pub gateway: Option<IpAddr>,
}

impl std::fmt::Display for StaticAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// Returns the adapter type that an interface requests, or the default, vmxnet3.
pub fn nic_kind(interface: &VirtualMachineNetworkInterface) -> Need<NicKind> {
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

/// Returns the prefix length of an IPv4 or IPv6 mask, or `None` if the string isn't a contiguous mask.
pub fn prefix_of(mask: &str) -> Option<u8> {
    let (bits, ones, width) = match mask.parse().ok()? {
        IpAddr::V4(mask) => (u128::from(u32::from(mask)), u32::from(mask).leading_ones(), 32),
        IpAddr::V6(mask) => (u128::from(mask), Ipv6Addr::to_bits(mask).leading_ones(), 128),
    };
    (bits.count_ones() == ones && ones <= width).then(|| u8::try_from(ones).ok())?
}
