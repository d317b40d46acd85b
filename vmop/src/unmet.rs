//! Unmet requirements, with the message for the object's condition.

/// A requirement that isn't met, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The condition's reason.
    pub reason: &'static str,
    /// The message for users, which names the object, the cause and the remedy.
    pub message: String,
    /// True if the requirement will be met without a change by the user.
    pub underway: bool,
    /// True if watches don't report when the requirement is met, so that the object is reconciled again after a while.
    pub unwatched: bool,
}

impl Unmet {
    /// Creates an unmet requirement that needs a change by a user or an administrator.
    pub fn wrong(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), underway: false, unwatched: false }
    }

    /// Creates an unmet requirement that will be met without a change by the user.
    pub fn underway(reason: &'static str, message: impl Into<String>) -> Self {
        Self { underway: true, ..Self::wrong(reason, message) }
    }

    /// Like [`Unmet::wrong`], for objects in vCenter, which aren't watched.
    pub fn in_vcenter(reason: &'static str, message: impl Into<String>) -> Self {
        Self { unwatched: true, ..Self::wrong(reason, message) }
    }
}

/// A met requirement's value, or the unmet requirement.
pub type Need<T> = Result<T, Unmet>;
