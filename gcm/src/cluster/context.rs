//! The context of the reconcile of clusters: the client, the caches of every kind, and flags.

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
use crate::addons::engine::Engine;
use crate::release::cache::ReleaseCache;
use crate::release::virtual_ip::VirtualIpFlags;
use crate::sync::namespace::NamespaceCaches;

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

    /// The cluster's objects by name.
    pub fn sorted(&self, cluster: &str) -> Vec<Arc<K>> {
        let mut objects = self.of.objects(cluster);
        objects.sort_by_key(|object| object.name_any());
        objects
    }

    /// The cluster's objects by name, none of them older than our own last write.
    pub fn settled(&self, cluster: &str) -> Result<Vec<Arc<K>>, StaleCache> {
        let objects = self.sorted(cluster);
        for object in &objects {
            self.cache.current(object.namespace().as_deref(), &object.name_any())?;
        }
        Ok(objects)
    }
}

/// The context of the reconcile of clusters.
pub struct Context {
    /// Writes as `gcm/cluster`.
    pub api: apply::Api,
    /// Publishes Kubernetes Events about clusters.
    pub events: Events,
    /// The releases.
    pub release_cache: ReleaseCache,
    /// The node images.
    pub os_images: Cache<OSImage>,
    /// The programs that hold the addresses of new control planes.
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
    /// The objects that namespaces give to their clusters.
    pub namespaces: NamespaceCaches,
    /// The engine that applies add-ons in guests.
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
