//! Reads VCR cassettes: exchanges that Ruby's or Python's VCR library recorded in YAML.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

use crate::exchange::{Exchange, Headers};

/// The reasons why a cassette can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CassetteError {
    /// The file isn't a YAML cassette.
    #[error("line {line}: {what}. Record it again, or restore the file")]
    Yaml {
        /// The line number, from 1, or 0 if unknown.
        line: u64,
        /// The parser's message.
        what: String,
    },
    /// An exchange is incomplete.
    #[error(
        "exchange {exchange} has no {lacks}: the recording was cut off. Record it again, or restore the file"
    )]
    Cut {
        /// The exchange number, from 1.
        exchange: usize,
        /// The missing part.
        lacks: &'static str,
    },
    /// The file's end is missing.
    #[error(
        "after exchange {exchanges}, the line {line} is missing: the recording was cut off. Record it again, or restore the file"
    )]
    NoEnd {
        /// The number of complete exchanges.
        exchanges: usize,
        /// The missing line's key.
        line: &'static str,
    },
}

/// Returns true if the text is a cassette, complete or not.
pub fn is_cassette(text: &str) -> bool {
    text.lines().any(|line| matches!(line.trim_end(), "http_interactions:" | "interactions:"))
}

/// Reads all exchanges of a cassette, in order.
pub fn read(text: &str) -> Result<Vec<Exchange>, CassetteError> {
    let text = without_templates(text);
    let cassette: Cassette =
        serde_saphyr::from_str_with_options(&text, options(text.len())).map_err(|error| {
            let error = error.without_snippet();
            CassetteError::Yaml {
                line: error.location().map_or(0, |at| at.line()),
                what: first_line(&error.to_string()),
            }
        })?;
    match (cassette.http_interactions, cassette.interactions) {
        (Some(recorded), _) => collect(recorded, true),
        (None, Some(recorded)) => {
            let exchanges = collect(recorded, false)?;
            let end = cassette.version.map(|_| exchanges.len());
            end.map(|_| exchanges.clone())
                .ok_or(CassetteError::NoEnd { exchanges: exchanges.len(), line: "version" })
        }
        (None, None) => Err(CassetteError::NoEnd { exchanges: 0, line: "interactions" }),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns parser options with a larger budget than manifests need.
fn options(length: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4_000_000,
            max_nodes: 1_000_000,
            max_total_scalar_bytes: length.saturating_mul(3).saturating_add(1024),
        },
        with_snippet: false,
    }
}

/// Removes template code from a Ruby cassette: drops lines of code, and replaces each inserted value with a word.
fn without_templates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if bare.starts_with("<%") && !bare.starts_with("<%=") && bare.ends_with("%>") {
            out.push('\n');
            continue;
        }
        let mut rest = line;
        while let Some((before, inside)) = rest.split_once("<%=") {
            out.push_str(before);
            let Some((_, after)) = inside.split_once("%>") else {
                rest = inside;
                continue;
            };
            out.push_str("inserted");
            rest = after;
        }
        out.push_str(rest);
    }
    out
}

fn collect(recorded: Vec<Interaction>, is_ruby: bool) -> Result<Vec<Exchange>, CassetteError> {
    let read = |(index, one): (usize, Interaction)| {
        one.exchange(is_ruby).map_err(|lacks| CassetteError::Cut { exchange: index + 1, lacks })
    };
    recorded.into_iter().enumerate().map(read).collect()
}

#[derive(Deserialize)]
struct Cassette {
    http_interactions: Option<Vec<Interaction>>,
    interactions: Option<Vec<Interaction>>,
    version: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Interaction {
    request: Option<Request>,
    response: Option<Response>,
    /// The last key in an exchange that Ruby's library wrote.
    recorded_at: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Request {
    method: Option<String>,
    uri: Option<String>,
    #[serde(default)]
    body: Body,
    headers: Option<HashMap<String, Body>>,
}

#[derive(Deserialize)]
struct Response {
    headers: Option<HashMap<String, Body>>,
    body: Option<Body>,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
}

impl Interaction {
    /// Returns the exchange, or its missing part.
    fn exchange(self, is_ruby: bool) -> Result<Exchange, &'static str> {
        let request = self.request.ok_or("request")?;
        let response = self.response.ok_or("answer")?;
        if is_ruby && self.recorded_at.is_none() {
            return Err("time of its recording");
        }
        let asked = header(request.headers, "SOAPAction").unwrap_or_default();
        // Newer servers report the release that they applied, which can differ from the client's.
        let applied = header(response.headers, "X-Applied-Soapaction").filter(|value| !value.is_empty());
        Ok(Exchange {
            method: request.method.ok_or("HTTP method")?.to_uppercase(),
            path: path_of(&request.uri.ok_or("URI")?),
            headers: Headers { soap_action: applied.unwrap_or(asked) },
            request: request.body.0,
            status: response.status.and_then(|status| status.code).ok_or("status of its answer")?,
            answer: response.body.ok_or("body of its answer")?.0,
        })
    }
}

fn header(headers: Option<HashMap<String, Body>>, name: &str) -> Option<String> {
    let found = headers?.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.0)
}

/// Returns the URI without scheme and host.
fn path_of(uri: &str) -> String {
    let after = uri.split_once("://").map_or(uri, |(_, after)| after);
    after.find('/').map_or("/", |at| &after[at..]).to_owned()
}

/// A body or header value: text, a map with the text in the key `string`, or a list with the text as its first item.
#[derive(Default)]
struct Body(String);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyBody)
    }
}

struct AnyBody;

impl<'de> Visitor<'de> for AnyBody {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a body")
    }

    fn visit_unit<E>(self) -> Result<Body, E> {
        Ok(Body::default())
    }

    fn visit_none<E>(self) -> Result<Body, E> {
        Ok(Body::default())
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Body, E> {
        Ok(Body(truth.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Body, E> {
        Ok(Body(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Body, E> {
        Ok(Body(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Body, E> {
        Ok(Body(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Body, E> {
        Ok(Body(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Body, E> {
        Ok(Body(text))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Body, A::Error> {
        let first: Option<Body> = seq.next_element()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first.unwrap_or_default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
        let mut body = Body::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == "string" {
                body = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests;
