//! Keys and conditions of the objects that providers serve.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

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
