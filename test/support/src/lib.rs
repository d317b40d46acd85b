//! Shared parts of the tests of several crates: a vcsim process, an API server of one closure, keys for consoles,
//! an OpenID Connect provider, cert-manager, waiting with a deadline, and what a process has used.
//!
//! It depends on no controller and not on `kit`, whose unit tests use it.
// A test that cannot go on fails where it stands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod api_server;
pub mod cert_manager;
pub mod console_keys;
pub mod hostile_server;
pub mod issuer;
pub mod noting_server;
pub mod process;
pub mod proxied_registry;
pub mod vcsim;
pub mod wait;
