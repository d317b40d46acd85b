//! What can be wrong with the manifests of a component.

/// A failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A manifest that comes with this program is not what it should be.
    #[error("manifest {what}: {reason}")]
    Manifest {
        /// The file or object.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate of {what}: {source}")]
    Certificate {
        /// Whose certificate.
        what: String,
        /// Why.
        source: rcgen::Error,
    },
}

impl Error {
    pub(crate) fn manifest(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Manifest { what: what.into(), reason: reason.into() }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
