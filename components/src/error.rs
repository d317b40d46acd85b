//! Errors in component manifests and certificates.

/// A failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A manifest is invalid.
    #[error("manifest {what}: {reason}")]
    Manifest {
        /// The file or object.
        what: String,
        reason: String,
    },
    /// A certificate couldn't be generated.
    #[error("cannot make the certificate of {what}: {source}")]
    Certificate {
        /// The first name in the certificate.
        what: String,
        source: pki::Error,
    },
}

impl Error {
    pub(crate) fn manifest(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Manifest { what: what.into(), reason: reason.into() }
    }
}

/// A result with this crate's error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
