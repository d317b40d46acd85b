//! The Guest Cluster Manager: the top layer.
//!
//! Reads TanzuKubernetesCluster, TanzuKubernetesRelease, OSImage, VirtualMachineImage. Writes the Cluster API
//! objects of a cluster, the releases that images offer, and the status of the cluster. Never touches
//! VirtualMachines or vCenter.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod admission;
pub mod cluster;
pub mod duration;
pub mod releases;
pub mod resolution;
pub mod version;
