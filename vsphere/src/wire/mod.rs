//! The protocols that carry the VIM API.
//!
//! A codec turns one call into an HTTP request and an HTTP answer into a [`Value`](crate::Value). It does no I/O,
//! so the session, the gate, the retries and the tests are the same for every protocol.

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
