//! What reconciles of VirtualMachines work with, in tests.

use std::sync::Arc;

use kit::Runtime;
use kit::apply::Api;
use kit::events::Events;
use parking_lot::Mutex;

use crate::caches::{Caches, ReplicaCaches};
use crate::data_sources::DataSourceWatches;
use crate::enqueue::Enqueue;
use crate::probe::Prober;
use crate::templates::TemplateCache;
use crate::vcenter::{Provider, VCenter};
use crate::virtualmachine::context::{Context, create_slots};
use crate::virtualmachine::power::guest_requests::GuestRequests;
use crate::virtualmachine::storage::promotions::Promotions;
use crate::virtualmachine::throttle::StatusThrottle;

/// A context with that vCenter, and with caches that nothing fills.
pub fn context(runtime: &Runtime, vcenter: &Arc<VCenter>) -> Context {
    let (vms, _) = Enqueue::new();
    Context {
        api: Api::new(runtime, "vmop/machine"),
        events: Events::new(runtime, "vmop-machine"),
        provider: Provider::to(vcenter),
        caches: Caches::start(runtime, &ReplicaCaches::start(runtime)),
        prober: Prober::new(Vec::new()).0,
        data_sources: DataSourceWatches::new(runtime.client.clone(), vms.clone()),
        promotions: Promotions::new(vms),
        guest_requests: GuestRequests::default(),
        released: Mutex::default(),
        create_slots: create_slots(),
        status_throttle: StatusThrottle::default(),
        policies: Enqueue::new().0,
        sync_requests: Arc::default(),
        templates: TemplateCache::new(Arc::new(|_: &str| {})).0,
    }
}
