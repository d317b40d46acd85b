//! Parses the verb, resource and name of an API server request.

use std::fmt;

use http::Method;
use http::request::Parts;
use serde_json::Value;

/// Resources that don't hold object state: events, leases, token reviews and access reviews.
const NOT_STATE: [&str; 5] =
    ["events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"];

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    pub verb: Verb,
    /// The plural with the subresource, such as `virtualmachines/status`.
    pub resource: String,
    /// The object's name. Empty for collections.
    pub name: String,
}

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    /// A watch.
    Watch,
    Write(&'static str),
    /// Requests without an object, and requests for [`NOT_STATE`] resources.
    Other,
}

impl ApiCall {
    /// Parses method, path and query. A created object's name comes from the body.
    pub fn from_request(parts: &Parts, body: &[u8]) -> Self {
        let (resource, name) = parse_path(parts.uri.path());
        let query = parts.uri.query().unwrap_or_default();
        let no_state = resource.is_empty() || NOT_STATE.iter().any(|prefix| resource.starts_with(prefix));
        let verb = match parts.method {
            _ if no_state => Verb::Other,
            Method::GET if query.contains("watch=true") || query.contains("watch=1") => Verb::Watch,
            Method::GET if name.is_empty() => Verb::List,
            Method::GET => Verb::Get,
            Method::POST => Verb::Write("POST"),
            Method::PUT => Verb::Write("PUT"),
            Method::PATCH => Verb::Write("PATCH"),
            Method::DELETE => Verb::Write("DELETE"),
            _ => Verb::Other,
        };
        let name = if name.is_empty() && parts.method == Method::POST { name_in(body) } else { name };
        Self { verb, resource, name }
    }

    /// Returns true if the request changes an object's state.
    pub fn is_write(&self) -> bool {
        matches!(self.verb, Verb::Write(_))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Write(method) => method,
            Self::Other => "OTHER",
        })
    }
}

/// Splits `/api/v1/…` or `/apis/GROUP/VERSION/…` into resource (with subresource) and name.
fn parse_path(path: &str) -> (String, String) {
    let mut parts = path.trim_matches('/').split('/');
    let versioned = match parts.next() {
        Some("api") => parts.next().is_some(),
        Some("apis") => parts.next().is_some() && parts.next().is_some(),
        _ => false,
    };
    let rest: Vec<_> = if versioned { parts.collect() } else { Vec::new() };
    let rest = match rest.as_slice() {
        ["namespaces", _, inside @ ..] if !inside.is_empty() => inside,
        all => all,
    };
    match rest {
        [resource, name, subresource, ..] => (format!("{resource}/{subresource}"), (*name).to_owned()),
        [resource, name] => ((*resource).to_owned(), (*name).to_owned()),
        [resource] => ((*resource).to_owned(), String::new()),
        [] => (String::new(), String::new()),
    }
}

fn name_in(body: &[u8]) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str, body: &str) -> String {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let ApiCall { verb, resource, name } = ApiCall::from_request(&parts, body.as_bytes());
        format!("{verb} {resource} {name}")
    }

    #[test]
    fn a_path_has_verb_resource_and_name() {
        let vms = "/apis/vmoperator.vmware.com/v1alpha1/namespaces/n/virtualmachines";
        assert_eq!(
            call("PATCH", &format!("{vms}/a/status?fieldManager=x"), ""),
            "PATCH virtualmachines/status a"
        );
        assert_eq!(call("POST", vms, r#"{"metadata":{"name":"b"}}"#), "POST virtualmachines b");
        assert_eq!(
            call("GET", "/apis/vmoperator.vmware.com/v1alpha1/virtualmachines?limit=500", ""),
            "LIST virtualmachines "
        );
        assert_eq!(call("GET", "/api/v1/secrets?watch=true", ""), "WATCH secrets ");
        assert_eq!(call("GET", "/api/v1/namespaces/n", ""), "GET namespaces n");
        assert_eq!(call("GET", "/api/v1/namespaces", ""), "LIST namespaces ");
        assert_eq!(
            call("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/vmop", ""),
            "OTHER leases vmop"
        );
        assert_eq!(call("GET", "/version", ""), "OTHER  ");
    }
}
