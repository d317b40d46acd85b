//! The components of a management cluster: their manifests, images and certificates, and the installation order.
//!
//! The crate doesn't perform I/O. The embedded plane runs the components as processes, and `layercake init` installs
//! them as Deployments.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod catalogue;
pub mod certificate;
pub mod config;
mod error;
pub mod guest_proxy;
pub mod manifest;
pub mod memory;
pub mod plan;
pub mod render;
pub mod settings;
pub mod upstream;

pub use error::{Error, Result};
