//! Why the simulated vCenter's files could not be made, or made no sense.

/// Why the simulated vCenter could not be set up.
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
}
