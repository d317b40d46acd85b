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
