//! Limits for work on untrusted input: byte budgets ([`Budget`]), concurrency limits ([`Lane`]), sanitized text for messages
//! ([`printable`]), input from Secrets that messages can't contain ([`Confidential`]), YAML parsing within a budget
//! ([`from_yaml`]), and JSON size estimates before decoding ([`JsonMeter`]).
//!
//! The crate doesn't depend on Kubernetes, vCenter or a clock: the caller that starts the work stops the work's budget when
//! the time is up. `kit::bounded::compute` combines the parts.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod budget;
mod confidential;
mod json;
mod lane;
mod places;
mod text;
mod yaml;

pub use budget::{Budget, Exceeded};
pub use confidential::Confidential;
pub use json::JsonMeter;
pub use lane::{Lane, Turn};
pub use places::{Granted, PermitQueue, Ticket};
pub use text::printable;
pub use yaml::{NODE_BYTES, YamlError, from_yaml, from_yaml_documents};
