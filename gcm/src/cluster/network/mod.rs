//! The network of a cluster: address ranges, the control plane address, and the proxy.

pub mod cluster;
pub mod proxy;
pub mod virtual_ip;
