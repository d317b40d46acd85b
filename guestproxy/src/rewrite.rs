//! Rewrites the headers of forwarded requests and responses.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE,
    EXPECT, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{StatusCode, Uri};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// Hop-by-hop headers, which aren't forwarded.
const OF_A_CONNECTION: [HeaderName; 8] =
    [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// The response headers that managers use. Other headers are dropped. For example, client-go would keep the text in `Warning`.
const OF_AN_ANSWER: [HeaderName; 5] = [CONTENT_TYPE, CONTENT_LENGTH, CACHE_CONTROL, DATE, RETRY_AFTER];

/// The headers that are kept in a response that switches the protocol.
const OF_AN_UPGRADE: [HeaderName; 5] =
    [CONNECTION, UPGRADE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, STREAM_PROTOCOL];

/// Returns true if a request asks for another protocol on its connection.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE)
}

/// Rewrites a request's headers so that the cluster responds with uncompressed JSON or text. An upgrade request keeps
/// its `Accept` header. Hop-by-hop headers are removed, except those for an upgrade.
pub fn request(headers: &mut HeaderMap) {
    let upgrade = headers.get(UPGRADE).cloned();
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
    headers.remove(ACCEPT_ENCODING);
    headers.remove(EXPECT);
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
        // A kubelet rejects a port-forward request that accepts JSON, with status 406.
        return;
    }
    let accepted: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accept = accept(&accepted.join(","));
    headers.insert(ACCEPT, accept.parse().unwrap_or(HeaderValue::from_static(JSON)));
}

/// Returns the JSON and text types in an `Accept` header, or JSON if there are none. Keeps parameters such as `as=Table`.
fn accept(accepted: &str) -> String {
    let is_kept = |range: &&str| {
        let media = range.split(';').next().unwrap_or_default().trim();
        media.eq_ignore_ascii_case(JSON) || media.eq_ignore_ascii_case(TEXT)
    };
    let kept: Vec<&str> = accepted.split(',').map(str::trim).filter(is_kept).collect();
    if kept.is_empty() { JSON.to_owned() } else { kept.join(",") }
}

/// The reason why a response isn't forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    /// The response is a redirect. client-go would follow it, even to other servers.
    Redirect,
    /// The response is compressed.
    Compressed,
    /// The response is neither JSON nor text.
    NotJson,
    /// The response switches the protocol, but the request didn't ask for that.
    Upgraded,
    /// The announced length exceeds the limit.
    TooLarge,
}

impl Unwanted {
    /// Returns the reason as a clause for error messages.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Redirect => "it is a redirect",
            Self::Compressed => "it is compressed",
            Self::NotJson => "its Content-Type is neither application/json nor text/plain",
            Self::Upgraded => "it changes the protocol, which was not requested",
            Self::TooLarge => "its Content-Length exceeds the limit of the cluster",
        }
    }
}

/// Checks a response's status and headers, and removes the headers that aren't forwarded. `may_upgrade` is true if the request
/// asked for another protocol. `most` is the maximum `Content-Length`.
///
/// # Errors
/// Returns an error if the response must not be forwarded.
pub fn answer(
    status: StatusCode,
    headers: &mut HeaderMap,
    may_upgrade: bool,
    most: usize,
) -> Result<(), Unwanted> {
    let kept: &[HeaderName] = if status == StatusCode::SWITCHING_PROTOCOLS {
        if !may_upgrade {
            return Err(Unwanted::Upgraded);
        }
        &OF_AN_UPGRADE
    } else {
        check(status, headers, most)?;
        &OF_AN_ANSWER
    };
    let mut passed = HeaderMap::new();
    for name in kept {
        if let Some(value) = headers.get(name) {
            passed.insert(name.clone(), value.clone());
        }
    }
    *headers = passed;
    Ok(())
}

fn check(status: StatusCode, headers: &HeaderMap, most: usize) -> Result<(), Unwanted> {
    if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
        return Err(Unwanted::Redirect);
    }
    if headers.get_all(CONTENT_ENCODING).iter().any(|coding| coding != "identity") {
        return Err(Unwanted::Compressed);
    }
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let length = text(CONTENT_LENGTH).and_then(|length| length.trim().parse::<usize>().ok());
    if length.is_some_and(|length| length > most) {
        return Err(Unwanted::TooLarge);
    }
    // Without a content type, client-go decodes the type that it requested, which can be protobuf.
    let media = text(CONTENT_TYPE).and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    let has_type = media.eq_ignore_ascii_case(JSON) || media.eq_ignore_ascii_case(TEXT);
    let is_empty =
        length == Some(0) || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    if has_type || (is_empty && media.is_empty()) { Ok(()) } else { Err(Unwanted::NotJson) }
}

/// The objects that a request reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSelection {
    /// The path and the selectors. They are the same for all watches, lists and pages that read the same objects.
    pub path: String,
    pub mode: ReadMode,
}

