//! Limits the reviews that the whole process handles at the same time: body bytes, decoded values and reviews.
//!
//! Any client that reaches the port can send a review. The gate admits a review in three steps. It reads
//! the body, within a timeout and a byte limit that addresses share. It counts the values that decoding
//! would create. Then the review waits for its turn, and each address gets only a share of the turns.
//! Callers that proved to be the API server have separate limits, so that strangers can't use them up.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use bounds::{JsonMeter, Lane, Turn};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::server::peer::Peer;
use crate::share::addresses::{Share, Shares};

/// The maximum review size in bytes. A review contains the object twice, before and after the
/// change. The API server accepts 3 MiB per object, and stores less.
pub const LARGEST_REVIEW: usize = 8 << 20;
/// The maximum number of JSON values in a new object: members, elements, and the objects and lists that contain them.
const MOST_VALUES_OF_NEW: usize = 20_000;
/// The maximum number of JSON values in a review. The old object may contain a few more values than when it was admitted.
pub const MOST_VALUES: usize = 48_000;

/// The limits, which apply separately to verified callers and to all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReviewLimits {
    /// The maximum number of body bytes in total.
    pub bytes: usize,
    /// The maximum number of body bytes per address. It doesn't apply to verified callers.
    pub bytes_per_address: usize,
    /// The maximum number of concurrent reviews.
    pub reviews: usize,
    /// The maximum number of concurrent reviews per address. It doesn't apply to verified callers.
    pub reviews_per_address: usize,
    /// The timeout for reading a body.
    pub body: Duration,
    /// The maximum time that a review waits until other reviews make room for it.
    pub wait: Duration,
}

/// The limits that a program uses.
pub(crate) const LIMITS: ReviewLimits = ReviewLimits {
    bytes: 2 * LARGEST_REVIEW,
    bytes_per_address: 3 * (LARGEST_REVIEW / 2),
    reviews: 16,
    reviews_per_address: 12,
    body: Duration::from_secs(10),
    wait: Duration::from_secs(5),
};

/// Admits reviews within the limits.
pub(crate) struct ReviewGate {
    limits: ReviewLimits,
    verified: Pool,
    strangers: Pool,
    only_verified: Verified,
}

/// The limits that one group of callers shares.
struct Pool {
    bytes: Shares,
    lane: Lane,
    values: Arc<Semaphore>,
}

/// The types of reviews that only verified callers may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// Admission reviews. The API server proves its identity with a certificate.
    pub admissions: bool,
    /// Conversion reviews. The API server can't present a certificate for these, so it uses a key.
    pub conversions: bool,
}

/// The resources that an admitted review holds until it is answered.
pub(super) struct Room {
    _bytes: Share,
    _turn: Turn,
    _values: OwnedSemaphorePermit,
}

/// The reasons why a review is rejected or can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewRejection {
    /// The review has too many bytes.
    #[error("a review has at most {LARGEST_REVIEW} bytes")]
    TooLarge,
    /// The object or the review has too many values.
    #[error("an object has at most {MOST_VALUES_OF_NEW} values, a review {MOST_VALUES}")]
    TooManyValues,
    /// The body didn't arrive in time.
    #[error("the review did not arrive in time")]
    Late,
    /// Other reviews use up the limits.
    #[error("too many concurrent reviews")]
    Busy,
    /// The caller didn't prove that it is the API server.
    #[error(
        "only the API server may call this webhook, and the client presented no certificate signed by --webhook-client-ca"
    )]
    Stranger,
    /// The path doesn't end with the key.
    #[error(
        "only the API server may call this webhook, and the path does not end with --webhook-conversion-key"
    )]
    NoKey,
    /// The body can't be read or isn't a review.
    #[error("not a review: {0}")]
    Unreadable(String),
    /// The server that received the review doesn't have a gate.
    #[error("this server does not accept reviews")]
    NoGate,
}

impl IntoResponse for ReviewRejection {
    fn into_response(self) -> Response {
        let status = match self {
            Self::TooLarge | Self::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Stranger | Self::NoKey => StatusCode::UNAUTHORIZED,
            Self::Unreadable(_) => StatusCode::BAD_REQUEST,
            Self::NoGate => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, [(RETRY_AFTER, "1")], self.to_string()).into_response()
    }
}

impl ReviewGate {
    pub fn new(limits: ReviewLimits, only_verified: Verified) -> Self {
        let pool = |bytes_per_address, reviews_per_address| Pool {
            bytes: Shares::new(limits.bytes, bytes_per_address),
            lane: Lane::new(limits.reviews, reviews_per_address),
            values: Arc::new(Semaphore::new(MOST_VALUES)),
        };
        Self {
            limits,
            // The API server counts as one caller, whatever its addresses are.
            verified: pool(limits.bytes, limits.reviews),
            strangers: pool(limits.bytes_per_address, limits.reviews_per_address),
            only_verified,
        }
    }

