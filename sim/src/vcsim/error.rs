//! Why the simulated vCenter could not be set up, or ended.

use std::path::PathBuf;

/// Why the simulated vCenter could not be set up, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be written.
    #[error("cannot write the simulated vCenter's files: {0}")]
    Io(#[from] std::io::Error),
    /// A certificate could not be made.
    #[error("cannot make the simulated vCenter's certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The simulator answered something else than was asked for.
    #[error("the simulated vCenter came up wrong: {0}")]
    Ready(String),
    /// The simulated vCenter does not run.
    #[error("the simulated vCenter does not run: {why}; its log is {}", log.display())]
    Simulator {
        /// What happened.
        why: String,
        /// Where it logs.
        log: PathBuf,
    },
    /// Its process or folder could not be had.
    #[error(transparent)]
    Process(#[from] plane::Error),
}
