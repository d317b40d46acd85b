//! What can go wrong while an image is built.

use std::io;
use std::path::Path;

/// A failure of the build, in words that let the user act.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be reached.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, as in "read /path".
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The machine cannot build images.
    #[error("this machine cannot build node images: {0}")]
    Host(String),
    /// No image can be made of what was asked for.
    #[error("{0}")]
    Request(String),
    /// A lock file is of no use.
    #[error("lock file {path}: {reason}")]
    Lock {
        /// The file.
        path: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A command failed.
    #[error("cannot {what}: {reason}")]
    Command {
        /// What it was run for.
        what: String,
        /// The end of its output.
        reason: String,
    },
    /// The programs of the node could not be built.
    #[error(transparent)]
    Programs(#[from] plane::Error),
}

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was tried where input or output failed.
pub(crate) trait Doing<T> {
    /// Adds what was tried and with which file.
    fn doing(self, verb: &str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, verb: &str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { what: format!("{verb} {}", path.display()), source })
    }
}
