//! Records requests and responses without names, addresses or secrets.
//!
//! A string is kept only if its position shows that it belongs to the API, such as a type name, a property or a state,
//! or if it is a number, a boolean, a timestamp or a managed object ID. All other strings are replaced. Equal strings
//! get the same stand-in, so readers can still correlate objects.

mod json;
mod keep;
mod stand_ins;
mod xml;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::{Request, header};
use serde::Serialize;

use stand_ins::StandIns;

/// The maximum size of the recorded exchanges until they are taken, in bytes.
const LONGEST: usize = 256 << 20;
/// The minimum length of a forbidden secret in bytes. Shorter strings could occur in any word.
const SHORTEST_SECRET: usize = 4;

/// Records exchanges if enabled. Clones share one recording.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Mutex<Kept>>>);

#[derive(Default)]
struct Kept {
    exchanges: Vec<RecordedExchange>,
    bytes: usize,
    left_out: usize,
    stand_ins: StandIns,
    /// Strings that must not occur anywhere in an exchange.
    secrets: Vec<String>,
}

/// A request and its response, without names, addresses or secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedExchange {
    /// The HTTP method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The recorded request headers.
    pub headers: RecordedHeaders,
    /// The request body.
    pub request: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// The response body.
    pub answer: String,
}

/// The request headers that are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedHeaders {
    /// The `SOAPAction` header, which names the API version of a SOAP call.
    #[serde(rename = "SOAPAction", skip_serializing_if = "Option::is_none")]
    pub soap_action: Option<String>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Recorder" } else { "no Recorder" })
    }
}

impl Recorder {
    /// Returns an enabled recorder.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns true if the recorder is enabled.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Omits future exchanges that contain this string, even where the string looks like an API word. Strings under
    /// four bytes are ignored.
    pub fn forbid(&self, secret: &str) {
        if let Some(kept) = &self.0
            && secret.len() >= SHORTEST_SECRET
        {
            let mut kept = kept.lock();
            if !kept.secrets.iter().any(|known| known == secret) {
                kept.secrets.push(secret.to_owned());
            }
        }
    }

    /// Takes the recorded exchanges, oldest first, and the number of omitted exchanges. Resets both.
    pub fn take(&self) -> (Vec<RecordedExchange>, usize) {
        let Some(kept) = &self.0 else { return (Vec::new(), 0) };
        let mut kept = kept.lock();
        kept.bytes = 0;
        (std::mem::take(&mut kept.exchanges), std::mem::take(&mut kept.left_out))
    }

    /// Records an exchange with a vCenter API. Other paths, such as file transfers, are ignored.
    pub(crate) fn keep(&self, request: &Request, status: u16, answer: &[u8]) {
        let Some(kept) = &self.0 else { return };
        let path = match request.url().query() {
            Some(query) => format!("{}?{query}", request.url().path()),
            None => request.url().path().to_owned(),
        };
        let apis = ["/sdk", "/pbm", "/api/", "/rest/"];
        if !apis.iter().any(|api| path.starts_with(api)) {
            return;
        }
        let mut kept = kept.lock();
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let action = request.headers().get("soapaction").and_then(|value| value.to_str().ok());
        let redacted = kept.redact(body).zip(kept.redact(answer));
        let exchange = redacted.map(|(body, answer)| RecordedExchange {
            method: request.method().to_string(),
            path: kept.stand_ins.path(&path),
            headers: RecordedHeaders { soap_action: action.map(str::to_owned) },
            request: body,
            status,
            answer,
        });
        kept.add(exchange);
    }

    /// Forbids the session IDs that these headers carry in a cookie, in `Authorization`, or in `session_header`.
    pub(crate) fn forbid_session(&self, headers: &header::HeaderMap, session_header: &str) {
        if !self.is_on() {
            return;
        }
        let texts = headers.iter().filter(|(name, _)| {
            matches!(name.as_str(), "cookie" | "set-cookie" | "authorization")
                || name.as_str() == session_header
        });
        for text in texts.filter_map(|(_, value)| value.to_str().ok()) {
            let value = text.split(';').next().unwrap_or_default();
            let value = value.split_once('=').map_or(value, |(_, value)| value);
            self.forbid(value.trim_matches('"'));
        }
    }
}

impl Kept {
    /// Redacts a body. Returns `None` if the body can't be parsed, because the strings to keep are unknown then.
    fn redact(&mut self, body: &[u8]) -> Option<String> {
        let text = str::from_utf8(body).ok()?;
        match text.trim_start().as_bytes().first() {
            None => Some(String::new()),
            Some(b'<') => xml::redact(text, &mut self.stand_ins),
            Some(_) => json::redact(text, &mut self.stand_ins),
        }
    }

    fn add(&mut self, exchange: Option<RecordedExchange>) {
        let fits = |one: &RecordedExchange| self.bytes + one.request.len() + one.answer.len() <= LONGEST;
        let clean = |one: &RecordedExchange| {
            let texts = [&one.path, &one.request, &one.answer];
            !texts.iter().any(|text| self.secrets.iter().any(|secret| text.contains(secret.as_str())))
        };
        match exchange.filter(|one| fits(one) && clean(one)) {
            Some(one) => {
                self.bytes += one.request.len() + one.answer.len();
                self.exchanges.push(one);
            }
            None => self.left_out += 1,
        }
    }
}

#[cfg(test)]
mod tests;
