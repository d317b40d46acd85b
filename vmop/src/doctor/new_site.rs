//! Checks a provider configuration that isn't applied yet.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::ProviderConfiguration;
use k8s_openapi::api::storage::v1::StorageClass;
use kit::diagnosis::Diagnosis;
use kube::Client;
use vsphere::MoRef;

use super::checks::{LIBRARY, PLACEMENT};
use super::endpoints::AddressPool;
use super::site::{ConnectedSite, judge_missing};
use super::{Options, configuration, connection, endpoints, network, privileges, storage};
use crate::vcenter::settings::{ConfigData, ProviderSettings};

/// A site that is about to be configured. This type doesn't implement `Debug`, because it contains a password.
pub struct NewSite {
    /// The provider configuration's data.
    pub configuration: ProviderConfiguration,
    /// The credentials Secret's data.
    pub credentials: BTreeMap<String, Vec<u8>>,
    /// The namespaces' folders and resource pools, each with a description of its first user, such as `namespace dev`.
    pub places: BTreeMap<MoRef, String>,
    /// The site's StorageClasses.
    pub storage_classes: Vec<StorageClass>,
    /// The site's control plane address pools.
    pub pools: Vec<AddressPool>,
}

/// Checks the configuration, the vCenter connection and the user's privileges. Checks that the library, datacenter,
/// folders, pools, datastore, network and storage policies exist, and that other installations' VMs don't use addresses
/// from the pools.
pub async fn check(kube: &Client, options: &Options, site: &NewSite) -> Vec<Diagnosis> {
    let read = ConfigData { namespace: &options.namespace, given: site.configuration.clone() }
        .settings(Some(&site.credentials));
    let settings = match read {
        Ok(settings) => settings,
        Err(problem) => return vec![configuration::judge(&problem)],
    };
    let (vcenter, mut found) = connection::check(&settings, options.ca.as_deref(), &options.recorder).await;
    if let Some(vcenter) = vcenter {
        found.extend(check_objects(kube, options, &settings, &vcenter, site).await);
        vcenter.logout().await;
    }
    found
}

async fn check_objects(
    kube: &Client,
    options: &Options,
    settings: &ProviderSettings,
    vcenter: &vsphere::Client,
    site: &NewSite,
) -> Vec<Diagnosis> {
    let datacenter = MoRef::datacenter(settings.datacenter.as_str());
    let (storage_classes, address_pools) = (&site.storage_classes, &site.pools);
    let mut places = site.places.clone();
    places.insert(datacenter.clone(), "the provider configuration".to_owned());
    let mut found = Vec::new();
    for (object, user) in &places {
        if let Err(error) = vcenter.retrieve(std::slice::from_ref(object), &["name"]).await {
            found.push(judge_missing(object, user, &error));
        }
    }
    if let Some(library) = &settings.library {
        found.push(match vcenter.library(library).await {
            Ok(library) => LIBRARY.ok(library.name),
            Err(error) if error.is_not_found() => LIBRARY.error(
                format!("content library {library} does not exist, or the vCenter user cannot see it"),
                "Correct ContentSource (layercake site discover shows the ids of libraries)",
            ),
            Err(error) => LIBRARY.error(format!("content library {library}: {error}"), error.advice()),
        });
    }
    if found.iter().any(|diagnosis| diagnosis.check == PLACEMENT) {
        return found;
    }
    let of_kind = |kind: &'static str| places.iter().filter(move |(object, _)| object.kind() == kind);
    let pools: Vec<MoRef> = of_kind("ResourcePool").map(|(object, _)| object.clone()).collect();
    match ConnectedSite::surroundings(vcenter, &pools).await {
        Ok((pools, clusters, hosts)) => {
            let site = ConnectedSite {
                kube,
                settings,
                vcenter,
                datacenter,
                namespaces: BTreeSet::new(),
                bindings: Ok(Vec::new()),
                folders: of_kind("Folder").map(|(object, user)| (object.clone(), user.clone())).collect(),
                pools,
                clusters,
                hosts,
            };
            found.extend(privileges::check(&site).await);
            found.extend(network::check(&site).await);
            found.extend(storage::check_classes(&site, storage_classes).await);
            found
                .push(endpoints::check_new(address_pools, kube, settings, vcenter, &options.namespace).await);
        }
        Err(error) => found.push(PLACEMENT.error(error.to_string(), error.advice())),
    }
    found
}