    /// Rejects an unverified peer if only verified callers may send this type of review.
    fn check(&self, peer: Peer, is_admission: bool) -> Result<(), ReviewRejection> {
        match (is_admission, self.only_verified) {
            _ if peer.verified => Ok(()),
            (true, Verified { admissions: true, .. }) => Err(ReviewRejection::Stranger),
            (false, Verified { conversions: true, .. }) => Err(ReviewRejection::NoKey),
            _ => Ok(()),
        }
    }

    /// Reads a request's body, and waits until the review is admitted. Returns the body and the resources that the review holds.
    async fn admit(&self, request: Request, peer: Peer) -> Result<(Bytes, Room), ReviewRejection> {
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: usize| length > LARGEST_REVIEW) {
            return Err(ReviewRejection::TooLarge);
        }
        let pool = if peer.verified { &self.verified } else { &self.strangers };
        let mut share = pool.bytes.enter(peer.address);
        let evicted = share.evicted().clone();
        let body = tokio::select! {
            body = timeout(self.limits.body, read_body(request.into_body(), length, &mut share)) => {
                body.map_err(|_| ReviewRejection::Late)??
            }
            () = evicted.cancelled() => return Err(ReviewRejection::Busy),
        };
        share.settle().map_err(|_| ReviewRejection::Busy)?;
        let values = count_values(&body);
        if values > MOST_VALUES {
            return Err(ReviewRejection::TooManyValues);
        }
        let room = timeout(self.limits.wait, pool.wait_for_room(share, peer, values));
        Ok((body, room.await.map_err(|_| ReviewRejection::Busy)??))
    }
}

impl Pool {
    async fn wait_for_room(&self, share: Share, peer: Peer, values: usize) -> Result<Room, ReviewRejection> {
        let who = if peer.verified { String::new() } else { peer.address.to_string() };
        let turn = self.lane.enter(&who).await;
        let values = u32::try_from(values).map_err(|_| ReviewRejection::TooManyValues)?;
        let values =
            Arc::clone(&self.values).acquire_many_owned(values).await.map_err(|_| ReviewRejection::Busy)?;
        Ok(Room { _bytes: share, _turn: turn, _values: values })
    }
}

/// Admits a request through the gate of the server that received it.
pub(super) async fn admit(request: Request, is_admission: bool) -> Result<(Bytes, Room), ReviewRejection> {
    let extensions = request.extensions();
    let gate = extensions.get::<Arc<ReviewGate>>().cloned().ok_or(ReviewRejection::NoGate)?;
    let peer = *extensions.get::<Peer>().ok_or(ReviewRejection::NoGate)?;
    gate.check(peer, is_admission)?;
    gate.admit(request, peer).await
}

/// Reads a whole body. `share` counts the bytes that arrive, not the announced `length`.
async fn read_body(
    mut body: Body,
    length: Option<usize>,
    share: &mut Share,
) -> Result<Bytes, ReviewRejection> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ReviewRejection::Unreadable(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > LARGEST_REVIEW {
            return Err(ReviewRejection::TooLarge);
        }
        share.take(data.len()).map_err(|_| ReviewRejection::Busy)?;
        if whole.is_empty() {
            whole.reserve_exact(length.unwrap_or(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// Rejects an object that couldn't be changed once it is stored, because the review of a change contains the object twice.
pub(super) fn check_new(object: &[u8]) -> Result<(), ReviewRejection> {
    if count_values(object) > MOST_VALUES_OF_NEW { Err(ReviewRejection::TooManyValues) } else { Ok(()) }
}

/// Rejects a review that is too large to be decoded.
pub(super) fn check_whole(body: &[u8]) -> Result<(), ReviewRejection> {
    if body.len() > LARGEST_REVIEW {
        return Err(ReviewRejection::TooLarge);
    }
    if count_values(body) > MOST_VALUES { Err(ReviewRejection::TooManyValues) } else { Ok(()) }
}

/// Returns an upper bound for the number of values in a JSON document.
fn count_values(json: &[u8]) -> usize {
    let mut meter = JsonMeter::default();
    meter.take(json);
    meter.values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_let_in_can_be_changed() {
        let object = vec![0; MOST_VALUES_OF_NEW - 2];
        let object = serde_json::json!({ "a": object });
        let object = serde_json::to_vec(&object).unwrap();
        check_new(&object).unwrap();
        let review = format!(
            r#"{{"request": {{"object": {0}, "oldObject": {0}}}}}"#,
            String::from_utf8(object).unwrap()
        );
        check_whole(review.as_bytes()).unwrap();
    }
}
