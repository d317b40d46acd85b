//! Validates pod and service ranges, and the container network.

use std::collections::BTreeSet;

use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterSpec};
use api::names::{annotation, label};
use ipnet::IpNet;

use super::denial::FieldDenial;
use super::dns::is_dns_subdomain;
use super::limits;
use crate::spec::network::{ClusterNetwork, network_settings};

/// The container networks that releases contain, and the built-in one. ConfigMaps can provide others.
pub const CNIS: [&str; 4] = ["antrea", "calico", "antrea-nsx-routed", "flannel"];
/// The container network whose pods have NSX addresses.
pub const ROUTED: &str = "antrea-nsx-routed";
/// The prefix lengths of a *node share*, the part of the pod range that Kubernetes assigns to one node, for IPv4 and IPv6.
const NODE_PREFIX: (u8, u8) = (24, 64);

/// A pod or service range.
pub(super) struct AddressRange<'a> {
    pub field: String,
    text: &'a str,
    pub net: IpNet,
}

/// Parses the ranges of the field `key` (`pods` or `services`). Adds a denial for each invalid range.
pub(super) fn ranges<'a>(
    key: &str,
    blocks: &'a [String],
    denials: &mut Vec<FieldDenial>,
) -> Vec<AddressRange<'a>> {
    let mut read = Vec::new();
    for (at, text) in blocks.iter().enumerate() {
        let field = format!("spec.settings.network.{key}.cidrBlocks[{at}]");
        match text.trim().parse::<IpNet>() {
            Ok(net) => read.push(AddressRange { field, text, net }),
            Err(_) => denials.push(FieldDenial::new(
                field,
                format!("{text:?} is not an address range"),
                "Write an address and a prefix length, such as 192.168.0.0/16",
            )),
        }
    }
    read
}

/// Returns the container network that a cluster requests, if it isn't in [`CNIS`].
pub fn unlisted_cni(spec: &TanzuKubernetesClusterSpec) -> Option<&str> {
    let name = network_settings(spec)?.cni.as_ref()?.name.as_str();
    (!name.is_empty() && !CNIS.contains(&name)).then_some(name)
}

pub(super) fn denials(spec: &TanzuKubernetesClusterSpec) -> Vec<FieldDenial> {
    let network = ClusterNetwork::read(spec);
    let mut denials = Vec::new();
    let pods = ranges("pods", network.pods, &mut denials);
    let services = ranges("services", network.services, &mut denials);
    for own in [&pods, &services] {
        denials.extend(own.iter().enumerate().filter_map(|(at, range)| {
            let same_family =
                |other: &&AddressRange| other.net.addr().is_ipv4() == range.net.addr().is_ipv4();
            own[..at].iter().find(same_family).map(|_| {
                let reason = format!("{} is a second range of the same address family", range.text);
                FieldDenial::new(range.field.clone(), reason, "Use one range, or one of IPv4 and one of IPv6")
            })
        }));
    }
    denials.extend(pods.iter().filter_map(|range| pods_size(range)));
    denials.extend(services.iter().filter_map(|range| services_size(range)));
    for service in &services {
        denials.extend(pods.iter().filter(|pod| overlap(&pod.net, &service.net)).map(|pod| {
            let reason = format!("{} and the pods' {} overlap", service.text, pod.text);
            FieldDenial::new(
                service.field.clone(),
                reason,
                "Use ranges for pods and services that have no address in common",
            )
        }));
    }
    denials.extend(domain_denial(network.domain));
    denials
}

/// Returns true if one range contains the other. Ignores host bits.
pub(super) fn overlap(a: &IpNet, b: &IpNet) -> bool {
    let (a, b) = (a.trunc(), b.trunc());
    a.contains(&b) || b.contains(&a)
}

/// Checks the size of a service range against the limits of kubeadm and the API server: 4 to 20 host bits.
fn services_size(range: &AddressRange<'_>) -> Option<FieldDenial> {
    let host_bits = range.net.max_prefix_len() - range.net.prefix_len();
    let (reason, remedy) = match host_bits {
        0..4 => (
            format!("{} is too small for the services of a cluster", range.text),
            "Use a prefix length of at most 28",
        ),
        4..=20 => return None,
        _ => (
            format!("{} is larger than an API server supports", range.text),
            "Use a prefix length of at least 12 (108 for IPv6)",
        ),
    };
    Some(FieldDenial::new(range.field.clone(), reason, remedy))
}

/// Checks the size of a pod range against kubeadm's limits: 1 to 65536 node shares ([`NODE_PREFIX`]).
fn pods_size(range: &AddressRange<'_>) -> Option<FieldDenial> {
    let node = node_prefix(&range.net);
    let prefix = range.net.prefix_len();
    if prefix > node {
        let reason = format!("{} is smaller than the /{node} that each node takes", range.text);
        return Some(FieldDenial::new(
            range.field.clone(),
            reason,
            format!("Use a prefix length of at most {node}"),
        ));
    }
    (node - prefix > 16).then(|| {
        let reason = format!("{} is larger than a cluster can use", range.text);
        FieldDenial::new(
            range.field.clone(),
            reason,
            format!("Use a prefix length of at least {}", node - 16),
        )
    })
}

