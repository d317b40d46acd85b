//! What the API server asks an admission webhook, and what it is answered.
//!
//! kube has types for this too (`kube::core::admission`). They refuse a review whose object is not what its kind says;
//! here such an object is left to the schema, which explains better what is wrong with it.

use axum::Json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An AdmissionReview's request.
#[derive(Clone, Debug)]
pub struct Review {
    uid: Value,
    /// Who asks.
    pub user: String,
    /// The groups of who asks.
    pub groups: Vec<String>,
    /// The version of the API that the author used, such as `v1alpha1`, whatever version the objects are shown in.
    pub version: String,
    /// The object as it shall be; null where it is deleted.
    pub object: Value,
    /// The object as it is; null where it is new.
    pub old: Value,
}

impl Review {
    /// Reads the request of a review.
    pub fn read(mut review: Value) -> Self {
        let mut request = review["request"].take();
        let version = request.pointer("/requestKind/version").or_else(|| request.pointer("/kind/version"));
        let user = &request["userInfo"];
        let groups = user["groups"].as_array().into_iter().flatten();
        Self {
            user: user["username"].as_str().unwrap_or_default().to_owned(),
            groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
            version: version.and_then(Value::as_str).unwrap_or_default().to_owned(),
            uid: request["uid"].take(),
            object: request["object"].take(),
            old: request["oldObject"].take(),
        }
    }

    /// The object as it shall be, and as it is, if they can be read.
    pub fn objects<K: DeserializeOwned>(&self) -> (Option<K>, Option<K>) {
        let read = |value: &Value| value.is_object().then(|| K::deserialize(value).ok()).flatten();
        (read(&self.object), read(&self.old))
    }

    /// Allows it, with warnings to who asks.
    pub fn allow(self, warnings: &[String]) -> Json<Value> {
        if warnings.is_empty() {
            return self.answer(json!({ "allowed": true }));
        }
        self.answer(json!({ "allowed": true, "warnings": warnings }))
    }

    /// Allows it with these changes: operations of a JSON patch.
    pub fn patch(self, operations: &[Value]) -> Json<Value> {
        if operations.is_empty() {
            return self.allow(&[]);
        }
        let patch = STANDARD.encode(Value::from(operations.to_vec()).to_string());
        self.answer(json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch }))
    }

    /// Denies it, and says why.
    pub fn deny(self, message: &str) -> Json<Value> {
        let status = json!({ "code": 422, "reason": "Invalid", "message": message });
        self.answer(json!({ "allowed": false, "status": status }))
    }

    fn answer(self, mut response: Value) -> Json<Value> {
        response["uid"] = self.uid;
        Json(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
    }
}
