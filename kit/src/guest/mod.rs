//! A guest cluster's API server: the only client of it.
//!
//! The guest is its tenant's, and whoever is root on one of its nodes answers in its name. So nothing that it sends is
//! believed further than it must be, and no answer is larger or takes longer than its reader says:
//!
//! | module | what is in it |
//! |---|---|
//! | [`kubeconfig`] | certificates, key and token out of the tenant's Secret, as data: no command, no path, no server of its own |
//! | [`client`](crate::client) | the connection: small windows, short headers, nothing compressed |
//! | [`intake`] | the bytes of answers that are held at a time: of one guest, of one namespace's, and of all |
//! | [`answer`] | answers, decoded into types that keep what is needed and skip the rest |
//! | [`discovery`] | the kinds that a guest serves |
//! | [`PodPort`] | pages of programs in Pods, such as each API server of several |
//! | [`watch`] | lists and watches of metadata |
//! | [`error`] | why a call came to nothing, in words that messages may hold |

pub mod answer;
pub mod discovery;
pub mod error;
mod few;
pub mod intake;
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
pub use error::{GuestError, Refusal, bounded};
pub use few::Few;
use intake::{Held, Share};
pub use kubeconfig::{KEY, server};
use pace::Pace;
pub use pod_port::PodPort;

/// The most bytes of any answer, and of any watch until it is begun again.
const MAX_ANSWER: usize = 8 << 20;
/// The most lines of an answer that are kept.
const MAX_LINES: usize = 64;
/// The most bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 << 10;

/// A guest's API server. Clones share the connection.
#[derive(Clone)]
pub struct Guest {
    client: Client,
    /// None of a client that there was already.
    config: Option<Arc<Config>>,
    namespace: String,
    share: Share,
    deadline: Duration,
    pace: Arc<Mutex<Pace>>,
}

/// A request that `kube::core::Request` made, or why it could not.
pub type MadeRequest = Result<Request<Vec<u8>>, core::request::Error>;

impl Guest {
    /// The API server at `server` of a cluster, with the credentials of Cluster API's Secret; no request is sent yet. No
    /// call takes longer than the deadline.
    ///
    /// # Errors
    /// What the Secret lacks. Its text is in no message.
    pub async fn connect(
        namespace: &str,
        cluster: &str,
        kubeconfig: &Secret,
        server: &str,
        deadline: Duration,
    ) -> Result<Self, String> {
        let (client, config) = kubeconfig::client(namespace, kubeconfig, server, MAX_ANSWER).await?;
        let guest = Self::with_client(client, namespace, cluster, deadline);
        Ok(Self { config: Some(Arc::new(config)), ..guest })
    }

    /// The same with a client that there is already.
    pub fn with_client(client: Client, namespace: &str, cluster: &str, deadline: Duration) -> Self {
        let (share, pace) = (Share::of(namespace, cluster), Arc::default());
        Self { client, config: None, namespace: namespace.to_owned(), share, deadline, pace }
    }

    /// Sends a request and decodes the answer, of which at most so many bytes are read.
    ///
    /// # Errors
    /// See [`GuestError`]. An answer that is larger, or is not what was asked for, counts as a refusal.
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

    /// The same, or none where the guest has no such object.
    ///
    /// # Errors
    /// As of [`Guest::read`].
    pub async fn read_if_there<T>(&self, request: MadeRequest, most: usize) -> Result<Option<T>, GuestError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        match self.read(request, most).await {
            Err(GuestError::Refused(refusal)) if refusal.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Sends a request whose answer says nothing but that it was carried out: it is not read.
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

    async fn answer(&self, request: MadeRequest, most: usize) -> Result<(Vec<u8>, Held), GuestError> {
        let body = self.open(request).await?;
        answer::collect(body, most, &self.share).await
    }

    /// Sends a request; the body of the answer, unless it is a refusal.
    async fn open(&self, request: MadeRequest) -> Result<Body, GuestError> {
        let request = request.map_err(|error| Refusal::new(&error.to_string()))?;
        let sent = self.client.send(request.map(Body::from)).await;
        let (head, body) = sent.map_err(|error| GuestError::unreachable(&error))?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let code = head.status.as_u16();
        let read = answer::collect(body, MAX_REFUSAL, &self.share).await;
        let refusal = match read {
            Ok((bytes, _held)) => Refusal::read(code, &bytes),
            Err(_) => Refusal::read(code, &[]),
        };
        Err(if code == 401 { GuestError::Unreachable(refusal.message) } else { refusal.into() })
    }
}

/// The lines of an answer that begin with one of these words.
fn lines(answer: &[u8], begins: &[&str]) -> Vec<String> {
    let lines = answer.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let is_wanted = |line: &&str| begins.iter().any(|word| line.starts_with(word));
    lines.filter(is_wanted).take(MAX_LINES).map(bounded).collect()
}

#[cfg(test)]
mod tests;
