//! Fault injection for vCenter calls.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::ControlApi;
use super::error::Error;

/// The effect of an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultKind {
    /// The call returns a fault and isn't carried out.
    #[serde(rename = "fault")]
    Fault,
    /// The task that the call starts fails, and the call isn't carried out.
    TaskFault,
    /// The call is carried out, but the connection is cut before the response.
    LostAnswer,
    /// The call isn't carried out. The response has status 503 and a text body, as from a proxy while vpxd restarts.
    #[serde(rename = "http503")]
    Http503,
    /// The call isn't carried out. The response is an HTML page with status 502, as from a proxy.
    Html,
    /// The connection is cut, and the call isn't carried out.
    Abort,
    /// A task takes [`FaultRule::delay_ms`] longer. A call without a task waits that long.
    Delay,
    /// A task keeps running until the fault is removed. A call without a task waits until the fault is removed.
    Hold,
    /// The clone task fails after it created the VM, which remains. Only for `CloneVM_Task`.
    HalfClone,
    /// The call isn't carried out. It waits until the fault is removed, then the connection is cut.
    ParkCall,
    /// The call is carried out. The response waits until the fault is removed, then the connection is cut instead.
    ParkAnswer,
}

/// A rule that injects a fault into matching calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultRule {
    /// The method, such as `CloneVM_Task` or `GET /com/vmware/content/library/item`. `*` matches all methods.
    pub method: String,
    /// The name or id of the object to which a call must refer, or the URL path of a REST call. A trailing `*` matches
    /// any suffix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The effect on matching calls.
    pub kind: FaultKind,
    /// The fault type, such as `InsufficientResourcesFault`. Default: `SystemError`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The localized message in the fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The delay in milliseconds, for [`FaultKind::Delay`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The number of matching calls that pass before the first hit.
    pub skip: u32,
    /// The maximum number of hits. 0 means unlimited.
    pub count: u32,
}

impl FaultRule {
    /// Creates a rule that hits the next call to `method`.
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

    /// Sets the fault type and message.
    #[must_use]
    pub fn with(mut self, fault: &str, message: &str) -> Self {
        (self.fault, self.message) = (Some(fault.to_owned()), Some(message.to_owned()));
        self
    }

    /// Restricts the rule to calls that refer to this object.
    #[must_use]
    pub fn on(mut self, object: &str) -> Self {
        self.object = Some(object.to_owned());
        self
    }

    /// Lets `skip` matching calls pass first.
    #[must_use]
    pub fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Sets the delay in milliseconds, for [`FaultKind::Delay`].
    #[must_use]
    pub fn lasting(mut self, delay_ms: u64) -> Self {
        self.delay_ms = Some(delay_ms);
        self
    }

    /// Sets the maximum number of hits.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.count = count;
        self
    }
}

impl ControlApi {
    /// Adds a fault rule and returns its id.
    pub async fn plant(&self, fault: &FaultRule) -> Result<String, Error> {
        self.call_for_one(Method::POST, "/v1/faults", Some(json!(fault)), "id").await
    }

    /// Returns all fault rules with their hit counts and the number of calls that they hold.
    pub async fn faults(&self) -> Result<Value, Error> {
        self.call(Method::GET, "/v1/faults", None).await
    }

    /// Removes one fault rule, or all if `id` is `None`, and releases the calls that they hold.
    pub async fn remove_faults(&self, id: Option<&str>) -> Result<(), Error> {
        let path = id.map_or_else(|| "/v1/faults".to_owned(), |id| format!("/v1/faults/{id}"));
        self.send(Method::DELETE, &path, None).await
    }
}
