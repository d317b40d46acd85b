//! The context that all account reconciles share.

use std::sync::Arc;

use kit::apply::Api;
use kit::events::Events;

use crate::caches::Caches;

/// The caches and clients that a reconcile uses.
pub struct Context {
    pub(super) caches: Arc<Caches>,
    pub(super) api: Api,
    pub(super) events: Events,
}
