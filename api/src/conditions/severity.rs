//! How grave a cause is, and the words for it that a condition carries.

/// Something is broken and does not heal by itself.
pub const ERROR: &str = "Error";
/// Something is wrong, and is being worked on or tolerated.
pub const WARNING: &str = "Warning";
/// Something has not happened yet.
pub const INFO: &str = "Info";

/// How grave a cause is, and so how much it explains; in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object waits for other objects, which know more.
    #[default]
    Waiting,
    /// Something has not happened yet, and takes its time.
    Info,
    /// Something is wrong, and is being worked on or tolerated.
    Warning,
    /// Something is broken and does not heal by itself.
    Error,
}

impl Severity {
    /// The severity that a condition carries as [`ERROR`], [`WARNING`] or [`INFO`]; none if it carries another word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            ERROR => Some(Self::Error),
            WARNING => Some(Self::Warning),
            INFO => Some(Self::Info),
            _ => None,
        }
    }

    /// Whether something went wrong, rather than takes its time.
    pub fn is_failing(self) -> bool {
        self >= Self::Warning
    }
}
