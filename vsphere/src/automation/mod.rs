//! The Automation API: content libraries and the deployment of their OVF items.

mod library;
mod ovf;

pub use library::{Library, LibraryItem};
pub use ovf::{Deploy, Provisioning};
