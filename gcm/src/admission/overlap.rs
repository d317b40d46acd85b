//! Finds addresses outside a cluster that the cluster's pod and service ranges hide from its nodes.
//!
//! Traffic from a node to a pod or service address never leaves the cluster. An overlap with a range that an administrator
//! reserved is denied. An overlap with an address in the namespace only causes a warning: machines in one namespace probably
//! share networks, but don't have to.

use std::net::IpAddr;

use api::gcm::TanzuKubernetesClusterSpec;
use ipnet::IpNet;

use super::denial::FieldDenial;
use super::network::{AddressRange, overlap, ranges};
use crate::spec::network::ClusterNetwork;

/// An address or range in use outside the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UsedRange {
    pub net: IpNet,
    /// The object that uses the range, such as `Machine ns/c-control-plane-x`.
    pub owner: String,
}

impl UsedRange {
    /// Parses an address, a CIDR range, or `first-last`. For `first-last`, returns both ends, but not the addresses between
    /// them. Anything else returns an empty list.
    pub fn read(text: &str, owner: &str) -> Vec<Self> {
        let read = |text: &str| {
            let text = text.trim();
            text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        };
        let ends = text.split_once('-').map_or_else(|| vec![text], |(first, last)| vec![first, last]);
        let owner = |net| Self { net, owner: owner.to_owned() };
        ends.into_iter().filter_map(read).map(owner).collect()
    }
}

/// Returns the valid pod and service ranges.
fn all_ranges(spec: &TanzuKubernetesClusterSpec) -> impl Iterator<Item = AddressRange<'_>> {
    let network = ClusterNetwork::read(spec);
    let pods = ranges("pods", network.pods, &mut Vec::new());
    pods.into_iter().chain(ranges("services", network.services, &mut Vec::new()))
}

/// Returns the denials for ranges that overlap with the management ranges that the administrator configured.
pub fn denials(spec: &TanzuKubernetesClusterSpec, management: &[IpNet]) -> Vec<FieldDenial> {
    all_ranges(spec)
        .filter_map(|AddressRange { field, net: range, .. }| {
            let reserved = management.iter().find(|reserved| overlap(reserved, &range))?;
            Some(FieldDenial::new(
                field,
                format!("{range} overlaps with {reserved}, which belongs to the management network and must be reachable from nodes"),
                "For pods and services, use ranges that nothing in your network uses; different clusters can use the same ranges",
            ))
        })
        .collect()
}

/// Returns one warning for each range that overlaps with an address or range in use in the cluster's namespace.
pub fn warnings(spec: &TanzuKubernetesClusterSpec, used: &[UsedRange]) -> Vec<String> {
    all_ranges(spec)
        .filter_map(|AddressRange { field, net: range, .. }| {
            let UsedRange { net, owner } = used.iter().find(|used| overlap(&used.net, &range))?;
            let address = if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() };
            Some(format!(
                "{field}: {range} contains {address} of {owner}: the cluster's nodes and pods cannot reach it, and a node that gets such an address cannot be reached. Use another range; it cannot be changed later"
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sound;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ranges_of_management_are_refused() {
        let spec = sound().spec;
        assert_eq!(denials(&spec, &nets(&["10.112.0.0/24", "172.16.0.0/12", "fd00::/8"])), []);
        let denied =
            |nets: Vec<IpNet>| denials(&spec, &nets).iter().map(ToString::to_string).collect::<Vec<_>>();
        insta::assert_debug_snapshot!([
            denied(nets(&["192.168.10.7/24"])),
            denied(nets(&["10.0.0.0/8", "192.168.0.1/32"])),
        ]);
    }

    #[test]
    fn addresses_in_use_are_warned_of() {
        let spec = sound().spec;
        let warned = |text: &str| warnings(&spec, &UsedRange::read(text, "InClusterIPPool ns/nodes"));
        for outside in ["10.76.0.10", "10.76.0.10-10.76.0.20", "172.16.0.0/24", "fd00::1", "rubbish", ""] {
            assert_eq!(warned(outside), Vec::<String>::new(), "{outside}");
        }
        for inside in ["192.168.3.4", "192.168.3.0/24", "192.167.255.1-192.168.0.9", "10.100.0.1"] {
            assert_eq!(warned(inside).len(), 1, "{inside}");
        }
        insta::assert_snapshot!(warned("192.168.3.4").concat());
    }
}
