//! The Guest Cluster Manager: the top layer.
//!
//! Reads TanzuKubernetesCluster, TanzuKubernetesRelease, OSImage and VirtualMachineImage. Writes the Cluster API
//! objects of a cluster, the releases that images carry, and the status of the cluster. Never touches
//! VirtualMachines or vCenter.
//!
//! [`admission`], [`resolution`] and [`version`] think and nothing else, so `layercake lint` asks them too.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![recursion_limit = "256"]

pub mod admission;
pub mod cluster;
pub mod duration;
mod program;
pub mod releases;
pub mod resolution;
#[cfg(test)]
mod testing;
pub mod version;
pub mod webhook;

pub use program::main;
