//! The tokens of an open session.

use std::sync::Arc;

/// The tokens of an open session.
#[derive(Clone)]
pub(crate) struct SessionTokens {
    /// The VIM API session, in the codec's format.
    pub session: Arc<str>,
    /// The Automation API token. `None` if the Automation API needs a separate token that hasn't been fetched yet.
    pub automation: Option<Arc<str>>,
    /// True if the Automation API uses a separate session.
    pub apart: bool,
}
