//! The network of a cluster: the address ranges of its Cluster, the address of its control plane, and its proxy.

pub mod cluster;
pub mod proxy;
pub mod virtual_ip;
