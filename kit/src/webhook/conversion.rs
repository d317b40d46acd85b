//! Reads and answers ConversionReviews, which the API server sends to a conversion webhook.

use std::fmt::Display;
use std::ops::Range;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::webhook::gate::{ReviewRejection, Room, admit};
use crate::webhook::review::{self, place};

/// The request in a ConversionReview.
pub struct Conversion {
    uid: String,
    wanted: String,
    body: Bytes,
    objects: Vec<Range<usize>>,
    /// Held until the review is answered.
    _room: Option<Room>,
}

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(default)]
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    wanted: String,
    #[serde(borrow)]
    objects: Vec<&'a RawValue>,
}

impl Conversion {
    /// Parses the request in a review.
    ///
    /// # Errors
    /// Fails if the review is too large or can't be parsed.
    pub fn read(body: impl Into<Bytes>) -> Result<Self, ReviewRejection> {
        let body = body.into();
        let Asked { uid, wanted, objects } = review::request(&body)?;
        let objects = objects.into_iter().map(|raw| place(&body, raw)).collect();
        Ok(Self { uid, wanted, body, objects, _room: None })
    }

    fn object(&self, place: &Range<usize>) -> Value {
        let text = self.body.get(place.clone());
        text.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
    }
}

impl<S: Sync> FromRequest<S> for Conversion {
    type Rejection = ReviewRejection;

    /// Admits a conversion. The API server can't present a certificate here, but it may know a key. If no
    /// key is configured, every client is served, because a conversion doesn't read or reveal any state.
    async fn from_request(request: Request, _: &S) -> Result<Self, ReviewRejection> {
        let (body, room) = admit(request, false).await?;
        Ok(Self { _room: Some(room), ..Self::read(body)? })
    }
}

/// Answers a ConversionReview with the objects that `convert` returns, or with the first error. `convert` gets
/// an object and the requested apiVersion.
pub fn answer<E: Display>(
    review: &Conversion,
    convert: impl Fn(&Value, &str) -> Result<Value, E>,
) -> Json<Value> {
    // Objects are parsed and converted one after the other, so that only the results are in memory for all objects.
    let objects = review.objects.iter().map(|place| convert(&review.object(place), &review.wanted));
    let response = match objects.collect::<Result<Vec<Value>, E>>() {
        Ok(objects) => {
            json!({ "uid": review.uid, "result": { "status": "Success" }, "convertedObjects": objects })
        }
        Err(error) => {
            let message = error.to_string();
            let result = json!({ "status": "Failure", "reason": "Invalid", "message": message });
            json!({ "uid": review.uid, "result": result })
        }
    };
    review::answer("apiextensions.k8s.io/v1", "ConversionReview", &response)
}
