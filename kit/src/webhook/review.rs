//! Reads and answers AdmissionReviews, which the API server sends to an admission webhook.
//!
//! kube's own types (`kube::core::admission`) reject a review whose object doesn't match its kind.
//! Here such an object is left to the schema validation, which explains the mistake better.
//!
//! Objects stay raw bytes until they are requested as a type: any client can send a review, and a
//! small document can become a large value.

use std::ops::Range;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::webhook::facts::wait_for_facts;
pub use crate::webhook::gate::{LARGEST_REVIEW, MOST_VALUES, ReviewRejection};
use crate::webhook::gate::{Room, admit, check_new, check_whole};

/// The request in an AdmissionReview.
pub struct Review {
    uid: String,
    /// The user who sent the request.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The API version that the author used, such as `v1alpha1`, regardless of the version in which the objects are sent.
    pub version: String,
    body: Bytes,
    new: Option<Range<usize>>,
    old: Option<Range<usize>>,
    /// Held until the review is answered.
    _room: Option<Room>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    user_info: User,
    request_kind: Option<Kind>,
    kind: Option<Kind>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    groups: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    version: String,
}

impl Review {
    /// Parses the request in a review.
    ///
    /// # Errors
    /// Fails if the review is too large or can't be parsed.
    pub fn read(body: impl Into<Bytes>) -> Result<Self, ReviewRejection> {
        let body = body.into();
        let Asked { uid, user_info, request_kind, kind, object, old_object } = request(&body)?;
        if let Some(object) = object {
            check_new(object.get().as_bytes())?;
        }
        let (new, old) = (object.map(|raw| place(&body, raw)), old_object.map(|raw| place(&body, raw)));
        let version = request_kind.or(kind).map(|kind| kind.version).unwrap_or_default();
        let User { username: user, groups } = user_info;
        Ok(Self { uid, user, groups: groups.unwrap_or_default(), version, body, new, old, _room: None })
    }

    /// Returns the new and the old object, if they can be decoded. A deletion has only an old object, a creation only a new one.
    pub fn objects<K: DeserializeOwned>(&self) -> (Option<K>, Option<K>) {
        (self.typed(self.new.as_ref()), self.typed(self.old.as_ref()))
    }

    /// Returns the complete new object, or null for a deletion.
    pub fn document(&self) -> Value {
        self.new
            .clone()
            .and_then(|place| serde_json::from_slice(self.body.get(place)?).ok())
            .unwrap_or_default()
    }

    fn typed<K: DeserializeOwned>(&self, place: Option<&Range<usize>>) -> Option<K> {
        let text = self.body.get(place?.clone())?;
        // serde would also accept a list, as the type's fields in order.
        text.starts_with(b"{").then(|| serde_json::from_slice(text).ok()).flatten()
    }

    /// Allows the request, with warnings for the user.
    pub fn allow(self, warnings: &[String]) -> Json<Value> {
        if warnings.is_empty() {
            return self.answer(json!({ "allowed": true }));
        }
        self.answer(json!({ "allowed": true, "warnings": warnings }))
    }

    /// Allows the request with changes, as JSON patch operations.
    pub fn patch(self, operations: &[Value]) -> Json<Value> {
        if operations.is_empty() {
            return self.allow(&[]);
        }
        let patch = STANDARD.encode(Value::from(operations.to_vec()).to_string());
        self.answer(json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch }))
    }

    /// Denies the request. `message` tells the user why.
    pub fn deny(self, message: &str) -> Json<Value> {
        let status = json!({ "code": 422, "reason": "Invalid", "message": message });
        self.answer(json!({ "allowed": false, "status": status }))
    }

    /// Rejects the request for now. The status contains a delay, so that kubectl and other client-go programs retry.
    fn put_off(self) -> Json<Value> {
        let message = "the program that checks this object has just started and has not read the objects that it \
                       decides with. Try again in a few seconds";
        let status = json!({
            "code": 503, "reason": "ServiceUnavailable", "message": message, "details": { "retryAfterSeconds": 1 },
        });
        self.answer(json!({ "allowed": false, "status": status }))
    }

    fn answer(self, mut response: Value) -> Json<Value> {
        response["uid"] = self.uid.into();
        answer("admission.k8s.io/v1", "AdmissionReview", &response)
    }
}

