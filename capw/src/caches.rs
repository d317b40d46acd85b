//! What capw watches.

use api::capi::{Cluster, IpAddress, IpAddressClaim, Machine};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachine, WCPMachineTemplate};
use api::net::VirtualNetwork;
use api::topology::{AvailabilityZone, Zone};
use api::vmop::{
    VirtualMachine, VirtualMachineClass, VirtualMachineImage, VirtualMachineService,
    VirtualMachineSetResourcePolicy,
};
use kit::Runtime;
use kit::optional::{Optional, optional};
use kit::watch::{self, Cache, Watchable};
use kube::Api;

/// Every kind that capw watches.
pub struct Caches {
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
    /// Starts a watch of every kind.
    pub fn watch(started: &Runtime) -> Self {
        Self {
            clusters: watch(started),
            machines: watch(started),
            wcp_clusters: watch(started),
            wcp_machines: watch(started),
            accounts: watch(started),
            templates: watch(started),
            vms: watch(started),
            policies: watch(started),
            services: watch(started),
            networks: watch(started),
            address_claims: watch(started),
            addresses: watch(started),
            classes: watch(started),
            images: watch(started),
            zones: optional(started, Api::all(started.client.clone())),
            availability_zones: optional(started, Api::all(started.client.clone())),
        }
    }
}

/// Starts a watch of one kind.
fn watch<K: Watchable>(started: &Runtime) -> Cache<K> {
    watch::objects(started, Api::all(started.client.clone()))
}
