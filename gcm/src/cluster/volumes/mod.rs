//! Further disks of nodes.

pub mod setup;
