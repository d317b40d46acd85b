//! The context that all WCPCluster reconciles share.

use std::sync::Arc;

use api::capw::{ProviderServiceAccount, WCPMachine};
use api::topology::{AvailabilityZone, Zone};
use api::vmop::VirtualMachine;
use kit::apply::Api;
use kit::events::Events;
use kit::index::Index;

use super::occupied::Occupied;
use crate::caches::Caches;
use crate::network::NetworkFlags;
use crate::virtual_router::Draws;

/// The caches, clients and settings that a reconcile uses.
pub struct Context {
    pub(super) caches: Arc<Caches>,
    pub(super) machines: Index<WCPMachine>,
    /// VirtualMachines by Cluster.
    pub(super) vms: Index<VirtualMachine>,
    /// ProviderServiceAccounts by WCPCluster.
    pub(super) accounts: Index<ProviderServiceAccount>,
    pub(super) zones: Index<Zone>,
    /// AvailabilityZones by namespace.
    pub(super) availability_zones: Index<AvailabilityZone>,
    /// The network settings for new clusters.
    pub(super) network: NetworkFlags,
    /// The virtual router numbers that this process chose.
    pub(super) draws: Draws,
    /// The claimed addresses at which another machine answered before the cluster had nodes.
    pub(super) occupied: Occupied,
    pub(super) api: Api,
    pub(super) events: Events,
}
