//! Why vCenter can't be used.

/// Why vCenter can't be used now: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    message: String,
    transient: bool,
}

impl Problem {
    /// A problem that somebody should know of.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false }
    }

    /// A problem that is over in a moment: nobody needs to be told.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: true }
    }

    /// Whether it is over in a moment.
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// A failure of the vCenter at this address.
    pub fn of(address: &str, error: &vsphere::Error) -> Self {
        Self::new(format!("vCenter {address}: {error}. {}", error.advice()))
    }
}
