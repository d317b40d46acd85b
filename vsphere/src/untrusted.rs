//! Decoders of vCenter's answers, for programs that feed them with answers of their own: mutated or recorded ones.

use crate::automation::decode_answer;
use crate::wire::{Codec, Refusal, Soap, ViJson, offered_versions};
use crate::{Fault, Value};

/// The status of an answer that carries a result, and of one that carries a fault.
const STATUSES: [u16; 2] = [200, 500];
/// The release by which the codecs are made; decoding does not depend on it.
const RELEASE: &str = "8.0.3.0";

/// What a decoder made of an answer.
#[derive(Debug)]
pub enum Decoded {
    /// A value; null where the call returns nothing.
    Answer(Value),
    /// A fault.
    Fault(Fault),
    /// The versions of the VIM API that the server speaks over SOAP.
    Versions(Vec<String>),
    /// A value of the Automation API.
    Json(serde_json::Value),
    /// Why the answer cannot be read.
    Unreadable(String),
}

/// Decodes an answer over SOAP.
pub fn decode_soap(body: &[u8]) {
    for status in STATUSES {
        let _ = read_soap(status, body);
    }
}

/// Decodes an answer over VI/JSON.
pub fn decode_vijson(body: &[u8]) {
    for status in STATUSES {
        let _ = read_vijson(status, body);
    }
}

/// Decodes an answer over SOAP with its status.
pub fn read_soap(status: u16, body: &[u8]) -> Decoded {
    decoded(Soap { version: RELEASE.to_owned() }.decode(status, body))
}

/// Decodes an answer over VI/JSON with its status.
pub fn read_vijson(status: u16, body: &[u8]) -> Decoded {
    decoded(ViJson { release: RELEASE.to_owned() }.decode(status, body))
}

/// Decodes the list of the versions that a server speaks over SOAP.
pub fn read_versions(body: &[u8]) -> Decoded {
    let offered = str::from_utf8(body).ok().and_then(offered_versions);
    offered.map_or_else(|| Decoded::Unreadable("it lists no versions".into()), Decoded::Versions)
}

/// Decodes an answer of the Automation API; its form follows from the path of the request.
pub fn read_automation(path: &str, status: u16, body: &[u8]) -> Decoded {
    match decode_answer(path, status, body) {
        Ok(value) => Decoded::Json(value),
        Err(error) => match error.fault() {
            Some(fault) => Decoded::Fault(fault.clone()),
            None => Decoded::Unreadable(error.to_string()),
        },
    }
}

fn decoded(result: Result<Value, Refusal>) -> Decoded {
    match result {
        Ok(value) => Decoded::Answer(value),
        Err(Refusal::Fault(fault)) => Decoded::Fault(fault),
        Err(Refusal::NotAuthenticated) => Decoded::Fault(Fault {
            type_name: "NotAuthenticated".into(),
            message: String::new(),
            detail: Value::Null,
        }),
        Err(Refusal::Overloaded) => Decoded::Unreadable("it is no answer of vCenter".into()),
        Err(Refusal::NoSuchPath) => Decoded::Unreadable("the path does not exist".into()),
        Err(Refusal::Unexpected(cause)) => Decoded::Unreadable(cause),
    }
}
