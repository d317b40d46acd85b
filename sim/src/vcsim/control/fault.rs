//! Faults that can be injected into calls.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::ControlApi;
use super::error::Error;

/// How a call is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultKind {
    /// The call answers with a fault.
    #[serde(rename = "fault")]
    Fault,
    /// The task that the call starts ends with a fault.
    TaskFault,
    /// The call is carried out, its answer never arrives.
    LostAnswer,
    /// 503 without a body.
    #[serde(rename = "http503")]
    Http503,
    /// An HTML page with status 200, as a proxy gives.
    Html,
    /// The connection is cut.
    Abort,
    /// The answer comes late.
    Delay,
    /// The call waits until its fault is removed.
    Hold,
    /// A clone that leaves a VM behind and fails.
    HalfClone,
    /// The call waits until its fault is removed, and is then cut off; nothing is done.
    ParkCall,
    /// Everything is done; the answer waits until the fault is removed, and is then cut off.
    ParkAnswer,
}

/// A fault to be planted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The method: `CloneVM_Task`, or `GET /com/vmware/content/library/item`.
    pub method: String,
    /// Only calls that name this object; with `*` at its end, all that begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What happens.
    pub kind: FaultKind,
    /// The fault's type, `InsufficientResourcesFault`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The fault's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// For [`FaultKind::Delay`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// So many calls pass first.
    pub skip: u32,
    /// So many calls are hit.
    pub count: u32,
}

impl Fault {
    /// The next call of `method` fails this way.
    pub fn once(method: &str, kind: FaultKind) -> Self {
        Self {
            method: method.to_owned(),
            object: None,
            kind,
            fault: None,
            message: None,
            delay_ms: None,
            skip: 0,
            count: 1,
        }
    }

    /// With this fault type and message.
    #[must_use]
    pub fn with(mut self, fault: &str, message: &str) -> Self {
        (self.fault, self.message) = (Some(fault.to_owned()), Some(message.to_owned()));
        self
    }

    /// Only for calls that name this object.
    #[must_use]
    pub fn on(mut self, object: &str) -> Self {
        self.object = Some(object.to_owned());
        self
    }

    /// Such calls pass first, so many of them.
    #[must_use]
    pub fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Lasting or late by so much.
    #[must_use]
    pub fn lasting(mut self, delay_ms: u64) -> Self {
        self.delay_ms = Some(delay_ms);
        self
    }

    /// For so many calls.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.count = count;
        self
    }
}

impl ControlApi {
    /// Plants a fault; answers its id.
    pub async fn plant(&self, fault: &Fault) -> Result<String, Error> {
        self.call_for_one(Method::POST, "/v1/faults", Some(json!(fault)), "id").await
    }

    /// The planted faults with their hits and the calls they hold.
    pub async fn faults(&self) -> Result<Value, Error> {
        self.call(Method::GET, "/v1/faults", None).await
    }

    /// Removes one fault, or all; what they held goes on.
    pub async fn remove_faults(&self, id: Option<&str>) -> Result<(), Error> {
        let path = id.map_or_else(|| "/v1/faults".to_owned(), |id| format!("/v1/faults/{id}"));
        self.send(Method::DELETE, &path, None).await
    }
}
