//! What reconciles of VirtualMachines work with.

use std::collections::HashSet;
use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineSetResourcePolicy};
use bounds::Lane;
use jiff::SignedDuration;
use kit::apply::Api;
use kit::events::Events;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

use super::power::guest_requests::GuestRequests;
use super::storage::promotions::Promotions;
use super::throttle::StatusThrottle;
use crate::caches::Caches;
use crate::data_sources::DataSourceWatches;
use crate::enqueue::Enqueue;
use crate::image::SyncRequests;
use crate::probe::Prober;
use crate::templates::TemplateCache;
use crate::vcenter::Provider;

/// How many VMs of one namespace are created at a time: bootstrap data is large, and vCenter takes no more calls at once.
pub const CREATE_CONCURRENCY: usize = 64;

/// What reconciles of VirtualMachines work with.
pub struct Context {
    /// Writes as this controller.
    pub api: Api,
    /// Events of this controller.
    pub events: Events,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// What is watched.
    pub caches: Caches,
    /// The readiness probes.
    pub prober: Prober<ObjectRef<VirtualMachine>>,
    /// Watches of Secrets and ConfigMaps that are not there, or not right, yet.
    pub data_sources: DataSourceWatches,
    /// The guests that were asked to shut down or to stand by.
    pub guest_requests: GuestRequests,
    /// The promotions of linked disks that were begun.
    pub promotions: Arc<Promotions>,
    /// Objects whose finalizer was removed and that are still in the cache, by UID.
    pub released: Mutex<HashSet<String>>,
    /// One slot for each VM that may be created at the same time.
    pub create_slots: Lane,
    /// How long after its power-on a guest may take to report on its bootstrap; `None` waits for ever.
    pub report_timeout: Option<SignedDuration>,
    /// Keeps early statuses rare.
    pub status_throttle: StatusThrottle,
    /// Enqueues resource policies whose folder or pool has vanished.
    pub policies: Enqueue<VirtualMachineSetResourcePolicy>,
    /// Requests for a sync of the content library, for images that are missing.
    pub sync_requests: Arc<SyncRequests>,
    /// The golden templates.
    pub templates: Arc<TemplateCache>,
}

/// One slot for each VM that may be created at the same time. Namespaces share them: one that holds its slots for long, as
/// vCenter is slow with its VMs, leaves half to the others.
pub fn create_slots() -> Lane {
    Lane::halved(2 * CREATE_CONCURRENCY)
}
