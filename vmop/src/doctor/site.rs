//! The vCenter objects to check: the objects that the configuration, namespaces and zones refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use api::names::annotation;
use api::topology::{AvailabilityZone, Zone};
use api::vmop::VirtualMachineClassBinding;
use k8s_openapi::api::core::v1::Namespace;
use kit::diagnosis::Diagnosis;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use vsphere::{Kind, MoRef, ObjectContent};

use super::checks::PLACEMENT;
use crate::vcenter::Placement;
use crate::vcenter::settings::ProviderSettings;
use crate::virtualmachine::placement::zones::{namespace_placement, parse_zones};

/// The beginning of a placement's description if a namespace uses the placement. The namespace's name follows.
const NAMESPACE: &str = "namespace ";

/// The property path of a host's CPU threads.
pub const THREADS: &str = "summary.hardware.numCpuThreads";

/// The display name of VM class bindings.
pub const BINDINGS: &str = "VirtualMachineClassBindings";

/// A connected vCenter and its VMs' placements.
pub struct ConnectedSite<'a> {
    /// The API server client.
    pub kube: &'a Client,
    /// The provider configuration.
    pub settings: &'a ProviderSettings,
    /// The vCenter client.
    pub vcenter: &'a vsphere::Client,
    pub datacenter: MoRef,
    /// The namespaces with a placement for VMs.
    pub namespaces: BTreeSet<String>,
    /// The bindings of VM classes to namespaces.
    pub bindings: kube::Result<Vec<VirtualMachineClassBinding>>,
    /// The VM folders, each with a description of the first namespace or configuration that uses it.
    pub folders: BTreeMap<MoRef, String>,
    /// The VM resource pools.
    pub pools: Vec<ObjectContent>,
    /// The clusters or standalone hosts that own the pools.
    pub clusters: Vec<ObjectContent>,
    /// The hosts in the clusters.
    pub hosts: Vec<ObjectContent>,
}

impl<'a> ConnectedSite<'a> {
    /// Reads the objects, and reports the ones that can't be read. The site is `None` if its placements or clusters can't be
    /// read, or if the datacenter doesn't exist.
    pub async fn read(
        kube: &'a Client,
        settings: &'a ProviderSettings,
        vcenter: &'a vsphere::Client,
    ) -> (Option<Self>, Vec<Diagnosis>) {
        let datacenter = MoRef::datacenter(settings.datacenter.as_str());
        let users = match users(kube, settings).await {
            Ok(users) => users,
            Err(unread) => {
                let remedy = "Use a kubeconfig whose user can list Namespaces and zones; the other checks depend on them";
                return (None, vec![PLACEMENT.error(unread.found, remedy)]);
            }
        };
        let namespaces =
            users.iter().filter_map(|(user, _)| user.strip_prefix(NAMESPACE)).map(str::to_owned).collect();
        let bindings = list_all(kube).await;
        let mut wanted =
            BTreeMap::from([(datacenter.clone(), "Datacenter of the provider configuration".to_owned())]);
        for (user, place) in &users {
            wanted.entry(place.folder.clone()).or_insert_with(|| user.clone());
            wanted.entry(place.pool.clone()).or_insert_with(|| user.clone());
        }
        let mut found = Vec::new();
        let mut present = BTreeSet::new();
        for (object, user) in &wanted {
            match vcenter.retrieve(std::slice::from_ref(object), &["name"]).await {
                Ok(_) => _ = present.insert(object.clone()),
                Err(error) => found.push(judge_missing(object, user, &error)),
            }
        }
        let of_kind =
            |kind: &str| present.iter().filter(|object| object.kind() == kind).cloned().collect::<Vec<_>>();
        let (folders, pools) = (of_kind("Folder"), of_kind("ResourcePool"));
        if found.is_empty() && pools.is_empty() {
            let remedy = format!(
                "Annotate a namespace with {} and {} (MoIDs), or set Folder and ResourcePool",
                annotation::NAMESPACE_FOLDER,
                annotation::NAMESPACE_RESOURCE_POOL
            );
            found
                .push(PLACEMENT.warning("no namespace has a folder and a resource pool for its VMs", remedy));
        } else if found.is_empty() {
            let (folders, pools) = (folders.len(), pools.len());
            found.push(PLACEMENT.ok(format!("{datacenter}, {folders} folder(s), {pools} resource pool(s)")));
        }
        if !present.contains(&datacenter) {
            return (None, found);
        }
        match Self::surroundings(vcenter, &pools).await {
            Ok((pools, clusters, hosts)) => {
                let folders =
                    folders.into_iter().map(|folder| (folder.clone(), wanted[&folder].clone())).collect();
                let site = Self {
                    kube,
                    settings,
                    vcenter,
                    datacenter,
                    namespaces,
                    bindings,
                    folders,
                    pools,
                    clusters,
                    hosts,
                };
                (Some(site), found)
            }
            Err(error) => {
                found.push(PLACEMENT.error(error.to_string(), error.advice()));
                (None, found)
            }
        }
    }

