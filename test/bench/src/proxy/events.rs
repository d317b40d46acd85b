//! The events of a watch on their way through the proxy, one at a time.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::Shared;
use super::chaos::Break;
use super::orders::Side;

/// What ends a watch.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
pub struct Cut;

struct Relay {
    shared: Arc<Shared>,
    resource: String,
    upstream: BodyDataStream,
    buffer: Vec<u8>,
    ends: bool,
}

/// The same events, held back and broken off as ordered.
pub fn relayed(shared: Arc<Shared>, resource: &str, body: Body) -> Body {
    let relay = Relay {
        shared,
        resource: resource.to_owned(),
        upstream: body.into_data_stream(),
        buffer: Vec::new(),
        ends: false,
    };
    Body::from_stream(events(relay))
}

fn events(relay: Relay) -> impl Stream<Item = Result<Bytes, Cut>> {
    stream::unfold(relay, |mut relay| async move {
        if relay.ends {
            return None;
        }
        let line = relay.line().await?;
        let event = relay.passed(line).await;
        relay.ends |= event.is_err();
        Some((event, relay))
    })
}

impl Relay {
    /// The next line with its end.
    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(self.buffer.drain(..=end).collect::<Vec<_>>().into());
            }
            self.buffer.extend(self.upstream.next().await?.ok()?);
        }
    }

    /// What the watcher gets for this line, and when.
    async fn passed(&mut self, line: Bytes) -> Result<Bytes, Cut> {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED") {
            return Ok(line);
        }
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let what = format!("{kind} {}", self.resource);
        let (hold, broken) = {
            let mut orders = self.shared.orders.lock();
            let key = orders.events.note(Side::Event, what, name.to_owned());
            let hold = orders.hold.take_if(|(held, _)| *held == key).map(|(_, hold)| hold);
            let broken = orders.chaos.as_mut().and_then(super::chaos::Chaos::breaks);
            if hold.is_some() {
                orders.struck("watchHeld");
            }
            match broken {
                Some(Break::Gone) => orders.struck("watch410"),
                Some(Break::Cut) => orders.struck("watchCut"),
                Some(Break::Late(_)) => orders.struck("watchHeld"),
                None => {}
            }
            (hold, broken)
        };
        if let Some(hold) = hold {
            tokio::time::sleep(hold).await;
        }
        match broken {
            None => Ok(line),
            Some(Break::Late(late)) => {
                tokio::time::sleep(late).await;
                Ok(line)
            }
            Some(Break::Cut) => Err(Cut),
            Some(Break::Gone) => {
                self.ends = true;
                Ok(gone().into())
            }
        }
    }
}

/// The error by which a server tells that it has forgotten the version.
fn gone() -> Vec<u8> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version",
    });
    format!("{}\n", json!({"type": "ERROR", "object": status})).into_bytes()
}
