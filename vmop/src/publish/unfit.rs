//! Why a source or a target can't be used.

/// Why a source or a target can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The condition's reason.
    pub reason: &'static str,
    /// Which object, why, what to do.
    pub message: String,
}
