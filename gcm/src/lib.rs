//! The Guest Cluster Manager: the top layer.
//!
//! Reads TanzuKubernetesCluster, TanzuKubernetesRelease, OSImage and VirtualMachineImage. Writes the Cluster API
//! objects of a cluster, the releases that images carry, and the status of the cluster. Never touches
//! VirtualMachines or vCenter.
//!
//! | module | what is in it |
//! |---|---|
//! | [`cluster`] | the controller of TanzuKubernetesClusters: gather, plan, carry out, status; a folder for each aspect |
//! | [`addons`] | what guests need besides nodes: bundles of manifests, applied and kept in them |
//! | [`sync`] | what guests get of their namespace and their spec: storage classes, administrators, issuers |
//! | [`release`] | from node images to TanzuKubernetesReleases and OSImages; which release a cluster asks for, and how versions compare |
//! | [`spec`] | what the fields of a TanzuKubernetesCluster mean, and what a change of each does to nodes |
//! | [`admission`] | what a TanzuKubernetesCluster may ask for, and the defaults it gets |
//! | [`autoscaling`] | what a cluster autoscaler reads of pools whose size is left to it |
//! | [`render`] | the objects that a TanzuKubernetesCluster would have, for `layercake render` |
//! | [`webhook`] | admission and conversion over HTTPS |
//!
//! [`admission`], [`release::resolution`], [`release::version`] and [`release::query`] are pure, and `layercake lint` calls
//! them too. Generated objects are compared by content: templates are named after a hash of theirs, so that an upgrade of
//! this program replaces no machine.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![recursion_limit = "256"]

pub mod addons;
pub mod admission;
pub mod autoscaling;
pub mod cluster;
pub mod duration;
mod program;
pub mod release;
pub mod render;
pub mod spec;
pub mod sync;
#[cfg(test)]
mod testing;
pub mod webhook;

pub use program::main;
