//! The error type for a vCenter that can't be used.

/// The reason why vCenter can't be used now, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    message: String,
    transient: bool,
    unwatched: bool,
}

impl Problem {
    /// Creates a problem that is reported to users.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false, unwatched: false }
    }

    /// Creates a problem that resolves itself within moments and isn't reported.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: true, unwatched: false }
    }

    /// Returns true if the problem resolves itself within moments.
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// Creates a problem with one call. Events don't report when the call would succeed.
    pub fn of_call(address: &str, error: &vsphere::Error) -> Self {
        Self { unwatched: true, ..Self::of(address, error) }
    }

    /// Returns true if events don't report the end of the problem, so that the caller must retry.
    pub fn is_unwatched(&self) -> bool {
        self.unwatched
    }

    /// Creates a problem with the vCenter at this address.
    pub fn of(address: &str, error: &vsphere::Error) -> Self {
        Self::new(format!("vCenter {address}: {error}. {}", error.advice()))
    }
}
