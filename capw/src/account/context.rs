//! What reconciles of accounts work with.

use std::sync::Arc;

use kit::apply::Api;
use kit::events::Events;

use crate::caches::Caches;

/// What a reconcile works with.
pub struct Context {
    /// What is watched.
    pub(super) caches: Arc<Caches>,
    /// Writes to the API server.
    pub(super) api: Api,
    /// Publishes events.
    pub(super) events: Events,
}