    /// Returns the pools, the clusters that own them, and the hosts in these clusters.
    pub(super) async fn surroundings(
        vcenter: &vsphere::Client,
        pools: &[MoRef],
    ) -> vsphere::Result<(Vec<ObjectContent>, Vec<ObjectContent>, Vec<ObjectContent>)> {
        if pools.is_empty() {
            return Ok((Vec::new(), Vec::new(), Vec::new()));
        }
        let pools = vcenter.retrieve(pools, &["name", "owner", "runtime", "config"]).await?;
        let owners: BTreeSet<MoRef> =
            pools.iter().filter_map(|pool| pool.get("owner").as_moref().cloned()).collect();
        let owners: Vec<MoRef> = owners.into_iter().collect();
        let clusters =
            vcenter.retrieve(&owners, &["name", "host", "network", "datastore", "configurationEx"]).await?;
        let mut hosts = Vec::new();
        for cluster in &owners {
            let paths = ["name", "runtime.connectionState", "runtime.inMaintenanceMode", "network", THREADS];
            hosts.extend(vcenter.retrieve_members(cluster, "host", "HostSystem", &paths).await?);
        }
        Ok((pools, clusters, hosts))
    }
}

/// Returns an object's name and MoID for messages.
pub fn name(object: &ObjectContent) -> String {
    let name = object.get("name").as_str().unwrap_or_default();
    format!("{name} ({})", object.obj.id())
}

/// Returns the finding for an object that can't be read. `user` describes the namespace or the setting that refers to the
/// object.
pub(super) fn judge_missing(object: &MoRef, user: &str, error: &vsphere::Error) -> Diagnosis {
    if matches!(error.kind(), Kind::NotFound { .. }) {
        let remedy = "Correct the MoID (layercake site discover and govc find -I show MoIDs), and give the user System.Read there";
        return PLACEMENT.error(
            format!("{object}, named by {user}, does not exist, or the vCenter user cannot see it"),
            remedy,
        );
    }
    PLACEMENT.error(format!("{object}, named by {user}: {error}"), error.advice())
}

/// Returns the placements for VMs. The string describes who uses the placement: a namespace (through annotations or zones) or
/// the provider configuration.
async fn users(kube: &Client, settings: &ProviderSettings) -> Result<Vec<(String, Placement)>, Diagnosis> {
    let namespaces: Vec<Namespace> = PLACEMENT.read("Namespaces", list_all(kube).await)?;
    let zones: Vec<Zone> = PLACEMENT.read("Zones", list_served(kube).await)?;
    let wide: Vec<AvailabilityZone> = PLACEMENT.read("AvailabilityZones", list_served(kube).await)?;
    let zones: Vec<_> = zones.into_iter().map(Arc::new).collect();
    let wide: Vec<_> = wide.into_iter().map(Arc::new).collect();
    let mut users = Vec::new();
    if let Ok(place) = namespace_placement("", |_| None, settings) {
        users.push(("the provider configuration".to_owned(), place));
    }
    for namespace in &namespaces {
        let name = namespace.name_any();
        let user = format!("{NAMESPACE}{name}");
        let own: Vec<_> =
            zones.iter().filter(|zone| zone.namespace().as_deref() == Some(&*name)).cloned().collect();
        for zone in parse_zones(&name, &own, &wide) {
            users.extend(zone.placements.into_iter().map(|place| (user.clone(), place)));
        }
        let annotated = |key: &str| namespace.annotations().get(key).cloned();
        if annotated(annotation::NAMESPACE_FOLDER).is_some()
            || annotated(annotation::NAMESPACE_RESOURCE_POOL).is_some()
        {
            users.extend(namespace_placement(&name, annotated, settings).ok().map(|place| (user, place)));
        }
    }
    Ok(users)
}

/// Lists all objects of a kind.
pub async fn list_all<K>(kube: &Client) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    Ok(Api::<K>::all(kube.clone()).list(&ListParams::default()).await?.items)
}

/// Lists all objects of a kind. Returns an empty list if the kind isn't served.
pub(super) async fn list_served<K>(kube: &Client) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match list_all(kube).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        other => other,
    }
}
