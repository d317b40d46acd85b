//! The files in an OVA.

/// A file in an OVA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvaFile {
    pub name: String,
    /// The byte offset in the OVA.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 in hexadecimal.
    pub sha256: String,
}

/// The remedy for a damaged or truncated file.
pub const AGAIN: &str = "Copy or build it again";
