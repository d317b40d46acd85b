//! A NIC as it shall be.

use std::net::{IpAddr, Ipv6Addr};

use api::conditions::vmop as reason;
use api::vmop::VirtualMachineNetworkInterface;
use sha2::{Digest, Sha256};
use vsphere::{Backing, NicKind};

use crate::unmet::{Need, Unmet};
use crate::virtualmachine::identity::uuids::Identity;

/// A NIC as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// What the guest sees.
    pub kind: NicKind,
    /// The network that it is connected to.
    pub backing: Backing,
    /// Its MAC, where the network provider chose it or the guest has to know it beforehand; else vCenter chooses.
    pub mac: Option<String>,
    /// What the network provider calls the port.
    pub external_id: Option<String>,
    /// How the guest gets its addresses.
    pub addressing: Addressing,
}

impl Nic {
    /// A NIC of which no network provider says anything.
    pub fn plain(kind: NicKind, backing: Backing) -> Self {
        Self { kind, backing, mac: None, external_id: None, addressing: Addressing::Dhcp }
    }

    /// Whether a guest without configuration does with it what it shall.
    pub fn is_plain(&self) -> bool {
        self.mac.is_none() && self.addressing == Addressing::Dhcp
    }

    /// The NIC at that place of a VM, with a MAC of our own where nobody chose one.
    ///
    /// It is locally administered, and the same whenever it is drawn for that place of that VM.
    pub fn with_mac(self, identity: Identity, at: usize) -> Self {
        let draw = || {
            let digest = Sha256::digest(format!("{}/{at}", identity.instance));
            digest.iter().take(5).fold("02".to_owned(), |mac, byte| format!("{mac}:{byte:02x}"))
        };
        Self { mac: self.mac.or_else(|| Some(draw())), ..self }
    }
}

/// How the guest gets the addresses of a NIC.
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

/// A static address of a NIC.
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

/// The kind of NIC that an interface asks for.
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

/// How many bits a mask has; a mask with a gap is none.
pub fn prefix_of(mask: &str) -> Option<u8> {
    let (bits, ones, width) = match mask.parse().ok()? {
        IpAddr::V4(mask) => (u128::from(u32::from(mask)), u32::from(mask).leading_ones(), 32),
        IpAddr::V6(mask) => (u128::from(mask), Ipv6Addr::to_bits(mask).leading_ones(), 128),
    };
    (bits.count_ones() == ones && ones <= width).then(|| u8::try_from(ones).ok())?
}
