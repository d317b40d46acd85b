//! The simulated vSphere site: a vCenter, guests that boot, and network and storage providers.
//!
//! Controllers use the same interfaces as on a real site: the vCenter API, the provider objects, and the API servers in
//! the guests. The simulator doesn't call controllers. The only controller detail it depends on is the release label
//! that gcm sets on nodes.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod addresses;
mod boot_image;
mod error;
pub mod guest;
mod kubeadm_images;
pub mod network;
mod objects;
pub mod pattern;
pub mod providers;
pub mod qemu;
mod site;
pub mod storage;
pub mod tools;
pub mod vcsim;

pub use boot_image::{BootImage, ImageError};
pub use error::Error;
pub use providers::SiteNetworks;
pub use site::SiteSimulation;
pub use vcsim::{NodeRuntime, Simulator, VcenterEndpoint, control, further_release, library, releases};
