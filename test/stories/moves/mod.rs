//! Moves of objects to another management cluster.

mod cluster;
mod plain_cluster;
mod virtual_machines;
