//! VI/JSON: `POST /sdk/vim25/{release}/{type}/{moId}/{method}`.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName};

use super::codec::{Codec, ResponseError, Service, WireKind, classify_fault_response, classify_status};
use super::encode::JsonObject;
use crate::http::{Outgoing, SESSION_HEADER};
use crate::{Fault, MoRef, Object, Value};

/// The characters that percent encoding keeps in a path segment. View IDs contain brackets, which are escaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The codec for one API release.
pub(crate) struct ViJson {
    pub release: String,
}

impl Codec for ViJson {
    fn kind(&self) -> WireKind {
        WireKind::ViJson
    }

    fn release(&self) -> &str {
        &self.release
    }

    fn encode(&self, target: &MoRef, method: &str, args: Option<&Object>, session: Option<&str>) -> Outgoing {
        let id = utf8_percent_encode(target.id(), SEGMENT);
        let service = match Service::of(target) {
            Service::Vim => "",
            Service::Pbm => "pbm/",
        };
        let path = format!("/sdk/vim25/{}/{service}{}/{id}/{method}", self.release, target.kind());
        // Serializing a tree of strings and numbers can't fail.
        let body = args.and_then(|args| serde_json::to_vec(&JsonObject(args)).ok()).unwrap_or_default();
        let mut headers = Vec::with_capacity(2);
        if !body.is_empty() {
            headers.push((CONTENT_TYPE, "application/json".to_owned()));
        }
        if let Some(token) = session {
            headers.push((HeaderName::from_static(SESSION_HEADER), token.to_owned()));
        }
        Outgoing { method: Method::POST, path, headers, body }
    }

    fn service_content(&self) -> Outgoing {
        let path = format!("/sdk/vim25/{}/ServiceInstance/ServiceInstance/content", self.release);
        Outgoing { method: Method::GET, path, headers: Vec::new(), body: Vec::new() }
    }

    fn decode(&self, status: u16, body: &[u8]) -> Result<Value, ResponseError> {
        decode(status, body)
    }

    fn opened(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        headers.get(SESSION_HEADER).and_then(|token| token.to_str().ok()).map(Arc::from)
    }

    fn token(&self, session: &Arc<str>) -> Arc<str> {
        session.clone()
    }
}

pub(crate) fn decode(status: u16, body: &[u8]) -> Result<Value, ResponseError> {
    if (200..300).contains(&status) {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        return serde_json::from_slice(body).map_err(|error| classify_unreadable(status, body, &error));
    }
    // A fault is a JSON object with a type. Any other body comes from a proxy or a server that is starting.
    match serde_json::from_slice::<Value>(body) {
        Ok(value @ Value::Object(_)) if !value.type_name().is_empty() => {
            Err(classify_fault_response(status, Fault::read(&value)))
        }
        _ => Err(classify_status(status)),
    }
}

/// Classifies invalid JSON. An HTML page with status 200 comes from a proxy, never from vCenter's API.
fn classify_unreadable(status: u16, body: &[u8], error: &serde_json::Error) -> ResponseError {
    if body.trim_ascii_start().starts_with(b"<") {
        ResponseError::Overloaded
    } else {
        ResponseError::Unexpected(format!(
            "HTTP status {status}, unreadable JSON at column {}",
            error.column()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_views_are_escaped_and_bodies_left_out() {
        let codec = ViJson { release: "8.0.3.0".into() };
        let out = codec.encode(&MoRef::new("ListView", "session[52aa]52bb"), "DestroyView", None, None);
        assert_eq!(out.path, "/sdk/vim25/8.0.3.0/ListView/session%5B52aa%5D52bb/DestroyView");
        assert!(out.body.is_empty() && out.headers.is_empty());
        let profiles = MoRef::new("PbmProfileProfileManager", "ProfileManager");
        let out = codec.encode(&profiles, "PbmQueryProfile", None, Some("token-1"));
        assert_eq!(
            out.path,
            "/sdk/vim25/8.0.3.0/pbm/PbmProfileProfileManager/ProfileManager/PbmQueryProfile"
        );
        assert_eq!(out.headers, [(HeaderName::from_static(SESSION_HEADER), "token-1".to_owned())]);
    }

    #[test]
    fn answers_are_distinguished() {
        let fault =
            br#"{"faultstring":"Cannot complete login","faultMessage":[],"_typeName":"InvalidLogin"}"#;
        let cases: &[(u16, &[u8], &str)] = &[
            (204, b"", "Ok(null)"),
            (200, br#""2026-01-01T00:00:00Z""#, r#"Ok("2026-01-01T00:00:00Z")"#),
            (200, b"<html>hello</html>", "Err(Overloaded)"),
            (200, b"{\"a\"", "Err(Unexpected(\"HTTP status 200, unreadable JSON at column 4\"))"),
            (500, fault, "Err(Fault(Cannot complete login (InvalidLogin)))"),
            (503, b"<html>upstream connect error</html>", "Err(Overloaded)"),
            (500, b"", "Err(Overloaded)"),
            (401, b"", "Err(NotAuthenticated)"),
            (401, br#"{"_typeName":"SomethingNew","faultstring":"no session"}"#, "Err(NotAuthenticated)"),
            (401, fault, "Err(Fault(Cannot complete login (InvalidLogin)))"),
            (404, b"404 page not found", "Err(NoSuchPath)"),
        ];
        for (status, body, expected) in cases {
            assert_eq!(format!("{:?}", decode(*status, body)), *expected, "{status}");
        }
    }

    #[test]
    fn boxes_and_references_are_opened() {
        let cases = [
            (r#"{"_typeName":"string","_value":"x"}"#, Value::from("x")),
            (r#"{"_value":[1,2],"_typeName":"ArrayOfInt"}"#, Value::from(vec![1, 2])),
            (
                r#"{"value":"vm-1","type":"VirtualMachine","_typeName":"ManagedObjectReference"}"#,
                MoRef::vm("vm-1").into(),
            ),
            (r#"{"type":"VirtualMachine","value":"vm-1"}"#, MoRef::vm("vm-1").into()),
            (
                r#"{"_typeName":"ManagedObjectReference","_value":{"type":"Task","value":"task-9"}}"#,
                MoRef::task("task-9").into(),
            ),
            (
                r#"{"_typeName":"ManagedObjectReference","_value":{"_typeName":"ManagedObjectReference","type":"Task","value":"task-9"}}"#,
                MoRef::task("task-9").into(),
            ),
            ("9223372036854775807", Value::Int(i64::MAX)),
        ];
        for (json, expected) in cases {
            assert_eq!(decode(200, json.as_bytes()).unwrap(), expected, "{json}");
        }
        let late = decode(
            200,
            br#"{"key":"k","value":{"_value":"v","_typeName":"string"},"_typeName":"OptionValue"}"#,
        );
        let late = late.unwrap();
        assert_eq!((late.type_name(), late.get("value").as_str()), ("OptionValue", Some("v")));
    }
}
