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

pub(crate) use choice::{choose, numbers, parse_offered_versions as offered_versions, policy_codec};
pub use codec::WireKind;
pub(crate) use codec::{Codec, ResponseError, Service, classify_status, convert_response_error};
#[cfg(test)]
pub(crate) use encode::Json;
pub(crate) use soap::Soap;
#[cfg(test)]
pub(crate) use soap::{reader::Reader, writer::write_element};
pub(crate) use vijson::ViJson;
