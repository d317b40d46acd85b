//! The files in an OVA.

/// A file in an OVA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    /// Where its bytes begin in the OVA.
    pub offset: u64,
    /// How many there are.
    pub size: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// What to do about a file that is not as it was made.
pub const AGAIN: &str = "Copy or build it again";
