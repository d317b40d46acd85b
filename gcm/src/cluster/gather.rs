//! Every read of a reconcile.

use std::sync::Arc;

use api::capi::{
    Cluster, KubeadmConfigTemplate, KubeadmControlPlane, Machine, MachineDeployment, MachineHealthCheck,
    MachineSet,
};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachine, WCPMachineTemplate};
use api::gcm::{OSImage, TanzuKubernetesCluster};
use api::names::{self, label};
use api::vmop::VirtualMachineImage;
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::apply;
use kit::controller::controller_of;
use kit::events::Events;
use kit::expectations::StaleCache;
use kit::index::{Index, key};
use kit::watch::{Cache, Watchable};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;

use super::flags::health::HealthFlags;
use super::flags::virtual_ip::VirtualIpFlags;
use super::login::gather::Login;
use crate::addons::engine::Engine;
use crate::addons::report::AddonReport;
use crate::release::ReleaseImage;
use crate::release::cache::ReleaseCache;
use crate::release::resolution::AvailableRelease;
use crate::sync::namespace::{NamespaceCaches, NamespaceFacts};

/// A watched kind, by the cluster its objects belong to.
#[derive(Clone)]
pub struct KindCache<K: Watchable> {
    /// The objects.
    pub cache: Cache<K>,
    /// The objects by `namespace/cluster`.
    pub of: Index<K>,
}

impl<K: Watchable> KindCache<K> {
    /// Objects by the TanzuKubernetesCluster that controls them.
    pub fn owned(cache: Cache<K>) -> Self {
        let of = cache.index(|object| {
            let owner = controller_of::<TanzuKubernetesCluster, K>(object);
            owner.map(|owner| key(object.namespace().as_deref(), &owner.name)).into_iter().collect()
        });
        Self { cache, of }
    }

    /// Objects by Cluster API's label.
    pub fn labelled(cache: Cache<K>) -> Self {
        let of = cache.index(|object| {
            let cluster = object.labels().get(label::CLUSTER_NAME);
            cluster.map(|cluster| key(object.namespace().as_deref(), cluster)).into_iter().collect()
        });
        Self { cache, of }
    }

    fn sorted(&self, cluster: &str) -> Vec<Arc<K>> {
        let mut objects = self.of.objects(cluster);
        objects.sort_by_key(|object| object.name_any());
        objects
    }

    /// The cluster's objects by name, none of them older than our own last write.
    fn settled(&self, cluster: &str) -> Result<Vec<Arc<K>>, StaleCache> {
        let objects = self.sorted(cluster);
        for object in &objects {
            self.cache.current(object.namespace().as_deref(), &object.name_any())?;
        }
        Ok(objects)
    }
}

/// What the reconcile of clusters works with.
pub struct Context {
    /// Writes as `gcm/cluster`.
    pub api: apply::Api,
    /// Publishes Kubernetes Events about clusters.
    pub events: Events,
    /// The releases.
    pub release_cache: ReleaseCache,
    /// The node images.
    pub os_images: Cache<OSImage>,
    /// What holds the addresses of new control planes.
    pub virtual_ip: VirtualIpFlags,
    /// When nodes are replaced.
    pub health: HealthFlags,
    /// Ranges that nodes must reach outside their clusters.
    pub management: Vec<IpNet>,
    /// The caches of the kinds a cluster is made of.
    pub kinds: ClusterCaches,
    /// The images of nodes, which may carry add-ons.
    pub vm_images: Cache<VirtualMachineImage>,
    /// The ConfigMaps with bundles, by namespace.
    pub bundles: Index<PartialObjectMeta<ConfigMap>>,
    /// What namespaces give to their clusters.
    pub namespaces: NamespaceCaches,
    /// What applies add-ons in guests.
    pub addons: Engine,
}

