//! The dependencies that all VirtualMachine reconciles share.

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

/// The maximum number of VMs per namespace that are created at the same time. Bootstrap data is large, and vCenter doesn't
/// process more calls concurrently.
pub const CREATE_CONCURRENCY: usize = 64;

/// The dependencies that all VirtualMachine reconciles share.
pub struct Context {
    /// The API client with this controller's field manager.
    pub api: Api,
    pub events: Events,
    /// The vCenter connection.
    pub provider: Arc<Provider>,
    /// The caches of all watched kinds.
    pub caches: Caches,
    pub prober: Prober<ObjectRef<VirtualMachine>>,
    /// Watches of Secrets and ConfigMaps that are missing or not valid yet.
    pub data_sources: DataSourceWatches,
    /// The guests that were asked to shut down or to stand by.
    pub guest_requests: GuestRequests,
    /// Promotions of linked disks that this process began.
    pub promotions: Arc<Promotions>,
    /// UIDs of VirtualMachines whose finalizer was removed and that are still in the cache.
    pub released: Mutex<HashSet<String>>,
    /// Slots for VMs that are created at the same time.
    pub create_slots: Lane,
    /// The maximum time between power-on and the guest's bootstrap report; `None` waits forever.
    pub report_timeout: Option<SignedDuration>,
    /// Limits early status writes.
    pub status_throttle: StatusThrottle,
    /// Enqueues resource policies whose folder or pool has vanished.
    pub policies: Enqueue<VirtualMachineSetResourcePolicy>,
    /// Requests a content library sync if an image is missing.
    pub sync_requests: Arc<SyncRequests>,
    /// The golden templates.
    pub templates: Arc<TemplateCache>,
}

/// Returns the slots for VMs that are created at the same time. Namespaces share the slots: a namespace that occupies its slots
/// for a long time, because vCenter is slow to create its VMs, leaves half of all slots to the other namespaces.
pub fn create_slots() -> Lane {
    Lane::halved(2 * CREATE_CONCURRENCY)
}
