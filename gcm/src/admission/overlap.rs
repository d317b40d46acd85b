//! Addresses outside a cluster that its pods and services would hide from its nodes.
//!
//! What a node sends to an address of its pods or services never leaves the cluster. Ranges that an administrator names
//! are surely needed; addresses seen in the namespace probably are, since machines of one namespace share networks.

use std::net::IpAddr;

use api::gcm::TanzuKubernetesClusterSpec;
use ipnet::IpNet;

use super::denial::FieldDenial;
use super::network::{AddressRange, overlap, ranges};
use crate::spec::network::NetworkSpec;

/// An address or a range that somebody outside the cluster has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UsedRange {
    /// The addresses.
    pub net: IpNet,
    /// Whose they are, such as `Machine ns/c-control-plane-x`.
    pub owner: String,
}

impl UsedRange {
    /// Reads what a pool or a status says: an address, a range in CIDR notation, or `first-last`, of which both ends count.
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

/// The ranges of pods and services.
fn all_ranges(spec: &TanzuKubernetesClusterSpec) -> impl Iterator<Item = AddressRange<'_>> {
    let network = NetworkSpec::read(spec);
    let pods = ranges("pods", network.pods, &mut Vec::new());
    pods.into_iter().chain(ranges("services", network.services, &mut Vec::new()))
}

/// Ranges that overlap with those that the administrator reserved for management.
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

/// Ranges that hold addresses seen in the cluster's namespace: one warning for each range.
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
