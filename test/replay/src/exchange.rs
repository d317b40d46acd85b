//! A request and its response.

use serde::{Deserialize, Serialize};
use vsphere::untrusted::{self, Decoded};

/// A request and its response, in the wire check's format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The HTTP method in upper case.
    pub method: String,
    /// The path with its query, without the host.
    pub path: String,
    /// The headers that identify the call.
    #[serde(default)]
    pub headers: Headers,
    /// The request body.
    #[serde(default)]
    pub request: String,
    /// The response's HTTP status.
    pub status: u16,
    /// The response body.
    #[serde(default)]
    pub answer: String,
}

/// The request headers that identify the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    /// The API release, such as `"urn:vim25/8.0.3.0"`.
    #[serde(rename = "SOAPAction", default, skip_serializing_if = "String::is_empty")]
    pub soap_action: String,
}

/// The wire protocol of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    /// The VIM API or the storage policy API over SOAP.
    Soap,
    /// The API versions that a server supports over SOAP.
    Versions,
    /// The VIM API or the storage policy API over VI/JSON.
    ViJson,
    /// The Automation API.
    Automation,
}

impl Exchange {
    /// Returns the wire protocol, or `None` if the request isn't a vCenter call.
    pub fn wire(&self) -> Option<Wire> {
        let path = self.path.split('?').next().unwrap_or_default();
        match path {
            "/sdk" | "/pbm" | "/pbm/sdk" => Some(Wire::Soap),
            "/sdk/vimServiceVersions.xml" => Some(Wire::Versions),
            _ if path.starts_with("/sdk/vim25/") => Some(Wire::ViJson),
            _ if path.starts_with("/api/") || path.starts_with("/rest/") => Some(Wire::Automation),
            _ => None,
        }
    }

    /// Decodes the response with the client's decoder for its wire protocol.
    pub fn decode(&self) -> Option<Decoded> {
        let body = self.answer.as_bytes();
        Some(match self.wire()? {
            Wire::Soap => untrusted::read_soap(self.status, body),
            Wire::Versions => untrusted::read_versions(body),
            Wire::ViJson => untrusted::read_vijson(self.status, body),
            Wire::Automation => untrusted::read_automation(&self.path, self.status, body),
        })
    }

    /// Returns the call's name: the method in the SOAP envelope, or the last path segment.
    pub fn call(&self) -> &str {
        if self.wire() == Some(Wire::Soap) {
            return method_in(&self.request).unwrap_or("unknown");
        }
        self.path.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default()
    }

    /// Returns the VIM API release of the exchange, such as `8.0.2.0`.
    pub fn release(&self) -> Option<&str> {
        let action = self.headers.soap_action.trim_matches('"');
        let spoken = action.strip_prefix("urn:vim25/").filter(|release| !release.is_empty());
        spoken.or_else(|| self.path.strip_prefix("/sdk/vim25/")?.split('/').next())
    }
}

/// Returns the first element's name in the envelope's body.
fn method_in(envelope: &str) -> Option<&str> {
    let body = envelope.find(":Body").or_else(|| envelope.find("<Body"))?;
    let inside = &envelope[body..];
    let inside = inside[inside.find('>')? + 1..].trim_start();
    let name =
        inside.strip_prefix('<')?.split(|end: char| end.is_whitespace() || "/>".contains(end)).next()?;
    name.rsplit(':').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_on_every_wire() {
        let soap =
            |request: &str| Exchange { path: "/sdk".into(), request: request.into(), ..Exchange::default() };
        let bare = soap(r#"<e:Envelope><e:Body><Login xmlns="urn:vim25"/></e:Body></e:Envelope>"#);
        let prefixed = soap("<e:Envelope><e:Header/>\n <e:Body>\n <n1:Logout x=\"y\">");
        assert_eq!((bare.call(), prefixed.call(), soap("").call()), ("Login", "Logout", "unknown"));
        let path = |path: &str| Exchange { path: path.into(), ..Exchange::default() };
        let json = path("/sdk/vim25/8.0.3.0/Folder/group-d1/CreateFolder");
        assert_eq!(
            (json.call(), json.release(), json.wire()),
            ("CreateFolder", Some("8.0.3.0"), Some(Wire::ViJson))
        );
        assert_eq!(path("/session/1/element").wire(), None);
    }
}
