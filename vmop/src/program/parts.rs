//! What the controllers of this program share.

use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineSetResourcePolicy};
use kit::Runtime;
use tokio::sync::Notify;

use crate::caches::Caches;
use crate::enqueue::Enqueue;
use crate::image::SyncRequests;
use crate::templates::TemplateCache;
use crate::vcenter::Provider;

/// What the controllers share.
#[derive(Clone)]
pub struct Parts {
    /// The running program.
    pub started: Runtime,
    /// What is watched.
    pub caches: Caches,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// Enqueues VirtualMachines.
    pub vms: Enqueue<VirtualMachine>,
    /// Enqueues resource policies.
    pub policies: Enqueue<VirtualMachineSetResourcePolicy>,
    /// The golden templates.
    pub templates: Arc<TemplateCache>,
    /// Asks for reads of the content libraries.
    pub sync_requests: Arc<SyncRequests>,
    /// Notified when a golden template may have become needless.
    pub collect_templates: Arc<Notify>,
}
