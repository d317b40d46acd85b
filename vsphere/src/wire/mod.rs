//! The protocols that carry the VIM API.
//!
//! A codec turns one call into an HTTP request and an HTTP answer into a [`Value`]. It does no I/O,
//! so the session, the gate, the retries and the tests are the same for every protocol.

mod decode;
mod encode;
mod vijson;

pub(crate) use vijson::ViJson;

use crate::{Fault, MoRef, Object, Value};

/// A protocol that carries the VIM API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// JSON, from vCenter 8.0 U1 on.
    ViJson,
    /// SOAP, everywhere.
    Soap,
}

/// The services of a vCenter that share one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The VIM API itself.
    Vim,
    /// Storage policies.
    Pbm,
}

impl Service {
    /// The service that an object belongs to, which its type's name tells.
    pub fn of(target: &MoRef) -> Self {
        if target.kind().starts_with("Pbm") { Self::Pbm } else { Self::Vim }
    }
}

/// One call as an HTTP POST.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Path, escaped.
    pub path: String,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Why there is no value.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// vCenter itself says so.
    Fault(Fault),
    /// The session is unknown, which a proxy may say without a fault.
    NotAuthenticated,
    /// Something before vCenter answered, or vCenter is starting.
    Overloaded,
    /// There is no such path.
    NoSuchPath,
    /// It can't be read.
    Unexpected(String),
}

/// Turns calls into bytes and answers into values.
pub(crate) trait Codec: Send + Sync {
    fn kind(&self) -> WireKind;
    fn encode(&self, target: &MoRef, method: &str, args: Option<&Object>) -> Outgoing;
    fn decode(&self, status: u16, body: &[u8]) -> Result<Value, Refusal>;
}

/// What a status without a readable fault means.
pub(crate) fn status_refusal(status: u16) -> Refusal {
    match status {
        401 => Refusal::NotAuthenticated,
        404 => Refusal::NoSuchPath,
        408 | 429 | 500 | 502..=504 => Refusal::Overloaded,
        _ => Refusal::Unexpected(format!("HTTP status {status} without a fault")),
    }
}
