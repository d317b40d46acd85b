//! Decoders for vCenter responses, for programs that test the decoders with mutated or recorded responses.

use crate::automation::decode_answer;
use crate::wire::{Codec, ResponseError, Soap, ViJson, offered_versions};
use crate::{Fault, Value};

/// The HTTP statuses for a result and for a fault.
const STATUSES: [u16; 2] = [200, 500];
/// The release for which the codecs are created. Decoding doesn't depend on it.
const RELEASE: &str = "8.0.3.0";

/// A decoded response.
#[derive(Debug)]
pub enum Decoded {
    /// A result; null if the call doesn't return a value.
    Answer(Value),
    Fault(Fault),
    /// The VIM API versions that the server supports over SOAP.
    Versions(Vec<String>),
    /// An Automation API result.
    Json(serde_json::Value),
    /// The reason why the response can't be decoded.
    Unreadable(String),
}

/// Decodes a SOAP response as a result and as a fault, and discards the outcome.
pub fn decode_soap(body: &[u8]) {
    for status in STATUSES {
        let _ = read_soap(status, body);
    }
}

/// Decodes a VI/JSON response as a result and as a fault, and discards the outcome.
pub fn decode_vijson(body: &[u8]) {
    for status in STATUSES {
        let _ = read_vijson(status, body);
    }
}

/// Decodes a SOAP response with its HTTP status.
pub fn read_soap(status: u16, body: &[u8]) -> Decoded {
    convert_result(Soap { version: RELEASE.to_owned() }.decode(status, body))
}

/// Decodes a VI/JSON response with its HTTP status.
pub fn read_vijson(status: u16, body: &[u8]) -> Decoded {
    convert_result(ViJson { release: RELEASE.to_owned() }.decode(status, body))
}

/// Decodes the list of VIM API versions that a server supports over SOAP.
pub fn read_versions(body: &[u8]) -> Decoded {
    let offered = str::from_utf8(body).ok().and_then(offered_versions);
    offered.map_or_else(|| Decoded::Unreadable("it lists no versions".into()), Decoded::Versions)
}

/// Decodes the Automation API response to a request for `path`. The path determines the form.
pub fn read_automation(path: &str, status: u16, body: &[u8]) -> Decoded {
    match decode_answer(path, status, body) {
        Ok(value) => Decoded::Json(value),
        Err(error) => match error.fault() {
            Some(fault) => Decoded::Fault(fault.clone()),
            None => Decoded::Unreadable(error.to_string()),
        },
    }
}

fn convert_result(result: Result<Value, ResponseError>) -> Decoded {
    match result {
        Ok(value) => Decoded::Answer(value),
        Err(ResponseError::Fault(fault)) => Decoded::Fault(fault),
        Err(ResponseError::NotAuthenticated) => Decoded::Fault(Fault {
            type_name: "NotAuthenticated".into(),
            message: String::new(),
            detail: Value::Null,
        }),
        Err(ResponseError::Overloaded) => Decoded::Unreadable("it is no answer of vCenter".into()),
        Err(ResponseError::NoSuchPath) => Decoded::Unreadable("the path does not exist".into()),
        Err(ResponseError::Unexpected(cause)) => Decoded::Unreadable(cause),
    }
}
