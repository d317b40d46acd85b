//! What the guest is to have besides its nodes.

use ipnet::IpNet;
use kit::guest::server;

use crate::addons::choice::{Offer, choose};
use crate::addons::engine::WantedAddons;
use crate::addons::render::Values;
use crate::cluster::facts::Facts;
use crate::cluster::input::Input;
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
    };
    let synced = sync::sets(input.tkc, &facts.namespace);
    Some(WantedAddons { server, addons: choose(&offer), synced, values })
}

/// Returns the first range, without the bits of its host part.
fn first_range<'a>(mut ranges: impl Iterator<Item = &'a str>) -> String {
    let first = ranges.next().unwrap_or_default().trim();
    first.parse::<IpNet>().map_or_else(|_| first.to_owned(), |net| net.trunc().to_string())
}
