//! Negotiates the protocol and its version with the server.

use std::time::Duration;

use reqwest::Method;

use super::codec::{Codec, WireKind, classify_status, convert_response_error};
use super::soap::Soap;
use super::soap::reader::Reader;
use super::vijson::ViJson;
use crate::config::{Config, WireChoice};
use crate::error::unexpected;
use crate::http::{Http, Pool, SHORT_ANSWER};
use crate::{Error, Kind, Result, Value};

/// The VI/JSON releases that this client supports, newest first.
const RELEASES: &[&str] = &["9.1.0.0", "9.0.0.0", "8.0.3.0", "8.0.2.0", "8.0.1.0"];
/// The oldest supported SOAP API version.
const OLDEST: [u32; 2] = [7, 0];
/// The newest supported SOAP API version.
const NEWEST: [u32; 4] = [9, 1, 0, 0];
/// The first release with VI/JSON: 8.0 U1.
const FIRST_WITH_JSON: [u32; 3] = [8, 0, 1];
/// The first release that serves storage policies over VI/JSON: 8.0 U3.
const FIRST_WITH_POLICIES: [u32; 3] = [8, 0, 3];

/// Returns the codec for the configured protocol, or for the best protocol that the server supports, and the
/// `ServiceContent`.
pub(crate) async fn choose(http: &Http, config: &Config) -> Result<(Box<dyn Codec>, Value)> {
    let timeout = config.call_timeout;
    let codec: Box<dyn Codec> = match config.wire {
        WireChoice::Soap => Box::new(Soap { version: choose_version(http, timeout).await? }),
        WireChoice::ViJson => {
            Box::new(ViJson { release: release(http, timeout).await?.ok_or_else(no_json)? })
        }
        WireChoice::Auto => choose_codec(http, timeout).await?,
    };
    let content = service_content(http, &*codec, timeout).await?;
    Ok((codec, content))
}

