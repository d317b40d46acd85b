//! Computes the objects that the controller would create for a cluster. Reads from the API server, but doesn't write.

use std::sync::Arc;

use api::gcm::{OSImage, TanzuKubernetesCluster, TanzuKubernetesRelease};
use api::names::{GCM_NAMESPACE, label};
use api::vmop::VirtualMachineImage;
use clap::Parser as _;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use kit::watch::{Cache, Watchable};
use kit::{Runtime, apply};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::Value;

use crate::cluster::error::Error;
use crate::cluster::facts::{Facts, ReleaseLookup};
use crate::cluster::gather::{ClusterSecrets, is_of};
use crate::cluster::network::cluster;
use crate::cluster::plan;
use crate::program::Flags;
use crate::release::cache::ReleaseCache;

/// The name of gcm's Deployment.
const DEPLOYMENT: &str = "vmware-system-tkg-controller-manager";
/// A placeholder for the nodes' public key while the key pair doesn't exist yet.
const NO_KEY: &str = "ssh-ed25519 (generated when the cluster is created)";
/// A placeholder for the uid of an owner that doesn't exist yet.
pub const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A cluster's rendered objects.
#[derive(Debug)]
pub struct Rendered {
    /// The objects, in the order in which gcm applies them.
    pub objects: Vec<Value>,
    /// The names of the Secrets that gcm creates in addition to the objects. Their contents are generated at creation.
    pub secrets: Vec<String>,
}

/// Computes the objects for a cluster that passed admission and has its defaults. `arguments` are gcm's command-line
/// arguments.
///
/// # Errors
/// Returns the error that the cluster's condition would report if the objects can't be planned, or the API server's error.
pub async fn render(
    client: &Client,
    tkc: &TanzuKubernetesCluster,
    arguments: &[String],
) -> Result<Rendered, Error> {
    let facts = facts(client, tkc, arguments).await?;
    let api = apply::Api::new(&Runtime::detached(client.clone()), "gcm/cluster");
    let ClusterSecrets { mut login, encryption } = ClusterSecrets::read(tkc, &facts, &api).await?;
    if login.new_private_key.is_some() {
        NO_KEY.clone_into(&mut login.public_key);
    }
    let mut plan = plan::plan(tkc, &facts, &login, &encryption)?;
    let mut owner = facts.cluster.as_deref().unwrap_or(&plan.cluster).clone();
    owner.metadata.uid.get_or_insert_with(|| NO_UID.to_owned());
    cluster::join(&mut plan.wcp_cluster, &owner);
    cluster::join(&mut plan.control_plane, &owner);
    let objects = plan.documents().map_err(kube::Error::SerdeError)?;
    Ok(Rendered { objects, secrets: plan.new_secrets.0.iter().map(ResourceExt::name_any).collect() })
}

/// Reads the command-line arguments of gcm from its Deployment. Returns `None` if the Deployment doesn't exist, as in a
/// bootstrap cluster.
///
/// # Errors
/// Returns an error if the API server refuses the request, for example because the user isn't allowed to read Deployments.
pub async fn deployed_arguments(client: &Client) -> kube::Result<Option<Vec<String>>> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), GCM_NAMESPACE);
    let Some(deployment) = deployments.get_opt(DEPLOYMENT).await? else { return Ok(None) };
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let mut containers = pod.into_iter().flat_map(|pod| pod.containers);
    Ok(Some(containers.find_map(|container| container.args).unwrap_or_default()))
}

async fn facts(client: &Client, tkc: &TanzuKubernetesCluster, arguments: &[String]) -> Result<Facts, Error> {
    let arguments = std::iter::once("gcm").chain(arguments.iter().map(String::as_str));
    let flags = Flags::try_parse_from(arguments);
    let Flags { virtual_ip, health, management_cidrs: management, .. } = flags.map_err(|error| {
        Error::Waiting(format!("gcm has arguments that this version of layercake does not know: {error}"))
    })?;
    let releases: Cache<TanzuKubernetesRelease> = Cache::filled(list(Api::all(client.clone()), None).await?);
    let os_images: Cache<OSImage> = Cache::filled(list(Api::all(client.clone()), None).await?);
    let vm_images: Cache<VirtualMachineImage> = Cache::filled(list(Api::all(client.clone()), None).await?);
    let release_cache = ReleaseCache::following(&releases, &os_images);
    let clusters = of_cluster(client, tkc).await?;
    let others = clusters.iter().any(|cluster| !is_of(&**cluster, tkc));
    let mut facts = Facts {
        virtual_ip,
        health,
        management,
        now: Timestamp::now(),
        available_releases: release_cache.available(),
        releases: ReleaseLookup::new(release_cache, os_images, vm_images),
        cluster: clusters.into_iter().find(|cluster| is_of(&**cluster, tkc)),
        wcp_cluster: ours(client, tkc).await?.into_iter().next(),
        control_plane: ours(client, tkc).await?.into_iter().next(),
        machine_templates: ours(client, tkc).await?,
        config_templates: ours(client, tkc).await?,
        deployments: ours(client, tkc).await?,
        checks: ours(client, tkc).await?,
        accounts: ours(client, tkc).await?,
        ..Facts::default()
    };
    if !others {
        facts.sets = of_cluster(client, tkc).await?;
        facts.machines = of_cluster(client, tkc).await?;
        facts.wcp_machines = of_cluster(client, tkc).await?;
    }
    Ok(facts)
}

/// Lists the objects with the cluster's label that the TanzuKubernetesCluster controls, sorted by name.
async fn ours<K>(client: &Client, tkc: &TanzuKubernetesCluster) -> Result<Vec<Arc<K>>, Error>
where
    K: Watchable + Resource<Scope = NamespaceResourceScope>,
{
    let mut found = of_cluster(client, tkc).await?;
    found.retain(|object| is_of(&**object, tkc));
    Ok(found)
}

/// Lists the objects whose Cluster API label names the cluster, sorted by name.
async fn of_cluster<K>(client: &Client, tkc: &TanzuKubernetesCluster) -> Result<Vec<Arc<K>>, Error>
where
    K: Watchable + Resource<Scope = NamespaceResourceScope>,
{
    let api = Api::<K>::namespaced(client.clone(), &tkc.namespace().unwrap_or_default());
    let mut found = list(api, Some(format!("{}={}", label::CLUSTER_NAME, tkc.name_any()))).await?;
    found.sort_by_key(ResourceExt::name_any);
    Ok(found.into_iter().map(Arc::new).collect())
}

async fn list<K: Watchable>(api: Api<K>, labels: Option<String>) -> Result<Vec<K>, Error> {
    let params = ListParams { label_selector: labels, ..ListParams::default() };
    Ok(api.list(&params).await?.items)
}
