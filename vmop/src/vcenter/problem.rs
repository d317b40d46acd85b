//! Why vCenter can't be used.

/// Why vCenter can't be used now: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    message: String,
    transient: bool,
    unwatched: bool,
}

impl Problem {
    /// A problem that somebody should know of.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false, unwatched: false }
    }

    /// A problem that is over in a moment: nobody needs to know.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: true, unwatched: false }
    }

    /// Whether it is over in a moment.
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// A failure of one call: when another would succeed, nobody tells.
    pub fn of_call(address: &str, error: &vsphere::Error) -> Self {
        Self { unwatched: true, ..Self::of(address, error) }
    }

    /// Whether nothing shows that it is over, so that somebody must look again.
    pub fn is_unwatched(&self) -> bool {
        self.unwatched
    }

    /// A failure of the vCenter at this address.
    pub fn of(address: &str, error: &vsphere::Error) -> Self {
        Self::new(format!("vCenter {address}: {error}. {}", error.advice()))
    }
}
