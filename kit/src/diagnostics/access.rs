//! Authorizes access to a path with a TokenReview and a SubjectAccessReview, and caches the results briefly.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

/// The time for which access is cached. A revoked token or right still works for this long.
const ALLOWED_FOR: Duration = Duration::from_mins(1);
/// The time for which a refusal is cached. A new right doesn't work yet for this long.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// The number of cached results at which refusals and expired results are evicted, so that invented tokens can't fill the memory.
const LARGEST: usize = 256;
/// The maximum number of concurrent reviews, so that strangers can't cause more API requests.
const REVIEWS: usize = 2;
/// The timeout for a review, including the wait for other reviews.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The reasons why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AccessDenied {
    /// The token is missing, or the API server doesn't accept it.
    #[error("a bearer token that the API server accepts is required")]
    Unauthenticated,
    /// The user lacks the right.
    #[error(
        "{user} may not get {path}. Bind a ClusterRole with the verb get on this nonResourceURL (…-metrics-reader)"
    )]
    Forbidden {
        /// The user who sent the request.
        user: String,
        /// The requested path.
        path: String,
    },
    /// The API server didn't respond, or it refused the review.
    #[error("the API server did not identify the user. Try again")]
    Unknown,
}

/// Cached results with their expiry time. The key is a digest of path and token, so that tokens don't stay in memory.
type Known = HashMap<[u8; 32], (Instant, Result<(), AccessDenied>)>;

/// Asks the API server if a token's user may access a path, and caches the result.
pub(super) struct AccessReviewer {
    client: Client,
    places: Semaphore,
    known: Mutex<Known>,
}

impl AccessReviewer {
    pub(super) fn new(client: Client) -> Self {
        Self { client, places: Semaphore::new(REVIEWS), known: Mutex::default() }
    }

    /// Returns an error unless the token's user may `get` the path.
    pub(super) async fn review(&self, token: Option<&str>, path: &str) -> Result<(), AccessDenied> {
        let token = token.ok_or(AccessDenied::Unauthenticated)?;
        let key: [u8; 32] =
            Sha256::new().chain_update(path).chain_update([0]).chain_update(token).finalize().into();
        if let Some(known) = self.known(&key) {
            return known;
        }
        let answer = tokio::time::timeout(TIMEOUT, self.ask(token, path, &key)).await;
        answer.unwrap_or_else(|_| {
            tracing::warn!(path, "the API server did not answer a token review in time");
            Err(AccessDenied::Unknown)
        })
    }

    fn known(&self, key: &[u8; 32]) -> Option<Result<(), AccessDenied>> {
        let known = self.known.lock();
        let (until, answer) = known.get(key)?;
        (*until > Instant::now()).then(|| answer.clone())
    }

    async fn ask(&self, token: &str, path: &str, key: &[u8; 32]) -> Result<(), AccessDenied> {
        let Ok(_place) = self.places.acquire().await else { return Err(AccessDenied::Unknown) };
        // Another request may have reviewed the same token while this one waited.
        if let Some(known) = self.known(key) {
            return known;
        }
        let answer = match self.decide(token, path).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%error, path, "cannot review a token; grant the rights that config/ contains");
                return Err(AccessDenied::Unknown);
            }
        };
        let lasts = if answer.is_ok() { ALLOWED_FOR } else { REFUSED_FOR };
        let mut known = self.known.lock();
        if known.len() >= LARGEST {
            let now = Instant::now();
            // Granted access stays cached, so that strangers can't push it out.
            known.retain(|_, (until, answer)| *until > now && answer.is_ok());
        }
        known.insert(*key, (Instant::now() + lasts, answer.clone()));
        answer
    }

    async fn decide(&self, token: &str, path: &str) -> kube::Result<Result<(), AccessDenied>> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviewed = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let user = reviewed
            .status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| status.user);
        let Some(user) = user else { return Ok(Err(AccessDenied::Unauthenticated)) };
        let name = user.username.clone().unwrap_or_default();
        let review = access_review(user, path);
        let reviewed = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Ok(()) } else { Err(AccessDenied::Forbidden { user: name, path: path.to_owned() }) })
    }
}

fn access_review(user: UserInfo, path: &str) -> SubjectAccessReview {
    let UserInfo { extra, groups, uid, username } = user;
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            extra,
            groups,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            }),
            resource_attributes: None,
            uid,
            user: username,
        },
        ..SubjectAccessReview::default()
    }
}
