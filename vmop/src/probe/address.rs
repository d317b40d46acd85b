//! Maps a VM's reported address to the address to dial.
//!
//! The simulated site reports private addresses and serves them on loopback, so its probes need a network mapping. Real
//! sites don't.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// A mapping between two IPv4 networks with the same prefix length: `10.0.0.0/8=127.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMap {
    from: Ipv4Addr,
    to: Ipv4Addr,
    prefix: u8,
}

impl AddressMap {
    /// Returns the address to dial: the mapped address if `address` is in the first network, or else `address`.
    pub fn dial(&self, address: IpAddr) -> IpAddr {
        let IpAddr::V4(v4) = address else { return address };
        let mask = mask(self.prefix);
        if v4.to_bits() & mask != self.from.to_bits() & mask {
            return address;
        }
        IpAddr::V4(Ipv4Addr::from_bits((self.to.to_bits() & mask) | (v4.to_bits() & !mask)))
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

/// The error for an invalid mapping.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a mapping of two equally large IPv4 networks, such as 10.0.0.0/8=127.0.0.0/8")]
pub struct BadMap(String);

impl FromStr for AddressMap {
    type Err = BadMap;

    fn from_str(text: &str) -> Result<Self, BadMap> {
        let network = |part: &str| -> Option<(Ipv4Addr, u8)> {
            let (address, prefix) = part.trim().split_once('/')?;
            let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
            Some((address.parse().ok()?, prefix))
        };
        text.split_once('=')
            .and_then(|(from, to)| Some((network(from)?, network(to)?)))
            .filter(|((_, from), (_, to))| from == to)
            .map(|((from, prefix), (to, _))| Self { from, to, prefix })
            .ok_or_else(|| BadMap(text.to_owned()))
    }
}

impl fmt::Display for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}={}/{}", self.from, self.prefix, self.to, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mapped_network_is_mapped() {
        let map: AddressMap = "10.0.0.0/8=127.0.0.0/8".parse().unwrap();
        for (reported, dialled) in
            [("10.7.1.2", "127.7.1.2"), ("192.168.0.9", "192.168.0.9"), ("fd00::1", "fd00::1")]
        {
            assert_eq!(map.dial(reported.parse().unwrap()), dialled.parse::<IpAddr>().unwrap());
        }
        assert_eq!(map.to_string(), "10.0.0.0/8=127.0.0.0/8");
        let all: AddressMap = "0.0.0.0/0=0.0.0.0/0".parse().unwrap();
        assert_eq!(all.dial("10.7.1.2".parse().unwrap()), "10.7.1.2".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn a_bad_map_is_refused() {
        for text in ["", "10.0.0.0/8", "10.0.0.0/8=127.0.0.0/16", "a/8=b/8", "10.0.0.0/33=1.0.0.0/33"] {
            assert!(text.parse::<AddressMap>().is_err(), "{text}");
        }
    }
}
