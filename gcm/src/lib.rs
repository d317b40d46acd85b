//! The Guest Cluster Manager (gcm): the top layer.
//!
//! Reads TanzuKubernetesCluster, TanzuKubernetesRelease, OSImage and VirtualMachineImage. Writes Cluster API objects,
//! releases that it derives from node images, and cluster status. Never touches VirtualMachines or vCenter.
//!
//! | module | contents |
//! |---|---|
//! | [`cluster`] | the TanzuKubernetesCluster controller: gather, plan, carry out, status; one folder per aspect |
//! | [`addons`] | add-ons of workload clusters: manifest bundles that gcm applies and restores |
//! | [`sync`] | settings that workload clusters get from their namespace and spec: storage classes, administrators, token issuers |
//! | [`release`] | TanzuKubernetesReleases and OSImages from node images; release resolution and version order |
//! | [`spec`] | the meaning of TanzuKubernetesCluster fields, and which changes replace nodes |
//! | [`admission`] | validation rules and defaults for TanzuKubernetesClusters |
//! | [`autoscaling`] | annotations that a cluster autoscaler reads from the pools that it scales |
//! | [`render`] | the objects that gcm would create for a TanzuKubernetesCluster, for `layercake render` |
//! | [`webhook`] | admission and conversion over HTTPS |
//!
//! [`admission`], [`release::resolution`], [`release::version`] and [`release::query`] are pure, and `layercake lint` also
//! calls them. Templates are named after a hash of their content, so upgrading gcm doesn't replace machines.
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

pub use program::{command, main};
