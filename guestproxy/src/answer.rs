//! Forwards responses within the limits of the cluster that sends them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bounds::{JsonMeter, Turn};
use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use kit::share::responses::HeldBytes;
use serde::Deserialize;
use tokio::time::timeout;

use crate::guest::ProxiedCluster;
use crate::limits;
use crate::live::ObjectChange;

/// The body of a forwarded request or response, or of a response from the proxy itself.
pub type Passed = UnsyncBoxBody<Bytes, AbortedResponse>;

/// The reason why a response was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortedResponse(pub String);

impl fmt::Display for AbortedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for AbortedResponse {}

impl From<&str> for AbortedResponse {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

/// Returns a complete body with this text.
pub fn whole(text: impl Into<Bytes>) -> Passed {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Forwards a response until its decoded size exceeds `most` bytes. For a page of a list, `pages` contains the list's path
/// and the decoded size of its earlier pages.
pub fn passed(
    body: Incoming,
    guest: Arc<ProxiedCluster>,
    most: usize,
    pages: Option<(String, usize)>,
) -> Passed {
    let (path, before) = pages.map_or((None, 0), |(path, before)| (Some(path), before));
    boxed(Answer { body, guest, most, before, path, meter: JsonMeter::default(), turn: None })
}

struct Answer {
    body: Incoming,
    guest: Arc<ProxiedCluster>,
    most: usize,
    before: usize,
    path: Option<String>,
    meter: JsonMeter,
    turn: Option<Turn>,
}

impl Pieces for Answer {
    async fn next(&mut self) -> Result<Option<Bytes>, AbortedResponse> {
        let Some(piece) = piece(&mut self.body, limits::PIECE).await? else { return Ok(None) };
        self.meter.take(&piece);
        let size = self.before.saturating_add(self.meter.decoded_bytes());
        // Note the size with each piece: the end of a body with a known length isn't read.
        if let Some(path) = &self.path {
            self.guest.note_page(path, size);
        }
        if size > self.most {
            return Err(AbortedResponse(format!(
                "it takes more than the {} MiB that the cluster can have",
                self.most >> 20
            )));
        }
        if size > limits::SMALL_ANSWER && self.turn.is_none() {
            let turn = timeout(limits::ANSWER_BEGINS, self.guest.wait_for_turn());
            self.turn = Some(
                turn.await.map_err(|_| AbortedResponse::from("too many large answers at the same time"))?,
            );
        }
        Ok(Some(piece))
    }

    fn guest(&self) -> &ProxiedCluster {
        &self.guest
    }
}

/// Forwards watch events one by one, until the cluster has more objects than its limits allow or the watch has reached its
/// maximum duration.
pub fn watched(body: Incoming, guest: Arc<ProxiedCluster>, path: String) -> Passed {
    let ends = Instant::now() + limits::WATCH;
    let rest = BytesMut::new();
    boxed(Watch {
        body,
        guest,
        path,
        ends,
        rest,
        seen: 0,
        meter: JsonMeter::default(),
        held: HeldBytes::default(),
    })
}

struct Watch {
    body: Incoming,
    guest: Arc<ProxiedCluster>,
    path: String,
    ends: Instant,
    /// Received bytes that haven't been forwarded.
    rest: BytesMut,
    /// The number of bytes in `rest` that the meter has counted.
    seen: usize,
    meter: JsonMeter,
    held: HeldBytes,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(default)]
    object: Object,
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

impl Pieces for Watch {
    async fn next(&mut self) -> Result<Option<Bytes>, AbortedResponse> {
        loop {
            if let Some(end) = self.meter.take_document(&self.rest[self.seen..]) {
                let event = self.rest.split_to(self.seen + end).freeze();
                let size = std::mem::take(&mut self.meter).decoded_bytes();
                self.seen = 0;
                self.held.keep(self.rest.len());
                self.count(&event, size)?;
                return Ok(Some(event));
            }
            self.seen = self.rest.len();
            if self.meter.decoded_bytes() > limits::EVENT {
                return Err("an event of the watch is too large".into());
            }
            // White space between events doesn't begin an event. Within an event, the next piece must arrive soon.
            let begun = !self.rest.iter().all(u8::is_ascii_whitespace);
            let patience =
                if begun { limits::PIECE } else { self.ends.saturating_duration_since(Instant::now()) };
            let piece = match piece(&mut self.body, patience).await {
                // The watch has reached its maximum duration. The manager continues it with a new request.
                Err(_) if !begun && Instant::now() >= self.ends => return Ok(None),
                piece => piece?,
            };
            let Some(piece) = piece else {
                return if begun { Err("the watch ended within an event".into()) } else { Ok(None) };
            };
            if self.rest.len().saturating_add(piece.len()) > limits::EVENT_BYTES {
                return Err("an event of the watch is too large".into());
            }
            let taken = timeout(limits::PIECE, self.guest.responses.take(piece.len(), &mut self.held)).await;
            taken.map_err(|_| AbortedResponse::from("too many events at the same time"))?;
            self.rest.extend_from_slice(&piece);
        }
    }

    fn guest(&self) -> &ProxiedCluster {
        &self.guest
    }
}

impl Watch {
    fn count(&self, event: &[u8], size: usize) -> Result<(), AbortedResponse> {
        if size > limits::EVENT {
            return Err("an event of the watch is too large".into());
        }
        // Duplicate JSON names are an error here, so the manager can't read another value than the proxy.
        let event: Event =
            serde_json::from_slice(event).map_err(|_| AbortedResponse::from("it is not a watch event"))?;
        let change = match event.r#type {
            "ADDED" | "MODIFIED" => ObjectChange::Is(size),
            "DELETED" => ObjectChange::Gone,
            "BOOKMARK" | "ERROR" => return Ok(()),
            _ => return Err("an event of the watch has an unknown type".into()),
        };
        let Metadata { namespace, name } = event.object.metadata.unwrap_or_default();
        let names = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        self.guest.count(&self.path, names, change).map_err(|_| {
            AbortedResponse(
                "the cluster has more objects than its Machines and the limit for all clusters allow"
                    .to_owned(),
            )
        })
    }
}

/// Returns the next piece of a body, or `None` at the body's end. Drops trailers. Fails if the piece doesn't arrive within
/// `patience`.
async fn piece(body: &mut Incoming, patience: Duration) -> Result<Option<Bytes>, AbortedResponse> {
    let next = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| AbortedResponse(error.to_string()))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    };
    timeout(patience, next).await.map_err(|_| AbortedResponse::from("it stopped"))?
}

/// A source of pieces for a forwarded body.
trait Pieces: Send + 'static {
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, AbortedResponse>> + Send;
    fn guest(&self) -> &ProxiedCluster;
}

/// Returns a body with these pieces. An error aborts the manager's connection.
fn boxed(pieces: impl Pieces) -> Passed {
    let frames = stream::unfold(Some(pieces), |pieces| async {
        let mut pieces = pieces?;
        match pieces.next().await {
            Ok(piece) => piece.map(|piece| (Ok(Frame::data(piece)), Some(pieces))),
            Err(broken) => {
                pieces.guest().report(&broken);
                Some((Err(broken), None))
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
