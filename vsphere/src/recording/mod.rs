//! A recording of what is asked and answered, without names, addresses and secrets.
//!
//! A text is kept only if its place says that it is one of the API's own words: the name of a type, a property, a state.
//! Every other text is replaced, whatever it is. The same text gets the same stand-in, so that a reader still sees which
//! things are one.

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

/// The most bytes of exchanges that are kept.
const LONGEST: usize = 256 << 20;
/// A secret that is shorter can be a part of any word.
const SHORTEST_SECRET: usize = 4;

/// Keeps exchanges, if it is on. Clones keep them together.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Mutex<Kept>>>);

#[derive(Default)]
struct Kept {
    exchanges: Vec<RecordedExchange>,
    bytes: usize,
    left_out: usize,
    stand_ins: StandIns,
    /// What no exchange may contain, whatever its place.
    secrets: Vec<String>,
}

/// A request with its answer, without names, addresses and secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedExchange {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The header SOAPAction, if there was one.
    pub headers: RecordedHeaders,
    /// The body of the request.
    pub request: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The body of the answer.
    pub answer: String,
}

/// The headers that a recording has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedHeaders {
    /// Names the release that is spoken over SOAP.
    #[serde(rename = "SOAPAction", skip_serializing_if = "Option::is_none")]
    pub soap_action: Option<String>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Recorder" } else { "no Recorder" })
    }
}

impl Recorder {
    /// A recorder that is on.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether it keeps exchanges.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// An exchange that contains this text is left out, even if the text seems to be a word of the API.
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

    /// Takes the exchanges so far in their order, and the number of those that were left out.
    pub fn take(&self) -> (Vec<RecordedExchange>, usize) {
        let Some(kept) = &self.0 else { return (Vec::new(), 0) };
        let mut kept = kept.lock();
        (std::mem::take(&mut kept.exchanges), std::mem::take(&mut kept.left_out))
    }

    /// Keeps an exchange with an API of vCenter.
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

    /// Forbids the session that a request or an answer carries in a cookie, a login, or this header.
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
    /// The body without what is not the API's; `None` if it cannot be read, so that nobody knows what is in it.
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
