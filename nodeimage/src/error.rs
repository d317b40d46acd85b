//! The error type for image builds.

use std::io;
use std::path::Path;

/// The reasons why a build fails. The messages say how to fix the cause where possible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation and the path, such as "read /path".
        what: String,
        /// The I/O error.
        source: io::Error,
    },
    /// This machine can't build images.
    #[error("this machine cannot build node images: {0}")]
    Host(String),
    /// The build request is invalid or not supported.
    #[error("{0}")]
    Request(String),
    /// A lock file is invalid.
    #[error("lock file {path}: {reason}")]
    Lock {
        /// The path to the lock file.
        path: String,
        /// The problem and how to fix it.
        reason: String,
    },
    /// A command failed, or its output is unusable.
    #[error("cannot {what}: {reason}")]
    Command {
        /// The command's purpose. It begins with a verb.
        what: String,
        /// The exit status and the last lines of output, or another cause.
        reason: String,
    },
    /// The node's programs could not be built.
    #[error(transparent)]
    Programs(#[from] plane::Error),
}

/// A result with this crate's error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds context to I/O errors.
pub(crate) trait IoContext<T> {
    /// Converts an I/O error into [`Error::Io`] with the operation and the path.
    fn doing(self, verb: &str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn doing(self, verb: &str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { what: format!("{verb} {}", path.display()), source })
    }
}
