//! Moves of objects to another management cluster.

mod cluster;
pub mod plain_cluster;
mod virtual_machines;
