//! Stories about moves to another management cluster.

mod cluster;
mod cluster_id;
pub mod plain_cluster;
mod virtual_machines;