/// The way in which objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// A watch.
    Watch {
        /// True if the watch sends all objects first.
        sends_all: bool,
    },
    /// A page of a list.
    Page {
        /// True if the page isn't the list's first page.
        continues: bool,
    },
    /// A single response.
    Whole,
}

/// Returns the objects that a request's path and query select, and the way in which they are read.
pub fn selection(uri: &Uri) -> ObjectSelection {
    let mut path = format!("{}?", uri.path());
    let mut is_watch = uri.path().starts_with("/api/v1/watch/");
    let (mut sends_all, mut is_paged, mut continues) = (false, false, false);
    for pair in uri.query().unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // Kubernetes parses booleans like this.
        let is_true = !matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F");
        match key {
            "watch" => is_watch |= is_true,
            "sendInitialEvents" => sends_all = is_true,
            "limit" => is_paged = true,
            "continue" => continues = !value.is_empty(),
            "labelSelector" | "fieldSelector" => {
                path.push_str(pair);
                path.push('&');
            }
            _ => {}
        }
    }
    let mode = match (is_watch, is_paged || continues) {
        (true, _) => ReadMode::Watch { sends_all },
        (false, true) => ReadMode::Page { continues },
        (false, false) => ReadMode::Whole,
    };
    ObjectSelection { path, mode }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_json_is_accepted() {
        let protobuf = "application/vnd.kubernetes.protobuf";
        for (given, expected) in [
            ("", JSON),
            ("*/*", JSON),
            (protobuf, JSON),
            (&format!("{protobuf},application/json"), JSON),
            ("application/json, */*", JSON),
            ("application/cbor;q=0.9, application/json;q=0.5", "application/json;q=0.5"),
            (
                &format!(
                    "{protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
                ),
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            ),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            ),
            ("text/plain", TEXT),
        ] {
            assert_eq!(accept(given), expected, "{given}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_json_and_text_is_ever_accepted(given in "[a-z/;=,.* +]{0,60}|application/(json|vnd.kubernetes.protobuf)[;,a-z=]{0,20}") {
            for range in accept(&given).split(',') {
                let media = range.split(';').next().unwrap().trim();
                prop_assert!(media == JSON || media == TEXT, "{}", range);
            }
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_request_asks_for_nothing_compressed_and_keeps_its_upgrade() {
        let mut sent = headers(&[
            ("accept-encoding", "gzip"),
            ("authorization", "Bearer x"),
            ("connection", "upgrade, keep-alive"),
            ("upgrade", "SPDY/3.1"),
            ("proxy-authorization", "x"),
        ]);
        request(&mut sent);
        assert_eq!(
            sent,
            headers(&[("authorization", "Bearer x"), ("connection", "Upgrade"), ("upgrade", "SPDY/3.1")])
        );
    }

    #[test]
    fn answers_that_would_grow_or_lead_elsewhere_are_unwanted() {
        let judged = |status: u16, pairs: &[(&'static str, &'static str)], may_upgrade| {
            let mut headers = headers(pairs);
            answer(StatusCode::from_u16(status).unwrap(), &mut headers, may_upgrade, 100).map(|()| headers)
        };
        let json = ("content-type", "application/json");
        assert_eq!(judged(307, &[json, ("location", "https://x")], false), Err(Unwanted::Redirect));
        assert_eq!(judged(200, &[json, ("content-encoding", "gzip")], false), Err(Unwanted::Compressed));
        assert_eq!(
            judged(200, &[("content-type", "application/vnd.kubernetes.protobuf")], false),
            Err(Unwanted::NotJson)
        );
        assert_eq!(judged(200, &[], false), Err(Unwanted::NotJson));
        assert_eq!(judged(200, &[json, ("content-length", "101")], false), Err(Unwanted::TooLarge));
        assert_eq!(judged(101, &[], false), Err(Unwanted::Upgraded));
        assert!(judged(204, &[], false).is_ok());
        assert_eq!(
            judged(200, &[json, ("warning", "299 - x"), ("set-cookie", "a")], false),
            Ok(headers(&[json]))
        );
        let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-accept", "x")];
        assert_eq!(judged(101, &upgrade, true), Ok(headers(&upgrade)));
    }

    #[test]
    fn watches_and_lists_of_the_same_objects_have_the_same_path() {
        let read = |uri: &str| selection(&uri.parse().unwrap());
        let watch =
            read("/api/v1/nodes?allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7&watch=true");
        assert_eq!(watch.mode, ReadMode::Watch { sends_all: false });
        let all = read("/api/v1/nodes?sendInitialEvents=true&watch=1");
        assert_eq!(all.mode, ReadMode::Watch { sends_all: true });
        assert_eq!(read("/api/v1/nodes?watch=false").mode, ReadMode::Whole);
        let page = read("/api/v1/nodes?continue=x&labelSelector=a%3Db&limit=500");
        assert_eq!((page.path, page.mode), (watch.path, ReadMode::Page { continues: true }));
    }
}
