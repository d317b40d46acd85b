//! Shared test code: a vcsim process, fake servers, an OpenID Connect provider, cert-manager, deadlines and process statistics.
//!
//! It doesn't depend on controllers or on `kit`, whose unit tests use it.
// Test code panics if a test can't continue.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod api_server;
pub mod cert_manager;
pub mod console_keys;
pub mod helm;
pub mod hostile_server;
pub mod issuer;
pub mod noting_server;
pub mod process;
pub mod proxied_registry;
pub mod tls;
pub mod vcsim;
pub mod wait;
