//! Why the site could not be started, or ended.

/// An error of the site.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulated vCenter's files could not be made, or it does not run.
    #[error(transparent)]
    Vcenter(#[from] crate::vcsim::Error),
    /// Real machines can't be had.
    #[error(transparent)]
    Qemu(#[from] crate::qemu::Error),
    /// No addresses are free.
    #[error(transparent)]
    Addresses(#[from] crate::addresses::Error),
}
