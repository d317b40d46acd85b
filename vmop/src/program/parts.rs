//! The parts that the program's controllers share.

use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineSetResourcePolicy};
use kit::Runtime;
use tokio::sync::Notify;

use crate::caches::Caches;
use crate::enqueue::Enqueue;
use crate::image::SyncRequests;
use crate::templates::TemplateCache;
use crate::vcenter::Provider;

/// The parts that the controllers share.
#[derive(Clone)]
pub struct ProgramParts {
    pub runtime: Runtime,
    /// The watch caches.
    pub caches: Caches,
    /// The vCenter connection.
    pub provider: Arc<Provider>,
    /// Enqueues VirtualMachines.
    pub vms: Enqueue<VirtualMachine>,
    /// Enqueues resource policies.
    pub policies: Enqueue<VirtualMachineSetResourcePolicy>,
    pub templates: Arc<TemplateCache>,
    /// Requests image syncs.
    pub sync_requests: Arc<SyncRequests>,
    /// Notified when a golden template may have become unused.
    pub collect_templates: Arc<Notify>,
}
