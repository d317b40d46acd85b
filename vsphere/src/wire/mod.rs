//! The protocols that carry the VIM API.
//!
//! A codec converts a call into an HTTP request and an HTTP response into a [`Value`](crate::Value). Codecs don't
//! perform I/O, so all protocols share the session, the concurrency limit, the retries and the tests.

mod choice;
mod codec;
mod decode;
mod encode;
mod soap;
mod vijson;

pub(crate) use choice::{choose, numbers, offered as offered_versions, policy_codec};
pub use codec::WireKind;
pub(crate) use codec::{Codec, Refusal, Service, refused, status_refusal};
#[cfg(test)]
pub(crate) use encode::Json;
pub(crate) use soap::Soap;
#[cfg(test)]
pub(crate) use soap::{reader::Reader, writer::element as write_element};
pub(crate) use vijson::ViJson;
