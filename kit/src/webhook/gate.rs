//! What webhooks take in at the same time, in the whole process: bytes of bodies, values that become objects, reviews.
//!
//! Anybody who reaches the port can send a review. A review is let in by steps: its body is read within a time and within
//! bytes that addresses share; what it would become is counted before anything is decoded; and reviews are answered in turns, of
//! which an address has a share. Callers that proved to be the API server are counted apart, so that strangers take nothing of
//! theirs.

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
use crate::server::shares::{Share, Shares};

/// Bytes of a review. It holds the object twice, before and after; the API server takes 3 MiB of an object, and stores less.
pub const LARGEST_REVIEW: usize = 8 << 20;
/// Values of an object as it shall be: members, elements and what they are in.
const MOST_VALUES_OF_NEW: usize = 20_000;
/// Values of a whole review, in which the object as it is may have a few more than the one that was once let in.
pub const MOST_VALUES: usize = 48_000;

/// How much is let in: of callers that are verified, and of all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of bodies.
    pub bytes: usize,
    /// How many of them are of one address.
    pub bytes_per_address: usize,
    /// Reviews that are answered at the same time.
    pub reviews: usize,
    /// How many of them are of one address.
    pub reviews_per_address: usize,
    /// How long a body may take.
    pub body: Duration,
    /// How long a review waits for its turn.
    pub wait: Duration,
}

/// The limits of a program.
pub(crate) const LIMITS: Limits = Limits {
    bytes: 2 * LARGEST_REVIEW,
    bytes_per_address: 3 * (LARGEST_REVIEW / 2),
    reviews: 16,
    reviews_per_address: 12,
    body: Duration::from_secs(10),
    wait: Duration::from_secs(5),
};

/// What lets reviews in.
pub(crate) struct Gate {
    limits: Limits,
    verified: Pool,
    strangers: Pool,
    only_verified: Verified,
}

/// The budget that reviews share.
struct Pool {
    bytes: Shares,
    lane: Lane,
    values: Arc<Semaphore>,
}

/// The reviews that only verified callers may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// Those of admission: the API server proves who it is by a certificate.
    pub admissions: bool,
    /// Those of conversion, for which it has no certificate to show: it knows a key.
    pub conversions: bool,
}

/// What a review that was let in takes, until it is answered.
pub(super) struct Room {
    _bytes: Share,
    _turn: Turn,
    _values: OwnedSemaphorePermit,
}

/// Why a review was not let in, or can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has too many bytes.
    #[error("a review has at most {LARGEST_REVIEW} bytes")]
    TooLarge,
    /// It has too many values.
    #[error("an object has at most {MOST_VALUES_OF_NEW} values, a review {MOST_VALUES}")]
    TooManyValues,
    /// Its body did not come in time.
    #[error("the review did not arrive in time")]
    Late,
    /// Others are served, and nothing is left for this one.
    #[error("too many concurrent reviews")]
    Busy,
    /// It comes from somebody else than the API server.
    #[error(
        "only the API server may call this webhook, and the client presented no certificate signed by --webhook-client-ca"
    )]
    Stranger,
    /// Its path lacks the key.
    #[error(
        "only the API server may call this webhook, and the path does not end with --webhook-conversion-key"
    )]
    NoKey,
    /// It is no review.
    #[error("not a review: {0}")]
    Unreadable(String),
    /// The server that it came through knows no limits.
    #[error("this server does not accept reviews")]
    NoGate,
}

impl IntoResponse for Refusal {
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

impl Gate {
    pub fn new(limits: Limits, only_verified: Verified) -> Self {
        let pool = |bytes_per_address, reviews_per_address| Pool {
            bytes: Shares::new(limits.bytes, bytes_per_address),
            lane: Lane::new(limits.reviews, reviews_per_address),
            values: Arc::new(Semaphore::new(MOST_VALUES)),
        };
        Self {
            limits,
            // The API server is one, whatever its addresses are.
            verified: pool(limits.bytes, limits.reviews),
            strangers: pool(limits.bytes_per_address, limits.reviews_per_address),
            only_verified,
        }
    }

    /// Refuses who is not verified where others are not served.
    fn check(&self, peer: Peer, is_admission: bool) -> Result<(), Refusal> {
        match (is_admission, self.only_verified) {
            _ if peer.verified => Ok(()),
            (true, Verified { admissions: true, .. }) => Err(Refusal::Stranger),
            (false, Verified { conversions: true, .. }) => Err(Refusal::NoKey),
            _ => Ok(()),
        }
    }

    /// Reads the body of a request and lets it in, or says why not.
    async fn admit(&self, request: Request, peer: Peer) -> Result<(Bytes, Room), Refusal> {
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: usize| length > LARGEST_REVIEW) {
            return Err(Refusal::TooLarge);
        }
        let pool = if peer.verified { &self.verified } else { &self.strangers };
        let mut share = pool.bytes.enter(peer.address);
        let evicted = share.evicted().clone();
        let body = tokio::select! {
            body = timeout(self.limits.body, read_body(request.into_body(), length, &mut share)) => {
                body.map_err(|_| Refusal::Late)??
            }
            () = evicted.cancelled() => return Err(Refusal::Busy),
        };
        share.settle().map_err(|_| Refusal::Busy)?;
        let values = count_values(&body);
        if values > MOST_VALUES {
            return Err(Refusal::TooManyValues);
        }
        let room = timeout(self.limits.wait, pool.wait_for_room(share, peer, values));
        Ok((body, room.await.map_err(|_| Refusal::Busy)??))
    }
}

impl Pool {
    async fn wait_for_room(&self, share: Share, peer: Peer, values: usize) -> Result<Room, Refusal> {
        let who = if peer.verified { String::new() } else { peer.address.to_string() };
        let turn = self.lane.enter(&who).await;
        let values = u32::try_from(values).map_err(|_| Refusal::TooManyValues)?;
        let values = Arc::clone(&self.values).acquire_many_owned(values).await.map_err(|_| Refusal::Busy)?;
        Ok(Room { _bytes: share, _turn: turn, _values: values })
    }
}

/// Lets a request in by the gate that its server has.
pub(super) async fn admit(request: Request, is_admission: bool) -> Result<(Bytes, Room), Refusal> {
    let extensions = request.extensions();
    let gate = extensions.get::<Arc<Gate>>().cloned().ok_or(Refusal::NoGate)?;
    let peer = *extensions.get::<Peer>().ok_or(Refusal::NoGate)?;
    gate.check(peer, is_admission)?;
    gate.admit(request, peer).await
}

/// Reads a body to its end. What has come counts, not what was announced.
async fn read_body(mut body: Body, length: Option<usize>, share: &mut Share) -> Result<Bytes, Refusal> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > LARGEST_REVIEW {
            return Err(Refusal::TooLarge);
        }
        share.take(data.len()).map_err(|_| Refusal::Busy)?;
        if whole.is_empty() {
            whole.reserve_exact(length.unwrap_or(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// Refuses an object that could not be changed once it is stored, since a review then holds it twice.
pub(super) fn check_new(object: &[u8]) -> Result<(), Refusal> {
    if count_values(object) > MOST_VALUES_OF_NEW { Err(Refusal::TooManyValues) } else { Ok(()) }
}

/// Refuses what is too large to be decoded.
pub(super) fn check_whole(body: &[u8]) -> Result<(), Refusal> {
    if body.len() > LARGEST_REVIEW {
        return Err(Refusal::TooLarge);
    }
    if count_values(body) > MOST_VALUES { Err(Refusal::TooManyValues) } else { Ok(()) }
}

/// An upper bound of the values in a JSON document.
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
