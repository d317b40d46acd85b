//! Checks the configured network.

use kit::diagnosis::Diagnosis;
use vsphere::{MoRef, Network, ObjectContent};

use super::checks::{NETWORK, NETWORK_HOSTS};
use super::site::{ConnectedSite, name};
use crate::vcenter::settings::NetworkProvider;

pub async fn check(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    let provided = site.settings.network_provider.is_some_and(NetworkProvider::has_objects);
    let Some(configured) = &site.settings.network else {
        if provided {
            return vec![
                NETWORK.ok("the network provider manages the networks"),
                NETWORK_HOSTS.skipped("no network is configured"),
            ];
        }
        let remedy =
            "Set Network in the provider configuration to a port group, unless each VM names its own";
        return vec![
            NETWORK.warning("no network is configured", remedy),
            NETWORK_HOSTS.skipped("no network is configured"),
        ];
    };
    match site.vcenter.networks(&site.datacenter).await {
        Ok(networks) => judge(configured, &networks, &site.hosts),
        Err(error) => vec![NETWORK.error(error.to_string(), error.advice())],
    }
}

fn judge(configured: &str, networks: &[Network], hosts: &[ObjectContent]) -> Vec<Diagnosis> {
    let named =
        networks.iter().find(|network| network.name == configured || network.moref.id() == configured);
    let Some(network) = named else {
        let there = networks.iter().filter(|network| !network.is_uplink);
        let there: Vec<_> = there.map(|network| network.name.as_str()).collect();
        let remedy = format!("Set Network to one of {}", there.join(", "));
        return vec![NETWORK.error(format!("network {configured:?} is not in the datacenter"), remedy)];
    };
    let mut found = vec![NETWORK.ok(format!("{} ({})", network.name, network.moref.id()))];
    let without: Vec<_> = hosts.iter().filter(|host| !has(host, &network.moref)).map(name).collect();
    found.push(if without.is_empty() {
        NETWORK_HOSTS.ok(format!("{} on {} host(s)", network.name, hosts.len()))
    } else {
        let remedy = "Add the port group to these hosts, or take them out of the cluster";
        NETWORK_HOSTS.warning(format!("network {} is not on {}", network.name, without.join(", ")), remedy)
    });
    found
}

fn has(host: &ObjectContent, network: &MoRef) -> bool {
    host.get("network").items().iter().any(|known| known.as_moref() == Some(network))
}
