#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod api_error;
pub mod apply;
mod boot_time;
pub mod bounded;
pub mod client;
pub mod controller;
pub mod diagnosis;
mod diagnostics;
pub mod events;
pub mod expectations;
pub mod flags;
mod guarded;
pub mod guest;
pub mod index;
mod leadership;
pub mod lease;
pub mod metrics;
mod moving;
pub mod objects;
pub mod optional;
mod pruned;
pub mod reconcile;
pub mod retry;
pub mod run;
pub mod runtime;
pub mod serve;
mod server;
pub mod share;
pub mod status;
pub mod telemetry;
mod tenure;
pub mod watch;
mod watchable;
pub mod webhook;

pub use controller::Controller;
pub use moving::is_moving;
pub use reconcile::Reconcile;
pub use retry::{Disposition, Next, ReconcileError};
pub use run::run;
pub use runtime::{NotLeader, Runtime};
pub use tenure::{Expired, Tenure};
