//! What every protocol does: a call becomes an HTTP request, and an HTTP answer a [`Value`] or a [`Refusal`].

use std::sync::Arc;

use reqwest::header::HeaderMap;

use crate::http::Outgoing;
use crate::{Error, Fault, Kind, MoRef, Object, Value};

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
    /// The service that an object belongs to, which its type's name shows.
    pub fn of(target: &MoRef) -> Self {
        if target.kind().starts_with("Pbm") { Self::Pbm } else { Self::Vim }
    }
}

/// What a fault means that came with this status: 401 says that the session is unknown, whatever the fault is called.
pub(crate) fn fault_refusal(status: u16, fault: Fault) -> Refusal {
    if status == 401 && *Error::from_fault("", fault.clone()).kind() != Kind::InvalidLogin {
        Refusal::NotAuthenticated
    } else {
        Refusal::Fault(fault)
    }
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
    /// The release of the API that is spoken, such as `8.0.3.0`.
    fn release(&self) -> &str;
    /// One call in a session, or before there is one.
    fn encode(&self, target: &MoRef, method: &str, args: Option<&Object>, session: Option<&str>) -> Outgoing;
    /// Asks for the `ServiceContent`, which needs no session.
    fn service_content(&self) -> Outgoing;
    fn decode(&self, status: u16, body: &[u8]) -> Result<Value, Refusal>;
    /// The session that the answer of a `Login` opened, as `encode` wants it.
    fn opened(&self, headers: &HeaderMap) -> Option<Arc<str>>;
    /// The same session as the Automation API takes it, where one token opens both (8.0 U3 and later).
    fn token(&self, session: &Arc<str>) -> Arc<str>;
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

/// The error that a refused call ends with.
pub(crate) fn refused(method: &'static str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Fault(fault) => Error::from_fault(method, fault),
        Refusal::NotAuthenticated => {
            let fault =
                Fault { type_name: "NotAuthenticated".into(), message: String::new(), detail: Value::Null };
            Error::from_fault(method, fault)
        }
        Refusal::Overloaded => Error::new(method, Kind::Overloaded),
        Refusal::NoSuchPath => {
            Error::new(method, Kind::Unsupported { what: "the server has no such call".into() })
        }
        Refusal::Unexpected(cause) => Error::new(method, Kind::Unexpected { cause }),
    }
}
