//! Bounds on work that others cause: how many bytes it may make ([`Budget`]), how many may work at a time ([`Lane`]),
//! what of a stranger's text may be shown ([`printable`]), input from Secrets that no message can contain
//! ([`Confidential`]), YAML that is read within a budget ([`from_yaml`]), and JSON that is measured before it is read ([`JsonMeter`]).
//!
//! Knows neither Kubernetes nor vCenter, and has no clock: whoever starts the work stops its budget when time is up.
//! `kit::bounded::compute` puts the parts together.
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
pub use places::Places;
pub use text::printable;
pub use yaml::{NODE_BYTES, YamlError, from_yaml, from_yaml_documents};
