//! Starts the watches of capw, and provides their caches.

use api::capi::{Cluster, IpAddress, IpAddressClaim, Machine};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachine, WCPMachineTemplate};
use api::ipam::{GlobalInClusterIpPool, InClusterIpPool};
use api::net::VirtualNetwork;
use api::topology::{AvailabilityZone, Zone};
use api::vmop::{
    VirtualMachine, VirtualMachineClass, VirtualMachineImage, VirtualMachineService,
    VirtualMachineSetResourcePolicy,
};
use kit::Runtime;
use kit::optional::{Optional, watch_optional};
use kit::watch::{self, Cache, Watchable};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};

use crate::scope::Scope;

/// A cache for each kind that capw watches.
pub struct Caches {
    /// The objects that this instance reconciles.
    pub scope: Scope,
    pub clusters: Cache<Cluster>,
    pub machines: Cache<Machine>,
    pub wcp_clusters: Cache<WCPCluster>,
    pub wcp_machines: Cache<WCPMachine>,
    pub accounts: Cache<ProviderServiceAccount>,
    pub templates: Cache<WCPMachineTemplate>,
    pub vms: Cache<VirtualMachine>,
    pub policies: Cache<VirtualMachineSetResourcePolicy>,
    pub services: Cache<VirtualMachineService>,
    pub networks: Cache<VirtualNetwork>,
    pub address_claims: Cache<IpAddressClaim>,
    /// Addresses that IPAM providers assigned to claims.
    pub addresses: Cache<IpAddress>,
    /// Namespaced pools, if the in-cluster IPAM provider is installed.
    pub pools: Optional<InClusterIpPool>,
    /// Cluster-scoped pools, if the in-cluster IPAM provider is installed.
    pub global_pools: Optional<GlobalInClusterIpPool>,
    pub classes: Cache<VirtualMachineClass>,
    pub images: Cache<VirtualMachineImage>,
    /// The zones of each namespace, if vSphere has zones.
    pub zones: Optional<Zone>,
    /// Cluster-scoped zones with the folder and resource pool of each namespace, if vSphere has zones.
    pub availability_zones: Optional<AvailabilityZone>,
}

impl Caches {
    /// Starts the watches. If the scope has a namespace, only objects in this namespace are watched; cluster-scoped kinds are
    /// always watched.
    pub fn watch(started: &Runtime, scope: Scope) -> Self {
        Self {
            clusters: watch(started, &scope),
            machines: watch(started, &scope),
            wcp_clusters: watch(started, &scope),
            wcp_machines: watch(started, &scope),
            accounts: watch(started, &scope),
            templates: watch(started, &scope),
            vms: watch(started, &scope),
            policies: watch(started, &scope),
            services: watch(started, &scope),
            networks: watch(started, &scope),
            address_claims: watch(started, &scope),
            addresses: watch(started, &scope),
            pools: watch_optional(started, within(started, &scope)),
            global_pools: watch_optional(started, Api::all(started.client.clone())),
            classes: watch::objects(started, Api::all(started.client.clone())),
            images: watch::objects(started, Api::all(started.client.clone())),
            zones: watch_optional(started, within(started, &scope)),
            availability_zones: watch_optional(started, Api::all(started.client.clone())),
            scope,
        }
    }
}

/// Starts the watch for one namespaced kind.
fn watch<K>(started: &Runtime, scope: &Scope) -> Cache<K>
where
    K: Watchable + Resource<Scope = NamespaceResourceScope>,
{
    watch::objects(started, within(started, scope))
}

fn within<K>(started: &Runtime, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match &scope.namespace {
        Some(namespace) => Api::namespaced(started.client.clone(), namespace),
        None => Api::all(started.client.clone()),
    }
}
