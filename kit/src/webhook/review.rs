//! What the API server asks an admission webhook, and what it is answered.

use axum::Json;
use base64::{Engine, engine::general_purpose::STANDARD};
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
    /// The object as it shall be; null where it is deleted.
    pub object: Value,
    /// The object as it is; null where it is new.
    pub old: Value,
}

impl Review {
    /// Reads the request of a review.
    pub fn read(mut review: Value) -> Self {
        let mut request = review["request"].take();
        let user = &request["userInfo"];
        let groups = user["groups"].as_array().into_iter().flatten();
        Self {
            user: user["username"].as_str().unwrap_or_default().to_owned(),
            groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
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

    /// It may pass, with a word to who asks.
    pub fn allowed(self, warnings: &[String]) -> Json<Value> {
        if warnings.is_empty() {
            return self.answer(json!({ "allowed": true }));
        }
        self.answer(json!({ "allowed": true, "warnings": warnings }))
    }

    /// It may pass with these changes: operations of a JSON patch.
    pub fn patched(self, operations: &[Value]) -> Json<Value> {
        if operations.is_empty() {
            return self.allowed(&[]);
        }
        let patch = STANDARD.encode(Value::from(operations.to_vec()).to_string());
        self.answer(json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch }))
    }

    /// It may not pass, and why.
    pub fn denied(self, message: &str) -> Json<Value> {
        let status = json!({ "code": 422, "reason": "Invalid", "message": message });
        self.answer(json!({ "allowed": false, "status": status }))
    }

    fn answer(self, mut response: Value) -> Json<Value> {
        response["uid"] = self.uid;
        Json(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
    }
}
