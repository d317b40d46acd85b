//! The simulated vSphere site: a vCenter, guests that really boot, and providers of networks and storage.
//!
//! Nothing in it knows our controllers. They meet it where they would meet the real thing: at vCenter's API, at the
//! objects of the providers, and at the API servers that the guests become.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod addresses;
pub mod balancer;
pub mod control;
mod error;
pub mod guest;
pub mod interface;
pub mod library;
pub mod network;
pub mod providers;
pub mod releases;
pub mod simulator;
mod site;
pub mod storage;
pub mod tools;
pub mod vcenter;

pub use error::Error;
pub use site::Site;
