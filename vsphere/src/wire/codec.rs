//! The codec interface: encodes a call as an HTTP request, and decodes an HTTP response into a [`Value`] or a
//! [`Refusal`].

use std::sync::Arc;

use reqwest::header::HeaderMap;

use crate::http::Outgoing;
use crate::{Error, Fault, Kind, MoRef, Object, Value};

/// A protocol that carries the VIM API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// JSON, since vCenter 8.0 U1.
    ViJson,
    /// SOAP, which all releases support.
    Soap,
}

/// The vCenter services that share one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The VIM API.
    Vim,
    /// The storage policy API.
    Pbm,
}

impl Service {
    /// Returns the service of an object, based on its type name.
    pub fn of(target: &MoRef) -> Self {
        if target.kind().starts_with("Pbm") { Self::Pbm } else { Self::Vim }
    }
}

/// Classifies a fault. Status 401 means that the session is unknown, whatever the fault's type, unless the login
/// itself was refused.
pub(crate) fn fault_refusal(status: u16, fault: Fault) -> Refusal {
    if status == 401 && *Error::from_fault("", fault.clone()).kind() != Kind::InvalidLogin {
        Refusal::NotAuthenticated
    } else {
        Refusal::Fault(fault)
    }
}

/// The reasons why a response doesn't contain a value.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// vCenter reported a fault.
    Fault(Fault),
    /// The session is unknown. A proxy may report this without a fault.
    NotAuthenticated,
    /// vCenter is overloaded or starting, or a proxy responded instead of vCenter.
    Overloaded,
    /// The path doesn't exist on the server.
    NoSuchPath,
    /// The response can't be parsed, or has an unexpected status. Contains the reason.
    Unexpected(String),
}

/// Encodes calls and decodes responses.
pub(crate) trait Codec: Send + Sync {
    fn kind(&self) -> WireKind;
    /// Returns the API release in use, such as `8.0.3.0`.
    fn release(&self) -> &str;
    /// Encodes a call. `session` is `None` before the login.
    fn encode(&self, target: &MoRef, method: &str, args: Option<&Object>, session: Option<&str>) -> Outgoing;
    /// Encodes the request for the `ServiceContent`, which doesn't require a session.
    fn service_content(&self) -> Outgoing;
    fn decode(&self, status: u16, body: &[u8]) -> Result<Value, Refusal>;
    /// Returns the session that a login opened, in the form that `encode` expects. `headers` are from the `Login`
    /// response.
    fn opened(&self, headers: &HeaderMap) -> Option<Arc<str>>;
    /// Converts a session into an Automation API token, for servers where one token opens both APIs (8.0 U3 and
    /// later).
    fn token(&self, session: &Arc<str>) -> Arc<str>;
}

/// Classifies a response without a readable fault by its HTTP status.
pub(crate) fn status_refusal(status: u16) -> Refusal {
    match status {
        401 => Refusal::NotAuthenticated,
        404 => Refusal::NoSuchPath,
        408 | 429 | 500 | 502..=504 => Refusal::Overloaded,
        _ => Refusal::Unexpected(format!("HTTP status {status} without a fault")),
    }
}

/// Converts a refusal into the error that callers see.
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
