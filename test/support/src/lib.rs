//! What the tests of several crates share: a vcsim process, an API server of one closure, and waiting with a deadline.
//!
//! It depends on no controller and not on `kit`, whose unit tests use it.
// A test that cannot go on fails where it stands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod api_server;
pub mod vcsim;
pub mod wait;
