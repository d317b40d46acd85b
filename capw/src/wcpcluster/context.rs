//! What a reconcile works with.

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

/// What a reconcile works with.
pub struct Context {
    /// What is watched.
    pub(super) caches: Arc<Caches>,
    /// WCPMachines by Cluster.
    pub(super) machines: Index<WCPMachine>,
    /// Virtual machines by Cluster.
    pub(super) vms: Index<VirtualMachine>,
    /// Accounts by WCPCluster.
    pub(super) accounts: Index<ProviderServiceAccount>,
    /// Zones by namespace.
    pub(super) zones: Index<Zone>,
    /// Zones with what each namespace has there, by namespace.
    pub(super) availability_zones: Index<AvailabilityZone>,
    /// What new clusters are connected to.
    pub(super) network: NetworkFlags,
    /// Which virtual router was drawn for whom.
    pub(super) draws: Draws,
    /// The addresses that answered before their clusters had nodes.
    pub(super) occupied: Occupied,
    /// Writes to the API server.
    pub(super) api: Api,
    /// Publishes events.
    pub(super) events: Events,
}
