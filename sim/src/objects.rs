//! Helper functions for provider objects: keys, conditions, and log messages for watch errors.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tracing::{debug, warn};

/// Logs a watch error. The watcher restarts by itself.
pub(crate) fn log_interruption(objects: &str, error: &watcher::Error) {
    match error {
        // 410 Gone is common on the first watch after a CRD was created.
        watcher::Error::WatchError(status) if status.code == 410 => {
            debug!(objects, %error, "a watch begins again");
        }
        _ => warn!(objects, %error, "a watch was interrupted"),
    }
}

/// Returns a condition in the Cluster API v1beta1 format, with the current time as its transition time.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

/// Returns true if the object has a condition with this type, status and message. `None` matches any message.
pub(crate) fn has_condition(
    object: &DynamicObject,
    type_: &str,
    status: &str,
    message: Option<&str>,
) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == type_
            && condition["status"] == status
            && message.is_none_or(|message| condition["message"] == message)
    })
}

/// Returns `namespace/name`.
pub(crate) fn key(object: &DynamicObject) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
