//! What a reconcile works with.

use std::sync::Arc;

use kit::apply::Api;
use kit::events::Events;

use crate::caches::Caches;
use crate::network::NetworkProvider;

/// What a reconcile works with.
pub struct Context {
    /// What is watched.
    pub(super) caches: Arc<Caches>,
    /// Who connects new clusters' machines to a network.
    pub(super) network: NetworkProvider,
    /// Writes to the API server.
    pub(super) api: Api,
    /// Publishes events.
    pub(super) events: Events,
}

#[cfg(test)]
impl Context {
    /// Returns a context with these caches and a client of a test's API server.
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
