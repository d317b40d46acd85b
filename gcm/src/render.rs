//! The objects that the controller would create for a cluster. Only reads.

use std::sync::Arc;

use api::gcm::{OSImage, TanzuKubernetesCluster, TanzuKubernetesRelease};
use api::names::label;
use api::vmop::VirtualMachineImage;
use clap::Parser as _;
use ipnet::IpNet;
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
use crate::cluster::flags::health::HealthFlags;
use crate::cluster::gather::is_of;
use crate::cluster::plan::{self, Plan};
use crate::cluster::{encryption, login};
use crate::program::Flags;
use crate::release::cache::ReleaseCache;
use crate::release::virtual_ip::VirtualIpFlags;

/// The namespace and the Deployment of gcm.
const NAMESPACE: &str = "vmware-system-tkg";
const DEPLOYMENT: &str = "vmware-system-tkg-controller-manager";
/// The public key of nodes whose key pair does not exist yet.
const NO_KEY: &str = "ssh-ed25519 (generated when the cluster is created)";

/// The flags of gcm that change objects.
#[derive(Clone, Debug, Default)]
struct PlanFlags {
    virtual_ip: VirtualIpFlags,
    health: HealthFlags,
    management: Vec<IpNet>,
}

/// The objects of a cluster.
#[derive(Debug)]
pub struct Rendered {
    /// The objects, in the order in which they are created.
    pub objects: Vec<Value>,
    /// The names of Secrets that are created with them. Their contents are generated then.
    pub secrets: Vec<String>,
}

/// Computes the objects of a cluster, which admission has accepted and completed.
///
/// # Errors
/// No object can be planned: the cause is that of the cluster's condition. Or the API server refuses to list objects of a kind.
pub async fn render(client: &Client, tkc: &TanzuKubernetesCluster) -> Result<Rendered, Error> {
    let facts = facts(client, tkc).await?;
    let api = apply::Api::new(&Runtime::detached(client.clone()), "gcm/cluster");
    let mut login = login::gather::gather(tkc, &api).await?;
    if login.new_private_key.is_some() {
        NO_KEY.clone_into(&mut login.public_key);
    }
    let encryption = encryption::gather::gather(tkc, &facts, &api).await?;
    let Plan {
        new_secrets,
        machine_templates,
        config_templates,
        wcp_cluster,
        control_plane,
        cluster,
        deployments,
        checks,
        accounts,
        addons: _,
        obsolete: _,
    } = plan::plan(tkc, &facts, &login, &encryption)?;
    let mut objects = Vec::new();
    objects.extend(machine_templates.iter().map(value));
    objects.extend(config_templates.iter().map(value));
    objects.extend([value(&cluster), value(&wcp_cluster), value(&control_plane)]);
    objects.extend(deployments.iter().map(value));
    objects.extend(checks.iter().map(value));
    objects.extend(accounts.iter().map(value));
    Ok(Rendered { objects, secrets: new_secrets.0.iter().map(ResourceExt::name_any).collect() })
}

fn value<K: Resource<DynamicType = ()> + serde::Serialize>(object: &K) -> Value {
    // Objects of the API are always JSON.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    value
}

async fn facts(client: &Client, tkc: &TanzuKubernetesCluster) -> Result<Facts, Error> {
    let PlanFlags { virtual_ip, health, management } = flags(client).await;
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

/// The flags with which gcm runs in this management cluster. A user may not be able to read them, and a bootstrap cluster has no
/// Deployment: then the nodes pull what their image lacks.
async fn flags(client: &Client) -> PlanFlags {
    let nodes_pull = VirtualIpFlags { nodes_pull_images: true, ..VirtualIpFlags::default() };
    let unknown = PlanFlags { virtual_ip: nodes_pull, ..PlanFlags::default() };
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let Ok(Some(deployment)) = deployments.get_opt(DEPLOYMENT).await else { return unknown };
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let arguments = pod.into_iter().flat_map(|pod| pod.containers).find_map(|container| container.args);
    let arguments = std::iter::once("gcm".to_owned()).chain(arguments.unwrap_or_default());
    let Ok(Flags { virtual_ip, health, management_cidrs, .. }) = Flags::try_parse_from(arguments) else {
        return unknown;
    };
    PlanFlags { virtual_ip, health, management: management_cidrs }
}

/// The objects of a cluster that belong to it.
async fn ours<K>(client: &Client, tkc: &TanzuKubernetesCluster) -> Result<Vec<Arc<K>>, Error>
where
    K: Watchable + Resource<Scope = NamespaceResourceScope>,
{
    let mut found = of_cluster(client, tkc).await?;
    found.retain(|object| is_of(&**object, tkc));
    Ok(found)
}

/// The objects of a cluster, by Cluster API's label and sorted by name.
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
