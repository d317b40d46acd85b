//! Request statistics, the call journal, sessions, privileges and connections.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

/// Request counts by protocol and method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestStatistics {
    /// The total request count.
    pub total: u64,
    /// The total size of request and response bodies.
    pub bytes: Traffic,
    /// Counts by protocol (`vijson`, `soap`, `rest`) and method.
    pub by_wire: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Transferred bytes, from the simulator's point of view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Bytes in request bodies.
    pub received: u64,
    /// Bytes in response bodies.
    pub sent: u64,
}

impl RequestStatistics {
    /// Returns the number of calls to a method over all protocols.
    pub fn of(&self, method: &str) -> u64 {
        self.by_wire.values().filter_map(|methods| methods.get(method)).sum()
    }
}

/// A client call that can change state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RecordedCall {
    /// The protocol: `vijson`, `soap` or `rest`.
    pub wire: String,
    /// The method, such as `CloneVM_Task`.
    pub method: String,
    /// The name of the object that the call creates. If the call doesn't create an object, the name of the object on
    /// which it is called.
    pub object: String,
}

impl ControlApi {
    /// Returns the request counts since the last reset.
    pub async fn requests(&self) -> Result<RequestStatistics, Error> {
        self.call(Method::GET, "/v1/requests", None).await
    }

    /// Resets the request counts.
    pub async fn forget_requests(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/requests", None).await
    }

    /// Ends all client sessions.
    pub async fn expire_sessions(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/sessions/expire", None).await
    }

    /// Revokes exactly these privileges from the clients' user, on every object. All other privileges are restored.
    pub async fn take_privileges(&self, missing: &[&str]) -> Result<(), Error> {
        self.send(Method::PUT, "/v1/privileges", Some(json!({ "missing": missing }))).await
    }

    /// Closes all connections and refuses new ones for `down`. Also ends all sessions if `sessions` is true. Returns when vCenter
    /// serves again.
    pub async fn cut(&self, down: Duration, sessions: bool) -> Result<(), Error> {
        let order = json!({"downMs": down.as_millis(), "sessions": sessions});
        self.send(Method::POST, "/v1/front/cut", Some(order)).await
    }

    /// Returns the recorded calls that can change state.
    pub async fn journal(&self) -> Result<Vec<RecordedCall>, Error> {
        self.call_for_one(Method::GET, "/v1/journal", None, "calls").await
    }

    /// Returns the recorded calls that can change state, and clears the journal.
    pub async fn take_journal(&self) -> Result<Vec<RecordedCall>, Error> {
        self.call_for_one(Method::DELETE, "/v1/journal", None, "calls").await
    }

    /// Returns the tokens of all sessions ever opened, so that tests can search logs for them.
    pub async fn tokens(&self) -> Result<Vec<String>, Error> {
        self.call_for_one(Method::GET, "/v1/sessions", None, "tokens").await
    }
}
