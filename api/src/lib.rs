//! Kubernetes API types of all kinds that Layercake owns or reads, with conversions, names and condition types.
//!
//! This crate has no client, no async code and no clock. The controllers that act on these types are in `gcm`, `capw`
//! and `vmop`.
//!
//! Reading is lenient and writing is strict: a missing required field deserializes as its default, so that one
//! malformed object doesn't fail a whole list. The CRDs from [`crds`] make the API server reject such an object.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// Printer columns repeat `type_` and `json_path`.
#![allow(clippy::duplicated_attributes)]
#![recursion_limit = "256"]

pub mod capi;
pub mod capw;
pub mod cns;
pub mod condition_lists;
pub mod conditions;
mod conversion;
pub mod crds;
pub mod gcm;
mod generated;
pub mod ipam;
pub mod names;
pub mod net;
mod partial;
pub mod quantity;
pub mod rules;
pub mod topology;
pub mod vmop;

pub use conversion::Malformed;
pub use quantity::Quantity;
