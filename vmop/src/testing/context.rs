//! Contexts for VirtualMachine reconciles in tests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kit::Runtime;
use kit::apply::Api;
use kit::events::Events;
use kit::watch::Cache;
use kube::api::PartialObjectMeta;
use parking_lot::Mutex;
use serde_json::json;
use support::api_server::{refusal, server};

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

/// Returns a context with that vCenter and empty caches.
pub fn context(runtime: &Runtime, vcenter: &Arc<VCenter>) -> Context {
    let (vms, _) = Enqueue::new();
    Context {
        api: Api::new(runtime, "vmop/machine"),
        events: Events::new(runtime, "vmop-machine"),
        provider: Provider::to(vcenter),
        caches: Caches::start(runtime, ReplicaCaches::start(runtime)),
        prober: Prober::new(Vec::new()).0,
        data_sources: DataSourceWatches::new(runtime.client.clone(), vms.clone()),
        promotions: Promotions::new(vms),
        guest_requests: GuestRequests::default(),
        released: Mutex::default(),
        create_slots: create_slots(),
        report_timeout: None,
        status_throttle: StatusThrottle::default(),
        policies: Enqueue::new().0,
        sync_requests: Arc::default(),
        templates: TemplateCache::new(Arc::new(|_: &str| {}), Arc::new(|_: &str, _: &str| true)).0,
    }
}

/// Returns a runtime whose API server doesn't have objects.
pub fn empty_runtime() -> Runtime {
    Runtime::detached(server(|_| refusal(404, "NotFound")).0)
}

/// Allows the VMs in `namespace` to use all networks.
pub fn allow_all_networks(context: &mut Context, namespace: &str) {
    let annotations = json!({ "vmware-system-networks": "*" });
    let object: PartialObjectMeta<Namespace> =
        serde_json::from_value(json!({ "metadata": { "name": namespace, "annotations": annotations } }))
            .expect("a namespace");
    context.caches.shared.namespaces = Cache::filled([object]);
}
