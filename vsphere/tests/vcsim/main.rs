//! Tests the client against a real vcsim process: the requests that it sends, their number, and failure handling.
//!
//! The tests are skipped with a message if vcsim isn't built.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod automation;
mod failures;
mod places;
mod uploads;
mod vm_changes;
mod vms;
