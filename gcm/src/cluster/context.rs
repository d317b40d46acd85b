//! The context of the cluster reconciler: the client, the caches of every kind, and flags.

use std::sync::Arc;

use api::capi::{
    Cluster, KubeadmConfigTemplate, KubeadmControlPlane, Machine, MachineDeployment, MachineHealthCheck,
    MachineSet,
};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachine, WCPMachineTemplate};
use api::gcm::{OSImage, TanzuKubernetesCluster};
use api::names::label;
use api::vmop::VirtualMachineImage;
use ipnet::IpNet;
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
use crate::addons::guests::ReachableGuests;
use crate::release::cache::ReleaseCache;
use crate::release::virtual_ip::VirtualIpFlags;
use crate::sync::namespace::NamespaceCaches;

/// The cache of one kind, with an index by cluster.
#[derive(Clone)]
pub struct KindCache<K: Watchable> {
    pub cache: Cache<K>,
    /// The index by `namespace/cluster`.
    pub of: Index<K>,
}

impl<K: Watchable> KindCache<K> {
    /// Indexes objects by the TanzuKubernetesCluster that controls them.
    pub fn owned(cache: Cache<K>) -> Self {
        let of = cache.index(|object| {
            let owner = controller_of::<TanzuKubernetesCluster, K>(object);
            owner.map(|owner| key(object.namespace().as_deref(), &owner.name)).into_iter().collect()
        });
        Self { cache, of }
    }

    /// Indexes objects by Cluster API's cluster name label.
    pub fn labelled(cache: Cache<K>) -> Self {
        let of = cache.index(|object| {
            let cluster = object.labels().get(label::CLUSTER_NAME);
            cluster.map(|cluster| key(object.namespace().as_deref(), cluster)).into_iter().collect()
        });
        Self { cache, of }
    }

    /// Returns the cluster's objects, sorted by name.
    pub fn sorted(&self, cluster: &str) -> Vec<Arc<K>> {
        let mut objects = self.of.objects(cluster);
        objects.sort_by_key(|object| object.name_any());
        objects
    }

    /// Returns the cluster's objects, sorted by name. Fails if the cache is older than gcm's own last write to one of them.
    pub fn settled(&self, cluster: &str) -> Result<Vec<Arc<K>>, StaleCache> {
        let objects = self.sorted(cluster);
        for object in &objects {
            self.cache.current(object.namespace().as_deref(), &object.name_any())?;
        }
        Ok(objects)
    }
}

/// The context of the cluster reconciler.
pub struct Context {
    /// The client, with the field manager `gcm/cluster`.
    pub api: apply::Api,
    /// The publisher for Kubernetes Events about clusters.
    pub events: Events,
    pub release_cache: ReleaseCache,
    pub os_images: Cache<OSImage>,
    /// The flags that decide which program announces a new control plane's address.
    pub virtual_ip: VirtualIpFlags,
    /// The settings for node remediation.
    pub health: HealthFlags,
    /// The address ranges outside the clusters that cluster nodes must be able to reach.
    pub management: Vec<IpNet>,
    pub kinds: ClusterCaches,
    /// The VirtualMachineImages for nodes, which can contain add-ons.
    pub vm_images: Cache<VirtualMachineImage>,
    /// The add-on bundles by namespace.
    pub bundles: Index<PartialObjectMeta<ConfigMap>>,
    /// The caches of the objects from which clusters get the settings of their namespace.
    pub namespaces: NamespaceCaches,
    /// The workload clusters' desired add-ons and their reports.
    pub guests: ReachableGuests,
}

/// The caches of the kinds that make up a cluster.
#[derive(Clone)]
pub struct ClusterCaches {
    pub clusters: KindCache<Cluster>,
    pub wcp_clusters: KindCache<WCPCluster>,
    pub control_planes: KindCache<KubeadmControlPlane>,
    pub machine_templates: KindCache<WCPMachineTemplate>,
    pub config_templates: KindCache<KubeadmConfigTemplate>,
    /// The MachineDeployments of the node pools.
    pub deployments: KindCache<MachineDeployment>,
    pub checks: KindCache<MachineHealthCheck>,
    /// The service accounts for programs in workload clusters.
    pub accounts: KindCache<ProviderServiceAccount>,
    pub sets: KindCache<MachineSet>,
    pub machines: KindCache<Machine>,
    pub wcp_machines: KindCache<WCPMachine>,
}
