//! The reason why a source or target can't be used.

/// The reason why a source or target can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub reason: &'static str,
    /// The message for users, which names the object, the cause and the remedy.
    pub message: String,
}
