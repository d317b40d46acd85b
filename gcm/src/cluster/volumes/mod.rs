//! Additional disks of nodes.

pub mod kind;
pub mod setup;
