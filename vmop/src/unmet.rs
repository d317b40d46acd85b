//! What something needs and does not have yet, in words for its condition.

/// Something that is missing, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The condition's reason.
    pub reason: &'static str,
    /// Which object, why, what to do.
    pub message: String,
    /// Nothing is wrong; it only takes time.
    pub underway: bool,
    /// No watch shows when it is met, so it is looked at again after a while.
    pub unwatched: bool,
}

impl Unmet {
    /// Something is wrong, and somebody must act.
    pub fn wrong(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), underway: false, unwatched: false }
    }

    /// Something is on its way.
    pub fn underway(reason: &'static str, message: impl Into<String>) -> Self {
        Self { underway: true, ..Self::wrong(reason, message) }
    }

    /// As [`Unmet::wrong`], of something that lies in vCenter and is not watched.
    pub fn in_vcenter(reason: &'static str, message: impl Into<String>) -> Self {
        Self { unwatched: true, ..Self::wrong(reason, message) }
    }
}

/// A need: met with what it yields, or not.
pub type Need<T> = Result<T, Unmet>;
