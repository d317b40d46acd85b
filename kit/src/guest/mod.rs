//! The only client for the API servers of workload clusters. This crate calls a workload cluster a guest.
//!
//! A tenant controls the guest, and a user with root access to one of the guest's nodes can impersonate the guest's
//! API server. So responses are trusted as little as possible, and each response is limited in size and duration:
//!
//! | module | content |
//! |---|---|
//! | [`kubeconfig`] | parses certificates, key and token in the tenant's Secret, and ignores commands, paths and the server |
//! | [`client`](crate::client) | the connection, with small windows, short headers and no compression |
//! | [`responses`](crate::share::responses) | limits response bytes in memory: per guest, per namespace and in total |
//! | [`answer`] | decodes responses into types that keep the required fields and skip the rest |
//! | [`discovery`] | the kinds that a guest serves |
//! | [`PodPort`] | sends requests to programs in Pods, such as each of several API servers |
//! | [`watch`] | lists and watches metadata |
//! | [`error`] | errors whose text is safe in messages |

pub mod answer;
pub mod discovery;
pub mod error;
mod few;
pub mod kubeconfig;
mod pace;
mod pod_port;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use kube::{Client, Config, core};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

pub use answer::{Keys, Marks, Metadata};
pub use error::{ApiRejection, GuestError, bounded};
pub use few::Few;
pub use kubeconfig::{KEY, server};
use pace::WatchRate;
pub use pod_port::PodPort;

use crate::share::responses::{HeldBytes, ResponseLimits};

/// The maximum size of a response in bytes. A watch that sends more is restarted.
const MAX_ANSWER: usize = 8 << 20;
/// The maximum number of lines that are kept from a response.
const MAX_LINES: usize = 64;
/// The maximum number of bytes that are read from an error response.
const MAX_REFUSAL: usize = 64 << 10;

/// A client for one guest's API server. Clones share the connection.
#[derive(Clone)]
pub struct GuestClient {
    client: Client,
    /// `None` if the guest was created from an existing client.
    config: Option<Arc<Config>>,
    namespace: String,
    limits: ResponseLimits,
    deadline: Duration,
    pace: Arc<Mutex<WatchRate>>,
}

/// A request that `kube::core::Request` built, or the error if it couldn't be built.
pub type MadeRequest = Result<Request<Vec<u8>>, core::request::Error>;

impl GuestClient {
    /// Creates a client for the API server at `server`, with the credentials in Cluster API's
    /// kubeconfig Secret. Doesn't send a request. No call takes longer than `deadline`.
    ///
    /// # Errors
    /// Fails if the Secret's credentials are missing or invalid. The message says what is wrong, but doesn't quote the Secret.
    pub async fn connect(
        namespace: &str,
        cluster: &str,
        kubeconfig: &Secret,
        server: &str,
        deadline: Duration,
    ) -> Result<Self, String> {
        let (client, config) = kubeconfig::build_client(namespace, kubeconfig, server, MAX_ANSWER).await?;
        let guest = Self::with_client(client, namespace, cluster, deadline);
        Ok(Self { config: Some(Arc::new(config)), ..guest })
    }

    /// Same as [`Self::connect`], with an existing client. Such a guest can't reach Pods ([`GuestClient::read_lines_of_pod`]).
    pub fn with_client(client: Client, namespace: &str, cluster: &str, deadline: Duration) -> Self {
        let (limits, pace) = (ResponseLimits::of(namespace, cluster), Arc::default());
        Self { client, config: None, namespace: namespace.to_owned(), limits, deadline, pace }
    }

    /// Sends a request and decodes the response, which is limited to `most` bytes.
    ///
    /// # Errors
    /// See [`GuestError`]. A response that is too large, or that doesn't have the expected form, counts as a refusal.
    pub async fn read<T>(&self, request: MadeRequest, most: usize) -> Result<T, GuestError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.within(async {
            let (bytes, held) = self.answer(request, most).await?;
            answer::decode(&self.namespace, bytes, held).await
        })
        .await
    }

    /// Same as [`GuestClient::read`], but returns `None` if the response has status 404, such as for a missing object or an unserved
    /// kind.
    ///
    /// # Errors
    /// Same as [`GuestClient::read`].
    pub async fn read_if_there<T>(&self, request: MadeRequest, most: usize) -> Result<Option<T>, GuestError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        match self.read(request, most).await {
            Err(GuestError::Refused(refusal)) if refusal.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Sends a request and ignores the response body. Use it if only the success matters.
    ///
    /// # Errors
    /// See [`GuestError`].
    pub async fn send(&self, request: MadeRequest) -> Result<(), GuestError> {
        self.within(async { self.open(request).await.map(drop) }).await
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, GuestError>>) -> Result<T, GuestError> {
        let late = |_| Err(GuestError::late(self.deadline));
        timeout(self.deadline, call).await.unwrap_or_else(late)
    }

    async fn answer(&self, request: MadeRequest, most: usize) -> Result<(Vec<u8>, HeldBytes), GuestError> {
        let body = self.open(request).await?;
        answer::collect(body, most, &self.limits).await
    }

    /// Sends a request and returns the response body, or the error in the response.
    async fn open(&self, request: MadeRequest) -> Result<Body, GuestError> {
        let request = request.map_err(|error| ApiRejection::new(&error.to_string()))?;
        let sent = self.client.send(request.map(Body::from)).await;
        let (head, body) = sent.map_err(|error| GuestError::unreachable(&error))?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let code = head.status.as_u16();
        let read = answer::collect(body, MAX_REFUSAL, &self.limits).await;
        let refusal = match read {
            Ok((bytes, _held)) => ApiRejection::read(code, &bytes),
            Err(_) => ApiRejection::read(code, &[]),
        };
        Err(if code == 401 { GuestError::Unreachable(refusal.message) } else { refusal.into() })
    }
}

/// Returns the lines in `answer` that begin with one of the prefixes in `begins`: at most [`MAX_LINES`], each with a limited
/// length. Lines that aren't UTF-8 are skipped.
fn select_lines(answer: &[u8], begins: &[&str]) -> Vec<String> {
    let lines = answer.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let is_wanted = |line: &&str| begins.iter().any(|word| line.starts_with(word));
    lines.filter(is_wanted).take(MAX_LINES).map(bounded).collect()
}

#[cfg(test)]
mod tests;