async fn choose_codec(http: &Http, timeout: Duration) -> Result<Box<dyn Codec>> {
    let asked = release(http, timeout).await;
    match asked {
        Ok(Some(release)) => Ok(Box::new(ViJson { release })),
        Ok(None) => Ok(Box::new(Soap { version: choose_version(http, timeout).await? })),
        // Old servers reject the unknown path in many ways. A new server may respond in the same way while it starts,
        // so check the version.
        Err(error) if answered(&error) => match choose_version(http, timeout).await {
            Ok(version) if numbers(&version).as_slice() < FIRST_WITH_JSON.as_slice() => {
                Ok(Box::new(Soap { version }))
            }
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn answered(error: &Error) -> bool {
    matches!(error.kind(), Kind::Overloaded | Kind::Unexpected { .. } | Kind::Fault | Kind::InvalidRequest)
}

fn no_json() -> Error {
    let what = "a vCenter older than 8.0 U1, which has no VI/JSON; use SOAP".to_owned();
    Error::new("connect", Kind::Unsupported { what })
}

/// Returns the newest VI/JSON release that both sides support, or `None` if the server doesn't support VI/JSON.
async fn release(http: &Http, timeout: Duration) -> Result<Option<String>> {
    let request = http
        .request(Pool::Calls, Method::POST, "/api/vcenter/system?action=hello")
        .json(&serde_json::json!({ "api_releases": RELEASES }));
    let answer = http.send_within("hello", request, timeout, SHORT_ANSWER).await?;
    match answer.status {
        200 => {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let release = body["api_release"].as_str().unwrap_or_default();
            Ok((!release.is_empty()).then(|| release.to_owned()))
        }
        // `hello` was added in 8.0 U2, VI/JSON in U1. Earlier servers may require a login for unknown paths.
        400..=407 | 501 => {
            let oldest = ViJson { release: "8.0.1.0".into() };
            match service_content(http, &oldest, timeout).await {
                Ok(_) => Ok(Some(oldest.release)),
                Err(error) if matches!(error.kind(), Kind::Unsupported { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        status => Err(convert_response_error("hello", classify_status(status))),
    }
}

/// Returns the newest SOAP API version that both sides support.
async fn choose_version(http: &Http, timeout: Duration) -> Result<String> {
    let request = http.request(Pool::Calls, Method::GET, "/sdk/vimServiceVersions.xml");
    let answer = http.send_within("vimServiceVersions", request, timeout, SHORT_ANSWER).await?;
    if answer.status != 200 {
        return Err(convert_response_error("vimServiceVersions", classify_status(answer.status)));
    }
    let read = str::from_utf8(&answer.body).ok().and_then(parse_offered_versions);
    let offered = read.ok_or_else(|| Error::new("vimServiceVersions", Kind::Overloaded))?;
    choose_newest(&offered).ok_or_else(|| {
        let what = format!("a server that speaks only the versions {} of the VIM API", offered.join(", "));
        Error::new("connect", Kind::Unsupported { what })
    })
}

/// Parses the `urn:vim25` versions that the server offers. Returns `None` if `text` isn't such a list.
pub(crate) fn parse_offered_versions(text: &str) -> Option<Vec<String>> {
    let mut reader = Reader::new(text);
    let root = reader.child().ok()??;
    if root.local_name().into_inner() != "namespaces" {
        return None;
    }
    let namespaces = reader.value(&root).ok()?;
    let mut spaces = namespaces.get("namespace").items().iter();
    let vim = spaces.find(|space| space.get("name").as_str().map(str::trim) == Some("urn:vim25"))?;
    let prior = vim.get("priorVersions").get("version").items();
    let versions = std::iter::once(vim.get("version")).chain(prior);
    Some(versions.filter_map(Value::as_str).map(|version| version.trim().to_owned()).collect())
}

fn choose_newest(offered: &[String]) -> Option<String> {
    let known = |version: &&String| {
        let version = numbers(version);
        version.as_slice() >= OLDEST.as_slice() && version.as_slice() <= NEWEST.as_slice()
    };
    offered.iter().filter(known).max_by_key(|version| numbers(version)).cloned()
}

/// Returns the codec for the storage policy service if it differs from `codec`.
///
/// In 8.0 U3 and later, VI/JSON serves storage policies. Earlier releases serve them only over SOAP, in the same session.
pub(crate) fn policy_codec(codec: &dyn Codec) -> Option<Box<dyn Codec>> {
    let older = numbers(codec.release()).as_slice() < FIRST_WITH_POLICIES.as_slice();
    (codec.kind() == WireKind::ViJson && older)
        .then(|| Box::new(Soap { version: codec.release().to_owned() }) as Box<dyn Codec>)
}

/// Splits a release into numbers for comparison. A part that isn't a number becomes 0.
pub(crate) fn numbers(release: &str) -> Vec<u32> {
    release.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Reads the `ServiceContent`, which doesn't require a login.
async fn service_content(http: &Http, codec: &dyn Codec, timeout: Duration) -> Result<Value> {
    let request = http.outgoing(Pool::Calls, codec.service_content());
    let answer = http.send_within("ServiceContent", request, timeout, SHORT_ANSWER).await?;
    let content = codec
        .decode(answer.status, &answer.body)
        .map_err(|refusal| convert_response_error("ServiceContent", refusal))?;
    if content.get("about").as_object().is_some() {
        Ok(content)
    } else {
        Err(unexpected("ServiceContent", "no service content"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(newest: &str, prior: &[&str]) -> String {
        let prior = format!("<version>{}</version>", prior.join("</version>\n<version>"));
        format!(
            r#"<?xml version="1.0" encoding="UTF-8" ?>
            <namespaces version="1.0">
              <namespace><name>urn:internalvim25</name><version>99.0</version></namespace>
              <namespace><name>urn:vim25</name><version>{newest}</version><priorVersions>{prior}</priorVersions></namespace>
            </namespaces>"#
        )
    }

    #[test]
    fn the_newest_version_that_both_know_is_spoken() {
        let cases = [
            (versions("8.0.3.0", &["8.0.2.0", "7.0.3.0", "6.7"]), Some("8.0.3.0")),
            (versions("7.0.3.2", &["7.0.3.0", "6.7.3", "2.5"]), Some("7.0.3.2")),
            (versions("9.2.0.0", &["9.1.0.1", "9.1.0.0", "9.0.0.0"]), Some("9.1.0.0")),
            (versions("10.0", &["9.0.0.0", "8.0.3.0"]), Some("9.0.0.0")),
            (versions("7.0.0.0", &["6.9.1", "6.7"]), Some("7.0.0.0")),
            (versions("6.7", &["6.5"]), None),
            (versions("6.0", &["5.5"]), None),
        ];
        for (text, expected) in cases {
            assert_eq!(choose_newest(&parse_offered_versions(&text).unwrap()).as_deref(), expected, "{text}");
        }
        for text in ["<html>hello</html>", "404 page not found", "", "<namespaces>"] {
            assert_eq!(parse_offered_versions(text), None, "{text}");
        }
    }
}
