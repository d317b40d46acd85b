//! How people get into the nodes of a cluster.

pub mod gather;
pub mod objects;
