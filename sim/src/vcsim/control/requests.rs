//! What vCenter was asked for, by whom, and its sessions and connections.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

/// Requests that vCenter was sent, by wire and method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requests {
    /// The sum.
    pub total: u64,
    /// What their bodies and those of the answers came to.
    pub bytes: Traffic,
    /// `vijson`, `soap`, `rest` → method → count.
    pub by_wire: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Bytes as the simulator saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Of requests.
    pub received: u64,
    /// Of answers.
    pub sent: u64,
}

impl Requests {
    /// How often a method was called, whatever the wire.
    pub fn of(&self, method: &str) -> u64 {
        self.by_wire.values().filter_map(|methods| methods.get(method)).sum()
    }
}

/// A call that can change something, as a client made it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Call {
    /// `vijson`, `soap` or `rest`.
    pub wire: String,
    /// The method: `CloneVM_Task`.
    pub method: String,
    /// The most telling name of its object: what it makes, else what it is called on.
    pub object: String,
}

impl ControlApi {
    /// Requests so far.
    pub async fn requests(&self) -> Result<Requests, Error> {
        self.call(Method::GET, "/v1/requests", None).await
    }

    /// Starts counting anew.
    pub async fn forget_requests(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/requests", None).await
    }

    /// Ends every session but the control API's.
    pub async fn expire_sessions(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/sessions/expire", None).await
    }

    /// Takes these privileges from the user that clients log in as, on every object; all others are given back.
    pub async fn take_privileges(&self, missing: &[&str]) -> Result<(), Error> {
        self.send(Method::PUT, "/v1/privileges", Some(json!({ "missing": missing }))).await
    }

    /// Closes every connection and refuses new ones for `down`; then also the sessions may be gone. Returns when
    /// vCenter serves again.
    pub async fn cut(&self, down: Duration, sessions: bool) -> Result<(), Error> {
        let order = json!({"downMs": down.as_millis(), "sessions": sessions});
        self.send(Method::POST, "/v1/front/cut", Some(order)).await
    }

    /// The calls that can change something, so far.
    pub async fn journal(&self) -> Result<Vec<Call>, Error> {
        self.call_for_one(Method::GET, "/v1/journal", None, "calls").await
    }

    /// The calls that can change something, which are forgotten by this.
    pub async fn take_journal(&self) -> Result<Vec<Call>, Error> {
        self.call_for_one(Method::DELETE, "/v1/journal", None, "calls").await
    }

    /// The tokens of all sessions that were ever opened.
    pub async fn tokens(&self) -> Result<Vec<String>, Error> {
        self.call_for_one(Method::GET, "/v1/sessions", None, "tokens").await
    }
}