impl<S: Sync> FromRequest<S> for Review {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let is_decidable = wait_for_facts(request.extensions()).await;
        let (body, room) = admit(request, true).await.map_err(ReviewRejection::into_response)?;
        let review = Self::read(body).map_err(ReviewRejection::into_response)?;
        if !is_decidable {
            return Err(review.put_off().into_response());
        }
        Ok(Self { _room: Some(room), ..review })
    }
}

/// Parses the request in a review of any kind.
pub(super) fn request<'a, R: Deserialize<'a>>(body: &'a [u8]) -> Result<R, ReviewRejection> {
    #[derive(Deserialize)]
    struct Envelope<R> {
        request: R,
    }
    check_whole(body)?;
    let envelope: Envelope<R> =
        serde_json::from_slice(body).map_err(|error| ReviewRejection::Unreadable(error.to_string()))?;
    Ok(envelope.request)
}

/// Returns a review with this response.
pub(super) fn answer(api_version: &str, kind: &str, response: &Value) -> Json<Value> {
    Json(json!({ "apiVersion": api_version, "kind": kind, "response": response }))
}

/// Returns the byte range of `part`, which must be borrowed from `document`.
pub(super) fn place(document: &[u8], part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr().saturating_sub(document.as_ptr().addr());
    start..start + part.get().len()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn read(review: &Value) -> Result<Review, ReviewRejection> {
        Review::read(review.to_string())
    }

    #[test]
    fn a_review_is_read_as_the_api_server_writes_it() {
        let review = read(&json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"version": "v1"}, "requestKind": {"version": "v1beta1"}, "operation": "UPDATE",
            "userInfo": {"username": "me", "groups": ["a", "b"], "extra": {"x": ["y"]}},
            "object": {"data": {"a": "new"}}, "oldObject": {"data": {"a": "old"}}, "options": {},
        }}))
        .unwrap();
        assert_eq!((&*review.user, &*review.version, review.groups.len()), ("me", "v1beta1", 2));
        let (new, old) = review.objects::<ConfigMap>();
        assert_eq!(
            (new.unwrap().data.unwrap()["a"].as_str(), old.unwrap().data.unwrap()["a"].as_str()),
            ("new", "old")
        );
        assert_eq!(review.document()["data"]["a"], "new");
        assert_eq!(review.allow(&[]).0["response"]["uid"], "u");
    }

    #[test]
    fn what_is_no_object_of_the_kind_is_none() {
        for object in [json!(null), json!([]), json!("x"), json!({"data": 7})] {
            let review = read(&json!({"request": {"uid": "u", "object": object}})).unwrap();
            assert!(review.objects::<ConfigMap>().0.is_none(), "{object}");
        }
        assert!(matches!(read(&json!({"request": []})), Err(ReviewRejection::Unreadable(_))));
    }

    #[test]
    fn a_document_of_too_many_values_is_not_decoded() {
        let zeros = vec![0; 30_000];
        let review = json!({"request": {"object": {"spec": zeros}}});
        assert_eq!(read(&review).err(), Some(ReviewRejection::TooManyValues));
        let stored = json!({"request": {"object": {}, "oldObject": {"spec": zeros}}});
        assert!(read(&stored).is_ok(), "what is stored can be taken away");
        let twice = json!({"request": {"userInfo": {"groups": vec![""; 60_000]}}});
        assert_eq!(read(&twice).err(), Some(ReviewRejection::TooManyValues));
        assert_eq!(Review::read(vec![b' '; LARGEST_REVIEW + 1]).err(), Some(ReviewRejection::TooLarge));
    }
}
