//! The codec interface: encodes a call as an HTTP request, and decodes an HTTP response into a [`Value`] or a
//! [`ResponseError`].

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
pub(crate) fn classify_fault_response(status: u16, fault: Fault) -> ResponseError {
    if status == 401 && *Error::from_fault("", fault.clone()).kind() != Kind::InvalidLogin {
        ResponseError::NotAuthenticated
    } else {
        ResponseError::Fault(fault)
    }
}

/// The reasons why a response doesn't contain a value.
#[derive(Debug)]
pub(crate) enum ResponseError {
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
    fn decode(&self, status: u16, body: &[u8]) -> Result<Value, ResponseError>;
    /// Returns the session that a login opened, in the form that `encode` expects. `headers` are from the `Login`
    /// response.
    fn opened(&self, headers: &HeaderMap) -> Option<Arc<str>>;
    /// Converts a session into an Automation API token, for servers where one token opens both APIs (8.0 U3 and
    /// later).
    fn token(&self, session: &Arc<str>) -> Arc<str>;
}

/// Classifies a response without a readable fault by its HTTP status.
pub(crate) fn classify_status(status: u16) -> ResponseError {
    match status {
        401 => ResponseError::NotAuthenticated,
        404 => ResponseError::NoSuchPath,
        408 | 429 | 500 | 502..=504 => ResponseError::Overloaded,
        _ => ResponseError::Unexpected(format!("HTTP status {status} without a fault")),
    }
}

/// Converts a refusal into the error that callers see.
pub(crate) fn convert_response_error(method: &'static str, refusal: ResponseError) -> Error {
    match refusal {
        ResponseError::Fault(fault) => Error::from_fault(method, fault),
        ResponseError::NotAuthenticated => {
            let fault =
                Fault { type_name: "NotAuthenticated".into(), message: String::new(), detail: Value::Null };
            Error::from_fault(method, fault)
        }
        ResponseError::Overloaded => Error::new(method, Kind::Overloaded),
        ResponseError::NoSuchPath => {
            Error::new(method, Kind::Unsupported { what: "the server has no such call".into() })
        }
        ResponseError::Unexpected(cause) => Error::new(method, Kind::Unexpected { cause }),
    }
}
