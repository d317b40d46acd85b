//! The error type for starting and running the simulated vCenter.

use std::path::PathBuf;

/// The reasons why the simulated vCenter can't be set up or has ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be written or read.
    #[error("cannot write the simulated vCenter's files: {0}")]
    Io(#[from] std::io::Error),
    /// A certificate could not be created.
    #[error("cannot make the simulated vCenter's certificate: {0}")]
    Certificate(#[from] pki::Error),
    /// The simulator's startup message is invalid or incomplete.
    #[error("the simulated vCenter came up wrong: {0}")]
    Ready(String),
    /// The process ended or wasn't ready in time.
    #[error("the simulated vCenter does not run: {why}; its log is {}", log.display())]
    Simulator {
        /// The cause, as a clause for the message.
        why: String,
        /// The path to the process's log.
        log: PathBuf,
    },
    /// The process could not be started or its folder could not be created.
    #[error(transparent)]
    Process(#[from] plane::Error),
}
