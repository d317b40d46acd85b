//! What the API server asks a conversion webhook, and what it is answered.

use std::fmt::Display;

use axum::Json;
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use serde_json::Value;

/// Answers a ConversionReview: all its objects as `convert` makes them (object, wanted apiVersion), or none and why.
pub fn answer<E: Display>(
    Json(review): Json<ConversionReview>,
    convert: impl Fn(&Value, &str) -> Result<Value, E>,
) -> Json<ConversionReview> {
    let request = match ConversionRequest::from_review(review) {
        Ok(request) => request,
        Err(error) => {
            let status = Status::failure(&error.to_string(), "BadRequest");
            return Json(ConversionResponse::invalid(status).into_review());
        }
    };
    let wanted = &request.desired_api_version;
    let converted: Result<Vec<Value>, E> =
        request.objects.iter().map(|object| convert(object, wanted)).collect();
    let response = ConversionResponse::for_request(request);
    let response = match converted {
        Ok(objects) => response.success(objects),
        Err(error) => response.failure(Status::failure(&error.to_string(), "Invalid")),
    };
    Json(response.into_review())
}
