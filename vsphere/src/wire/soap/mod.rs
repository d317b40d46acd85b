//! SOAP: one envelope per call, sent as `POST /sdk`, or `POST /pbm` for storage policies.

mod fault;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, SET_COOKIE};

use crate::http::Outgoing;
use crate::wire::codec::{Codec, ResponseError, Service, WireKind};
use crate::{MoRef, Object, Value};

/// The session cookie's name.
const SESSION_COOKIE: &str = "vmware_soap_session";
const SOAP_ACTION: HeaderName = HeaderName::from_static("soapaction");
/// The storage policy API version, which is the first version with `PbmCheckRequirements`.
const PBM_VERSION: &str = "6.5";

/// The codec for one API version.
pub(crate) struct Soap {
    /// The version in the server's notation, such as `8.0.3.0`.
    pub version: String,
}

impl Codec for Soap {
    fn kind(&self) -> WireKind {
        WireKind::Soap
    }

    fn release(&self) -> &str {
        &self.version
    }

    fn encode(&self, target: &MoRef, method: &str, args: Option<&Object>, session: Option<&str>) -> Outgoing {
        let (path, namespace, version) = match Service::of(target) {
            Service::Vim => ("/sdk", "urn:vim25", self.version.as_str()),
            Service::Pbm => ("/pbm", "urn:pbm", PBM_VERSION),
        };
        // Services other than VIM identify the session by the session key in the envelope's header.
        let key = session.filter(|_| path != "/sdk").map(unquoted);
        let mut headers = Vec::with_capacity(3);
        headers.push((CONTENT_TYPE, "text/xml; charset=utf-8".to_owned()));
        headers.push((SOAP_ACTION, format!("\"{namespace}/{version}\"")));
        if let Some(session) = session {
            headers.push((COOKIE, format!("{SESSION_COOKIE}={session}")));
        }
        let body = writer::build_envelope(namespace, key, target, method, args).into_bytes();
        Outgoing { method: Method::POST, path: path.to_owned(), headers, body }
    }

    fn service_content(&self) -> Outgoing {
        let instance = MoRef::new("ServiceInstance", "ServiceInstance");
        self.encode(&instance, "RetrieveServiceContent", None, None)
    }

    fn decode(&self, status: u16, body: &[u8]) -> Result<Value, ResponseError> {
        fault::decode(status, body)
    }

    fn opened(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        headers.get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok()).find_map(|cookie| {
            let (name, value) = cookie.split(';').next()?.split_once('=')?;
            let value = value.trim();
            (name.trim() == SESSION_COOKIE && !unquoted(value).is_empty()).then(|| Arc::from(value))
        })
    }

    fn token(&self, session: &Arc<str>) -> Arc<str> {
        Arc::from(unquoted(session))
    }
}

/// Removes the quotes that vCenter puts around the cookie value. The quotes are not part of the session key.
fn unquoted(session: &str) -> &str {
    session.trim_matches('"')
}

#[cfg(test)]
mod codec_tests {
    use super::*;

    #[test]
    fn the_session_is_sent_as_it_came() {
        let codec = Soap { version: "8.0.3.0".into() };
        let mut headers = HeaderMap::new();
        headers.append(SET_COOKIE, "other=1; Path=/".parse().unwrap());
        headers
            .append(SET_COOKIE, "vmware_soap_session=\"52ab\"; Path=/; HttpOnly; Secure;".parse().unwrap());
        let session = codec.opened(&headers).unwrap();
        assert_eq!((session.as_ref(), codec.token(&session).as_ref()), ("\"52ab\"", "52ab"));
        let out = codec.encode(&MoRef::vm("vm-1"), "PowerOffVM_Task", None, Some(&session));
        let sent: Vec<(&str, &str)> =
            out.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            sent,
            [
                ("content-type", "text/xml; charset=utf-8"),
                ("soapaction", "\"urn:vim25/8.0.3.0\""),
                ("cookie", "vmware_soap_session=\"52ab\""),
            ]
        );
        assert_eq!(out.path, "/sdk");
    }

    #[test]
    fn storage_policies_have_a_service_of_their_own() {
        let codec = Soap { version: "8.0.3.0".into() };
        let profiles = MoRef::new("PbmProfileProfileManager", "ProfileManager");
        let out = codec.encode(&profiles, "PbmQueryProfile", None, Some("\"52ab\""));
        assert_eq!(out.path, "/pbm");
        assert_eq!(out.headers[1].1, "\"urn:pbm/6.5\"");
        let body = String::from_utf8(out.body).unwrap();
        assert!(body.contains("<vcSessionCookie>52ab</vcSessionCookie>"), "{body}");
        assert!(body.contains("<PbmQueryProfile xmlns=\"urn:pbm\">"), "{body}");
    }
}
