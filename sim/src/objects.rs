//! Keys, conditions and watches of the objects that providers serve.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tracing::{debug, warn};

/// Logs that a watch of these objects was interrupted. It begins again by itself.
pub(crate) fn log_interruption(objects: &str, error: &watcher::Error) {
    match error {
        // Gone: this often happens to the first watch of a kind that was defined a moment ago.
        watcher::Error::WatchError(status) if status.code == 410 => {
            debug!(objects, %error, "a watch begins again");
        }
        _ => warn!(objects, %error, "a watch was interrupted"),
    }
}

/// A condition in the shape of Cluster API v1beta1.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

/// Whether an object has a condition of that type, status and message; `None` stands for any message.
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

/// `namespace/name`.
pub(crate) fn key(object: &DynamicObject) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
