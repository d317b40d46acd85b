//! What the guest is to have besides its nodes.

use ipnet::IpNet;
use kit::guest::server;

use crate::addons::choice::{Offer, choose};
use crate::addons::engine::WantedAddons;
use crate::addons::render::Values;
use crate::admission::defaults;
use crate::cluster::facts::Facts;
use crate::cluster::input::Input;
use crate::spec::network::network_settings;
use crate::sync;

/// The add-ons of a cluster whose API server has answered.
pub fn addons(input: &Input<'_>, facts: &Facts) -> Option<WantedAddons> {
    let cluster = facts.cluster.as_ref().filter(|_| facts.is_initialized())?;
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.clone().filter(|host| !host.is_empty())?;
    let port = endpoint.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
    let server = server(&host, port);
    let settings = network_settings(&input.tkc.spec);
    let cni =
        settings.and_then(|settings| settings.cni.as_ref()).map_or(defaults::CNI, |cni| cni.name.as_str());
    let image = facts.releases.vm_image(&input.image.name);
    let name = input.name();
    let offer = Offer { cluster: &name, cni, config_maps: &facts.bundles, image: image.as_ref() };
    let ranges = |ranges: Option<&Vec<String>>, otherwise: &str| {
        let first = ranges.and_then(|blocks| blocks.first()).map_or(otherwise, String::as_str).trim();
        // Bits of the host part are no part of a range.
        first.parse::<IpNet>().map_or_else(|_| first.to_owned(), |net| net.trunc().to_string())
    };
    let pods = settings.and_then(|settings| settings.pods.as_ref()?.cidr_blocks.as_ref());
    let services = settings.and_then(|settings| settings.services.as_ref()?.cidr_blocks.as_ref());
    let domain = settings.and_then(|settings| settings.service_domain.clone());
    let values = Values {
        pod_cidr: ranges(pods, defaults::PODS),
        service_cidr: ranges(services, defaults::SERVICES),
        service_domain: domain.unwrap_or_else(|| defaults::DOMAIN.to_owned()),
        cluster_name: name.clone(),
        cluster_namespace: input.namespace(),
        control_plane_host: host,
        control_plane_port: port,
        kubernetes_version: input.release.kubernetes.clone(),
    };
    let synced = sync::sets(input.tkc, &facts.namespace);
    Some(WantedAddons { server, addons: choose(&offer), synced, values })
}
