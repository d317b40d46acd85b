//! What every controller of the cake needs, once: one way to watch, to write, to retry, to elect a leader and
//! to be observed.
//!
//! The rules it keeps so that the controllers need not think of them:
//! - a cache holds no managed fields, and decides nothing before it is complete ([`watch`]);
//! - nobody acts on a cache that is older than his own last write ([`expectations`]);
//! - what is already so is not written again ([`apply`]);
//! - an object that fails is retried alone, ever more rarely ([`retry`], [`controller`]);
//! - one replica acts; it goes when it can't prove that it is the one ([`lease`], [`mod@run`]).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod apply;
pub mod client;
pub mod controller;
pub mod events;
pub mod expectations;
pub mod flags;
mod guarded;
pub mod index;
pub mod lease;
pub mod metrics;
pub mod optional;
pub mod retry;
pub mod run;
pub mod serve;
pub mod status;
pub mod telemetry;
pub mod watch;
pub mod webhook;

pub use controller::Controller;
pub use retry::{Disposition, Next, ReconcileError};
pub use run::{Runtime, run};
