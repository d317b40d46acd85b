//! Resolves, locks, downloads and unpacks Debian packages.

mod apt;
mod archive;
mod lock;

pub(crate) use apt::resolve;
pub(crate) use archive::{fetch, prepare_builder, unpack, write_archive};
pub use lock::{DebianPackage, Lock};
