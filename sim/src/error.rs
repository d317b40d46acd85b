//! The error type of the site.

/// The reasons why a site doesn't start, or ends early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulated vCenter could not be set up, or its process ended.
    #[error(transparent)]
    Vcenter(#[from] crate::vcsim::Error),
    /// QEMU machines or their network could not be prepared.
    #[error(transparent)]
    Qemu(#[from] crate::qemu::Error),
    /// All address slices, or all addresses of this site's slice, are in use.
    #[error(transparent)]
    Addresses(#[from] crate::addresses::Error),
}
