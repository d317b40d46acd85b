//! What capw watches.

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
use kit::optional::{Optional, optional};
use kit::watch::{self, Cache, Watchable};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};

use crate::scope::Scope;

/// Every kind that capw watches.
pub struct Caches {
    /// What of it this instance acts on.
    pub scope: Scope,
    /// Cluster API's Clusters.
    pub clusters: Cache<Cluster>,
    /// Cluster API's Machines.
    pub machines: Cache<Machine>,
    /// Infrastructure of clusters.
    pub wcp_clusters: Cache<WCPCluster>,
    /// Infrastructure of machines.
    pub wcp_machines: Cache<WCPMachine>,
    /// Rights of programs in guests.
    pub accounts: Cache<ProviderServiceAccount>,
    /// What machines are made from.
    pub templates: Cache<WCPMachineTemplate>,
    /// Virtual machines.
    pub vms: Cache<VirtualMachine>,
    /// Where virtual machines lie.
    pub policies: Cache<VirtualMachineSetResourcePolicy>,
    /// Load balancers.
    pub services: Cache<VirtualMachineService>,
    /// Networks of clusters.
    pub networks: Cache<VirtualNetwork>,
    /// Claims of addresses.
    pub address_claims: Cache<IpAddressClaim>,
    /// Addresses that IPAM providers gave.
    pub addresses: Cache<IpAddress>,
    /// The in-cluster IPAM provider's pools of single namespaces, where it is installed.
    pub pools: Optional<InClusterIpPool>,
    /// Its pools of all namespaces.
    pub global_pools: Optional<GlobalInClusterIpPool>,
    /// Sizes.
    pub classes: Cache<VirtualMachineClass>,
    /// Node images.
    pub images: Cache<VirtualMachineImage>,
    /// Zones that namespaces may use, where there are any.
    pub zones: Optional<Zone>,
    /// Zones with what each namespace has there, where there are any.
    pub availability_zones: Optional<AvailabilityZone>,
}

impl Caches {
    /// Starts a watch of every kind, in the namespaces that matter here.
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
            pools: optional(started, within(started, &scope)),
            global_pools: optional(started, Api::all(started.client.clone())),
            classes: watch::objects(started, Api::all(started.client.clone())),
            images: watch::objects(started, Api::all(started.client.clone())),
            zones: optional(started, within(started, &scope)),
            availability_zones: optional(started, Api::all(started.client.clone())),
            scope,
        }
    }
}

/// Starts a watch of one kind.
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
