//! Objects go to another management cluster.

mod cluster;
mod plain_cluster;
mod virtual_machines;
