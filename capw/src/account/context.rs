//! The dependencies of an account reconcile.

use std::sync::Arc;

use kit::apply::Api;
use kit::events::Events;

use crate::caches::Caches;

/// The dependencies of a reconcile.
pub struct Context {
    pub(super) caches: Arc<Caches>,
    pub(super) api: Api,
    pub(super) events: Events,
}
