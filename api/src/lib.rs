//! Every kind Layercake owns or reads: types, conversions, names and condition vocabularies.
//!
//! Nothing here talks to anybody: no client, no async, no clock. What a program *does* with these
//! types belongs to `gcm`, `capw` and `vmop`; what the types *mean* stands once, here.
//!
//! Reading is lenient and writing is strict: a missing required field reads as its default, because
//! one malformed object must not blind a program to all the others, while the CRDs made by
//! [`crds`] refuse it at the API server.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
// Printer columns repeat `type_` and `json_path` by nature.
#![allow(clippy::duplicated_attributes)]
#![recursion_limit = "256"]

pub mod capi;
pub mod capw;
pub mod cns;
pub mod conditions;
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

pub use quantity::Quantity;
