//! Severities of causes, and the words for them in conditions.

/// An error that doesn't resolve itself.
pub const ERROR: &str = "Error";
/// A problem that is being resolved or is tolerated.
pub const WARNING: &str = "Warning";
/// Progress that is still incomplete.
pub const INFO: &str = "Info";

/// The severity of a cause, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object waits for other objects, which report the cause.
    #[default]
    Waiting,
    /// Progress that is still incomplete.
    Info,
    /// A problem that is being resolved or is tolerated.
    Warning,
    /// An error that doesn't resolve itself.
    Error,
}

impl Severity {
    /// Parses [`ERROR`], [`WARNING`] or [`INFO`]. Returns `None` for other words.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            ERROR => Some(Self::Error),
            WARNING => Some(Self::Warning),
            INFO => Some(Self::Info),
            _ => None,
        }
    }

    /// Returns true if the severity means a failure, not just slow progress.
    pub fn is_failing(self) -> bool {
        self >= Self::Warning
    }
}
