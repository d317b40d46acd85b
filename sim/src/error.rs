//! Why the site could not be started, or ended.

use std::path::PathBuf;

/// An error of the site.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulated vCenter's files could not be made, or it came up wrong.
    #[error(transparent)]
    Vcenter(#[from] crate::vcsim::Error),
    /// The simulated vCenter does not run.
    #[error("the simulated vCenter does not run: {why}; its log is {}", log.display())]
    Simulator {
        /// What happened.
        why: String,
        /// Where it logs.
        log: PathBuf,
    },
    /// No addresses are free.
    #[error(transparent)]
    Addresses(#[from] crate::addresses::Error),
    /// A process or a folder could not be had.
    #[error(transparent)]
    Process(#[from] plane::Error),
}
