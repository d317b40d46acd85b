//! The client against a real vcsim process: what crosses the wire, how often, and what is survived.
//!
//! Skipped loudly where no vcsim is built.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod automation;
mod machines;
mod sim;
mod trouble;