fn node_prefix(net: &IpNet) -> u8 {
    if net.addr().is_ipv4() { NODE_PREFIX.0 } else { NODE_PREFIX.1 }
}

fn domain_denial(domain: &str) -> Option<FieldDenial> {
    (!domain.is_empty() && !is_dns_subdomain(domain)).then(|| {
        FieldDenial::new(
            "spec.settings.network.serviceDomain",
            format!("{domain:?} is not a domain name"),
            "Write a domain such as cluster.local",
        )
    })
}

/// Returns the denial for a container network that neither releases nor the namespace's `bundles` provide.
pub(super) fn cni_denial(
    spec: &TanzuKubernetesClusterSpec,
    old: Option<&TanzuKubernetesClusterSpec>,
    bundles: &BTreeSet<String>,
) -> Option<FieldDenial> {
    let name = unlisted_cni(spec).filter(|name| !bundles.contains(*name))?;
    // An existing cluster keeps its network, even if the bundle no longer exists.
    if old.and_then(unlisted_cni) == Some(name) {
        return None;
    }
    let mut known: Vec<&str> = CNIS.to_vec();
    known.extend(bundles.iter().map(String::as_str).filter(|own| !CNIS.contains(own)));
    Some(FieldDenial::new(
        "spec.settings.network.cni.name",
        format!("{name:?} is not a container network that comes with a release or a bundle"),
        format!(
            "Use one of: {}. Or provide its manifests first, in a ConfigMap with the label {}: {name} and the annotation {}: cni",
            known.join(", "),
            label::ADDON_NAME,
            annotation::ADDON_TYPE
        ),
    ))
}

/// Returns the denials for changed network settings. A setting is immutable once it has a value.
pub(super) fn change_denials(
    old: &TanzuKubernetesClusterSpec,
    new: &TanzuKubernetesClusterSpec,
) -> Vec<FieldDenial> {
    let aspects = |spec: &TanzuKubernetesClusterSpec| {
        let (ranges, network) = (ClusterNetwork::read(spec), network_settings(spec));
        let text = |text: Option<&String>| vec![text.cloned().unwrap_or_default()];
        [
            ("pods.cidrBlocks", ranges.pods.to_vec()),
            ("services.cidrBlocks", ranges.services.to_vec()),
            ("serviceDomain", text(network.and_then(|n| n.service_domain.as_ref()))),
            ("cni.name", text(network.and_then(|n| n.cni.as_ref()).map(|cni| &cni.name))),
        ]
    };
    std::iter::zip(aspects(old), aspects(new))
        .filter(|((_, before), (_, after))| before != after && !before.concat().is_empty())
        .map(|((key, before), (_, after))| {
            FieldDenial::new(
                format!("spec.settings.network.{key}"),
                format!(
                    "it is immutable and cannot be changed from {} to {}",
                    before.join(","),
                    after.join(",")
                ),
                "Keep it; to use another network, create another cluster",
            )
        })
        .collect()
}

/// Returns the denials for pod ranges that are too small for a new or growing cluster, because they have fewer node shares than
/// the cluster has nodes. Returns an empty list if the container network doesn't use node shares.
pub(super) fn share_denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
) -> Vec<FieldDenial> {
    if !takes_shares(&new.spec) || limits::grown(new, old).is_none() {
        return Vec::new();
    }
    let deny = |Shortage { field, reason, share }: Shortage| {
        FieldDenial::new(
            field,
            reason,
            format!(
                "Use fewer nodes or a larger range: each node takes a /{share}. The range cannot be changed later"
            ),
        )
    };
    shortages(new).into_iter().map(deny).collect()
}

/// Returns warnings about pod ranges that have fewer node shares than the cluster has nodes. Such a range isn't denied if the
/// container network doesn't use node shares, or if the cluster didn't grow.
pub(super) fn share_warnings(tkc: &TanzuKubernetesCluster) -> Vec<String> {
    shortages(tkc).into_iter().map(|Shortage { field, reason, .. }| format!("{field}: {reason}")).collect()
}

/// Returns true if the container network uses node shares. Calico assigns its own address blocks instead, and routed pods have
/// NSX addresses.
fn takes_shares(spec: &TanzuKubernetesClusterSpec) -> bool {
    matches!(ClusterNetwork::read(spec).cni, "" | "antrea" | "flannel")
}

/// A pod range with fewer node shares than the cluster has nodes.
struct Shortage {
    field: String,
    reason: String,
    share: u8,
}

fn shortages(tkc: &TanzuKubernetesCluster) -> Vec<Shortage> {
    let nodes = limits::count_nodes(tkc);
    let pods = ranges("pods", ClusterNetwork::read(&tkc.spec).pods, &mut Vec::new());
    pods.into_iter()
        .filter_map(|AddressRange { field, text, net }| {
            let share = node_prefix(&net);
            let shares = 1_i64.checked_shl(u32::from(share.checked_sub(net.prefix_len())?))?;
            let reason = format!(
                "{text} has a /{share} for each of {shares} nodes, but the cluster has {nodes} nodes"
            );
            (shares < nodes).then_some(Shortage { field, reason, share })
        })
        .collect()
}