/// The kinds a cluster is made of.
#[derive(Clone)]
pub struct ClusterCaches {
    /// Clusters.
    pub clusters: KindCache<Cluster>,
    /// Infrastructure of clusters.
    pub wcp_clusters: KindCache<WCPCluster>,
    /// Control planes.
    pub control_planes: KindCache<KubeadmControlPlane>,
    /// Templates of machines.
    pub machine_templates: KindCache<WCPMachineTemplate>,
    /// Templates of bootstrap configurations.
    pub config_templates: KindCache<KubeadmConfigTemplate>,
    /// Node pools.
    pub deployments: KindCache<MachineDeployment>,
    /// Health checks.
    pub checks: KindCache<MachineHealthCheck>,
    /// Accounts of programs in the guest.
    pub accounts: KindCache<ProviderServiceAccount>,
    /// Generations of node pools.
    pub sets: KindCache<MachineSet>,
    /// Machines.
    pub machines: KindCache<Machine>,
    /// Infrastructure of machines.
    pub wcp_machines: KindCache<WCPMachine>,
}

/// Everything a reconcile knows of one cluster; lists are sorted by name.
#[derive(Clone, Default)]
pub struct Facts {
    /// What holds the addresses of new control planes.
    pub virtual_ip: VirtualIpFlags,
    /// When nodes are replaced.
    pub health: HealthFlags,
    /// Ranges that nodes must reach outside their clusters.
    pub management: Vec<IpNet>,
    /// When all this was read.
    pub now: Timestamp,
    /// What resolution chooses from.
    pub available_releases: Arc<Vec<AvailableRelease>>,
    /// The available releases, and the images of each.
    pub releases: ReleaseLookup,
    /// The Cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// Its infrastructure.
    pub wcp_cluster: Option<Arc<WCPCluster>>,
    /// Its control plane.
    pub control_plane: Option<Arc<KubeadmControlPlane>>,
    /// Templates of its machines.
    pub machine_templates: Vec<Arc<WCPMachineTemplate>>,
    /// Templates of its workers' bootstrap configurations.
    pub config_templates: Vec<Arc<KubeadmConfigTemplate>>,
    /// Its node pools.
    pub deployments: Vec<Arc<MachineDeployment>>,
    /// Its health checks.
    pub checks: Vec<Arc<MachineHealthCheck>>,
    /// Its accounts.
    pub accounts: Vec<Arc<ProviderServiceAccount>>,
    /// The MachineSets of its pools.
    pub sets: Vec<Arc<MachineSet>>,
    /// Its machines.
    pub machines: Vec<Arc<Machine>>,
    /// The infrastructure of its machines.
    pub wcp_machines: Vec<Arc<WCPMachine>>,
    /// The ConfigMaps of its namespace that are bundles of add-ons.
    pub bundles: Vec<Arc<PartialObjectMeta<ConfigMap>>>,
    /// How its add-ons are, once somebody looks after them.
    pub addons: Option<Arc<Vec<AddonReport>>>,
    /// What its namespace gives.
    pub namespace: NamespaceFacts,
    /// How that is in the guest, once somebody looks after it.
    pub synced: Option<Arc<Vec<AddonReport>>>,
    /// The version of Kubernetes that its add-ons were last looked at for.
    pub addons_for: Option<String>,
    /// How people get into its nodes; nothing before somebody plans.
    pub login: Login,
}

impl Facts {
    /// Whether its API server has answered once.
    pub fn is_initialized(&self) -> bool {
        let initialization =
            self.cluster.as_ref().and_then(|cluster| cluster.status.as_ref()?.initialization.as_ref());
        initialization.is_some_and(|done| done.control_plane_initialized == Some(true))
    }

    /// Takes in a node pool as it was just written.
    pub fn took(&mut self, deployment: Arc<MachineDeployment>) {
        match self.deployments.iter_mut().find(|known| known.name_any() == deployment.name_any()) {
            Some(known) => *known = deployment,
            None => self.deployments.push(deployment),
        }
        self.deployments.sort_by_key(|deployment| deployment.name_any());
    }
}

