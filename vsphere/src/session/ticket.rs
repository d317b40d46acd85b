//! What opens vCenter.

use std::sync::Arc;

/// What opens vCenter.
#[derive(Clone)]
pub(crate) struct Ticket {
    /// The session of the VIM API, as the codec sends it.
    pub session: Arc<str>,
    /// The token of the Automation API; where it is another, it is fetched when first needed.
    pub automation: Option<Arc<str>>,
    /// Whether the Automation API has a session of its own.
    pub apart: bool,
}
