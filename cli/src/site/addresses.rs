//! A site's address ranges for control planes and for nodes with DHCP. This module doesn't perform I/O.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail, ensure};
use ipnet::Ipv4Net;

/// An address range for control planes, in the nodes' network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    first: Ipv4Addr,
    last: Ipv4Addr,
    /// The prefix length of the network.
    pub prefix: u8,
    /// The network's router.
    pub gateway: Ipv4Addr,
}

impl Endpoints {
    /// Parses `FIRST-LAST` or a single address, and checks it against the network.
    ///
    /// # Errors
    /// Returns an error if the range is empty, isn't in the gateway's network, or contains the gateway.
    pub fn read(range: &str, prefix: u8, gateway: Ipv4Addr) -> Result<Self> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let address = |text: &str| {
            text.trim().parse::<Ipv4Addr>().with_context(|| {
                format!("--endpoints {range}: {text:?} is not an IPv4 address; write 10.20.0.10-10.20.0.99")
            })
        };
        let (first, last) = (address(first)?, address(last)?);
        ensure!(first <= last, "--endpoints {range}: the first address is greater than the last");
        let network = Ipv4Net::new(gateway, prefix)
            .with_context(|| format!("--prefix {prefix}: a prefix has 0 to 32 bits"))?
            .trunc();
        for address in [first, last] {
            ensure!(
                network.contains(&address),
                "--endpoints {range}: {address} is not in {network}, the network of --gateway and --prefix"
            );
        }
        ensure!(!(first..=last).contains(&gateway), "--endpoints {range} contains the gateway {gateway}");
        Ok(Self { first, last, prefix, gateway })
    }

    /// Formats the range for an IPAM pool.
    pub fn range(&self) -> String {
        if self.first == self.last { self.first.to_string() } else { format!("{}-{}", self.first, self.last) }
    }

    /// Fails if DHCP may assign an address in this range to a node.
    ///
    /// # Errors
    /// Returns an error if one of the ranges in `nodes` overlaps this range.
    pub fn check_apart(&self, nodes: &[Ipv4Net]) -> Result<()> {
        for net in nodes {
            if net.network() <= self.last && self.first <= net.broadcast() {
                bail!(
                    "--endpoints {} overlaps --node-addresses {net}. Nodes and control planes need different addresses",
                    self.range()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_fits_its_network_or_the_error_says_why() {
        let cases = [
            ("10.20.0.10-10.20.0.99", 16, Ok("10.20.0.10-10.20.0.99")),
            ("10.20.0.10", 24, Ok("10.20.0.10")),
            ("10.20.0.99-10.20.0.10", 16, Err("greater than the last")),
            ("10.21.0.10-10.21.0.20", 16, Err("10.21.0.10 is not in 10.20.0.0/16")),
            ("10.20.0.1-10.20.0.9", 16, Err("contains the gateway 10.20.0.1")),
            ("ten", 16, Err("\"ten\" is not an IPv4 address")),
            ("10.20.0.10", 33, Err("a prefix has 0 to 32 bits")),
        ];
        for (range, prefix, expected) in cases {
            let found = Endpoints::read(range, prefix, [10, 20, 0, 1].into());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.range(), expected),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}: {expected}");
                }
                (found, expected) => panic!("{range}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn nodes_and_control_planes_have_different_addresses() {
        let endpoints = Endpoints::read("10.20.0.10-10.20.0.99", 16, [10, 20, 0, 1].into()).unwrap();
        endpoints.check_apart(&["10.20.128.0/17".parse().unwrap()]).unwrap();
        let error = endpoints.check_apart(&["10.20.0.64/26".parse().unwrap()]).unwrap_err().to_string();
        assert!(error.contains("overlaps --node-addresses 10.20.0.64/26"), "{error}");
    }
}