/// Releases with their images, as far as a plan may ask for them.
#[derive(Clone, Default)]
pub struct ReleaseLookup {
    release_cache: ReleaseCache,
    images: Option<Cache<OSImage>>,
    vm_images: Option<Cache<VirtualMachineImage>>,
    #[cfg(test)]
    pub(crate) fixed: Vec<ReleaseImage>,
}

impl ReleaseLookup {
    /// The release that resolution chose.
    pub fn release(&self, candidate: &AvailableRelease) -> Option<Arc<crate::release::KubernetesRelease>> {
        self.release_cache.release(candidate)
    }

    /// The images of a release that are there.
    pub fn images(&self, names: &[String]) -> Vec<ReleaseImage> {
        #[cfg(test)]
        if self.images.is_none() {
            return self.fixed.clone();
        }
        let Some(cache) = &self.images else { return Vec::new() };
        names.iter().filter_map(|name| ReleaseImage::of(&*cache.get(None, name)?)).collect()
    }

    /// The VirtualMachineImage of this name.
    pub fn vm_image(&self, name: &str) -> Option<Arc<VirtualMachineImage>> {
        self.vm_images.as_ref()?.get(None, name)
    }

    #[cfg(test)]
    pub(crate) fn of(release_cache: ReleaseCache, fixed: Vec<ReleaseImage>) -> Self {
        Self { release_cache, images: None, vm_images: None, fixed }
    }
}

/// Reads everything about one cluster.
pub fn facts(tkc: &TanzuKubernetesCluster, ctx: &Context) -> Result<Facts, StaleCache> {
    let namespace = tkc.namespace();
    let (namespace, name) = (namespace.as_deref(), tkc.name_any());
    let of = key(namespace, &name);
    let kinds = &ctx.kinds;
    let cluster = kinds.clusters.cache.current(namespace, &name)?;
    // The machines of another's Cluster of the same name are none of ours.
    let others = cluster.as_deref().is_some_and(|cluster| !is_of(cluster, tkc));
    Ok(Facts {
        virtual_ip: ctx.virtual_ip.clone(),
        health: ctx.health.clone(),
        management: ctx.management.clone(),
        now: Timestamp::now(),
        available_releases: ctx.release_cache.available(),
        releases: ReleaseLookup {
            release_cache: ctx.release_cache.clone(),
            images: Some(ctx.os_images.clone()),
            vm_images: Some(ctx.vm_images.clone()),
            #[cfg(test)]
            fixed: Vec::new(),
        },
        cluster: cluster.filter(|_| !others),
        wcp_cluster: kinds.wcp_clusters.cache.current(namespace, &name)?.filter(|found| is_of(&**found, tkc)),
        control_plane: kinds
            .control_planes
            .cache
            .current(namespace, &names::control_plane(&name))?
            .filter(|found| is_of(&**found, tkc)),
        machine_templates: kinds.machine_templates.settled(&of)?,
        config_templates: kinds.config_templates.settled(&of)?,
        deployments: kinds.deployments.settled(&of)?,
        checks: kinds.checks.settled(&of)?,
        accounts: kinds.accounts.settled(&of)?,
        sets: if others { Vec::new() } else { kinds.sets.sorted(&of) },
        machines: if others { Vec::new() } else { kinds.machines.sorted(&of) },
        wcp_machines: if others { Vec::new() } else { kinds.wcp_machines.sorted(&of) },
        bundles: ctx.bundles.objects(namespace.unwrap_or_default()),
        addons: ctx.addons.reports(&of),
        namespace: ctx.namespaces.facts(namespace.unwrap_or_default()),
        synced: ctx.addons.sync_reports(&of),
        addons_for: ctx.addons.looked_at_for(&of),
        login: Login::default(),
    })
}

fn is_of<K: Watchable>(object: &K, tkc: &TanzuKubernetesCluster) -> bool {
    controller_of::<TanzuKubernetesCluster, K>(object).is_some_and(|owner| owner.name == tkc.name_any())
}
