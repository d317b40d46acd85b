//! What the guest is to have besides its nodes.

use ipnet::IpNet;
use kit::guest::server;

use crate::addons::choice::{Offer, choose};
use crate::addons::engine::WantedAddons;
use crate::addons::kubeadm::{DnsNodes, KubeadmAddons};
use crate::addons::render::Values;
use crate::cluster::facts::Facts;
use crate::cluster::input::Input;
use crate::cluster::node_groups::bootstrap::node_release;
use crate::release::KubernetesRelease;
use crate::sync;

/// The add-ons of a cluster whose API server has answered.
pub fn addons(input: &Input<'_>, facts: &Facts) -> Option<WantedAddons> {
    let cluster = facts.cluster.as_ref().filter(|_| facts.is_initialized())?;
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.clone().filter(|host| !host.is_empty())?;
    let port = endpoint.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
    let server = server(&host, port);
    let image = facts.releases.vm_image(&input.image.name);
    let name = input.name();
    let offer = Offer {
        cluster: &name,
        cni: input.network().cni,
        config_maps: &facts.bundles,
        image: image.as_ref(),
    };
    let values = Values {
        pod_cidr: first_range(input.network().pods_or_default()),
        service_cidr: first_range(input.network().services_or_default()),
        service_domain: input.network().domain.to_owned(),
        cluster_name: name.clone(),
        cluster_namespace: input.namespace(),
        control_plane_host: host,
        control_plane_port: port,
        kubernetes_version: input.release.kubernetes.clone(),
        node_release: node_release(input.release),
    };
    let synced = sync::sets(input.tkc, &facts.namespace);
    let kubeadm = KubeadmAddons { kube_proxy: kube_proxy(input.release), dns: dns_nodes(input, facts) };
    Some(WantedAddons { server, addons: choose(&offer), synced, values, kubeadm })
}

/// The image of kube-proxy as kubeadm names it.
fn kube_proxy(release: &KubernetesRelease) -> String {
    let repository = release.image_repository.as_deref().unwrap_or("registry.k8s.io");
    format!("{repository}/kube-proxy:{}", release.kubernetes.replace('+', "_"))
}

/// The nodes that CoreDNS runs on, once the control plane has the release. Where nodes pull the image of a registry, any will do.
fn dns_nodes(input: &Input<'_>, facts: &Facts) -> Option<DnsNodes> {
    let release = input.release;
    let image = release.coredns.as_ref()?;
    let repository = image.image_repository.as_ref().or(release.image_repository.as_ref())?;
    if facts.virtual_ip.nodes_pull_images && !repository.starts_with("localhost") {
        return None;
    }
    let live = facts.control_plane.as_ref()?;
    let reached =
        live.status.as_ref().and_then(|status| status.version.as_ref()) == Some(&release.kubernetes);
    let has_workers = facts.deployments.iter().any(|pool| pool.spec.replicas.unwrap_or(1) > 0);
    (reached && live.spec.version == release.kubernetes).then(|| DnsNodes {
        image_tag: image.image_tag.clone().unwrap_or_default(),
        release: node_release(release),
        has_workers,
    })
}

/// Returns the first range, without the bits of its host part.
fn first_range<'a>(mut ranges: impl Iterator<Item = &'a str>) -> String {
    let first = ranges.next().unwrap_or_default().trim();
    first.parse::<IpNet>().map_or_else(|_| first.to_owned(), |net| net.trunc().to_string())
}
