//! Relays watch events through the proxy, one at a time.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::chaos::{Chaos, WatchFault};
use super::injections::Side;
use super::shared::ProxyShared;

/// The error that cuts a connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
pub struct Cut;

struct Relay {
    shared: Arc<ProxyShared>,
    resource: String,
    upstream: BodyDataStream,
    buffer: Vec<u8>,
    ends: bool,
}

/// Relays the events with the injected faults.
pub fn relay_watch(shared: Arc<ProxyShared>, resource: &str, body: Body) -> Body {
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
        let line = relay.next_line().await?;
        let event = relay.relay_event(line).await;
        relay.ends |= event.is_err();
        Some((event, relay))
    })
}

impl Relay {
    /// Returns the next line, including its newline.
    async fn next_line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(self.buffer.drain(..=end).collect::<Vec<_>>().into());
            }
            self.buffer.extend(self.upstream.next().await?.ok()?);
        }
    }

    /// Returns the line to send to the watcher, after any injected delay.
    async fn relay_event(&mut self, line: Bytes) -> Result<Bytes, Cut> {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED") {
            return Ok(line);
        }
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let what = format!("{kind} {}", self.resource);
        let (hold, broken) = {
            let mut injections = self.shared.injections.lock();
            let key = injections.events.count(Side::Event, what, name.to_owned());
            let hold = injections.hold.take_if(|(held, _)| *held == key).map(|(_, hold)| hold);
            let broken = injections.chaos.as_mut().and_then(Chaos::draw_watch_fault);
            if hold.is_some() {
                injections.count_injected("watchHeld");
            }
            match broken {
                Some(WatchFault::Gone) => injections.count_injected("watch410"),
                Some(WatchFault::Cut) => injections.count_injected("watchCut"),
                Some(WatchFault::Late(_)) => injections.count_injected("watchHeld"),
                None => {}
            }
            (hold, broken)
        };
        if let Some(hold) = hold {
            tokio::time::sleep(hold).await;
        }
        match broken {
            None => Ok(line),
            Some(WatchFault::Late(late)) => {
                tokio::time::sleep(late).await;
                Ok(line)
            }
            Some(WatchFault::Cut) => Err(Cut),
            Some(WatchFault::Gone) => {
                self.ends = true;
                Ok(expired_event().into())
            }
        }
    }
}

/// Returns the error event that a server sends if it has compacted the resource version.
fn expired_event() -> Vec<u8> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version",
    });
    format!("{}\n", json!({"type": "ERROR", "object": status})).into_bytes()
}

#[test]
fn an_injected_end_is_a_failure_for_clients() {
    let event: serde_json::Value = serde_json::from_slice(&expired_event()).unwrap();
    let status: kube::core::Status = serde_json::from_value(event["object"].clone()).unwrap();
    assert_eq!((status.status, status.code), (Some(kube::core::response::StatusSummary::Failure), 410));
}
