//! The context that all WCPMachine reconciles share.

use std::sync::Arc;

use kit::apply::Api;
use kit::events::Events;

use crate::caches::Caches;
use crate::network::NetworkProvider;

/// The caches, clients and settings that a reconcile uses.
pub struct Context {
    pub(super) caches: Arc<Caches>,
    /// The network provider for new clusters.
    pub(super) network: NetworkProvider,
    pub(super) api: Api,
    pub(super) events: Events,
}

#[cfg(test)]
impl Context {
    /// Returns a context with these caches and a client for a fake API server.
    pub(super) fn detached(caches: Caches, client: kube::Client) -> Self {
        let started = kit::Runtime::detached(client);
        Self {
            caches: Arc::new(caches),
            network: NetworkProvider::Nsx,
            api: Api::new(&started, "test"),
            events: Events::new(&started, "test"),
        }
    }
}
