//! The simulated vSphere site: a vCenter, guests that really boot, and providers of networks and storage.
//!
//! The controllers meet it where they would meet the real thing: at vCenter's API, at the objects of the providers, and at the API
//! servers that the guests become. The simulator calls no controller. It knows one of their names: the label with the release that
//! gcm gives to nodes.

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
pub use site::Site;
pub use vcsim::{Nodes, Simulator, VcenterEndpoint, control, further_release, library, releases};
