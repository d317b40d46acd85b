//! Limits the duration of API server requests. Prints which server a slow command waits for, and fails with the cause
//! after a timeout.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::config::{Config, Kubeconfig};
use tower::{BoxError, Layer, Service};

use crate::state::trouble;
use crate::terminal::output::write_over;

/// The time after which a request without a response is reported.
pub const SILENCE: Duration = Duration::from_secs(5);
/// The timeout of a request. The API server's default timeout is the same.
const LIMIT: Duration = Duration::from_mins(1);
/// The prefix of contexts that `bootstrap start` writes.
const BOOTSTRAP_CONTEXT: &str = "layercake-";

/// The API server of a client, with the data for messages. As a layer of the client, it limits the duration of
/// requests.
#[derive(Clone, Debug)]
pub struct ReachedServer(Arc<Known>);

#[derive(Debug)]
struct Known {
    url: String,
    context: String,
    /// The bootstrap cluster to which the API server belongs.
    bootstrap: Option<String>,
    /// True if the missing response has been reported.
    mentioned: AtomicBool,
    /// The values of [`SILENCE`] and [`LIMIT`]. Tests set shorter durations.
    limits: (Duration, Duration),
}

impl ReachedServer {
    /// Describes the API server of a kubeconfig context.
    pub fn new(path: Option<&Path>, file: &Kubeconfig, context: Option<&str>, config: &Config) -> Self {
        let context = context.or(file.current_context.as_deref()).unwrap_or_default().to_owned();
        let of_context = context.strip_prefix(BOOTSTRAP_CONTEXT).map(str::to_owned);
        let bootstrap = path.and_then(trouble::name_of_kubeconfig).or(of_context);
        Self::with(&config.cluster_url.to_string(), context, bootstrap, (SILENCE, LIMIT))
    }

    fn with(url: &str, context: String, bootstrap: Option<String>, limits: (Duration, Duration)) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self(Arc::new(Known { url, context, bootstrap, mentioned: AtomicBool::new(false), limits }))
    }

    /// Prints that the response is missing. Prints it again only after the next response.
    fn mention(&self) {
        if !self.0.mentioned.swap(true, Ordering::Relaxed) {
            let hint = self.hint().map(|hint| format!(". {hint}")).unwrap_or_default();
            // A command that starts a bootstrap cluster may show its progress on the current line.
            write_over(&format!("waiting for the answer of {self}{hint}"));
        }
    }

    fn hint(&self) -> Option<String> {
        self.0.bootstrap.as_deref().and_then(trouble::trouble)
    }

    fn unreachable(&self, reason: &str) -> BoxError {
        let hint = self.hint().map(|hint| format!(". {hint}")).unwrap_or_default();
        Box::new(Unreachable(format!("{self} does not answer: {reason}{hint}")))
    }
}

impl fmt::Display for ReachedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known { url, context, bootstrap, .. } = &*self.0;
        write!(f, "the API server {url}")?;
        match bootstrap {
            Some(name) => write!(f, " of bootstrap cluster {name}"),
            None if context.is_empty() => Ok(()),
            None => write!(f, " of context {context}"),
        }
    }
}

/// The error for a request without a response.
#[derive(Debug)]
struct Unreachable(String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Returns the message of the deepest cause. The messages above it name layers in the client.
fn root(error: &BoxError) -> String {
    let mut cause: &(dyn std::error::Error + 'static) = error.as_ref();
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

impl<S> Layer<S> for ReachedServer {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Bounded { inner, server: self.clone() }
    }
}

/// A client service whose requests have a timeout.
#[derive(Clone, Debug)]
pub struct Bounded<S> {
    inner: S,
    server: ReachedServer,
}

impl<S, A, B> Service<Request<A>> for Bounded<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Error: Into<BoxError> + Send,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let server = self.server.clone();
        let mut answered = Box::pin(self.inner.call(request));
        Box::pin(async move {
            let (silence, limit) = server.0.limits;
            let mut answer = tokio::time::timeout(silence, &mut answered).await;
            if answer.is_err() {
                server.mention();
                answer = tokio::time::timeout(limit.saturating_sub(silence), answered).await;
            }
            match answer {
                Ok(Ok(answer)) => {
                    server.0.mentioned.store(false, Ordering::Relaxed);
                    Ok(answer)
                }
                Ok(Err(error)) => {
                    let error: BoxError = error.into();
                    // Keep kube errors, for example from a program that gets credentials.
                    if error.is::<kube::Error>() {
                        Err(error)
                    } else {
                        Err(server.unreachable(&root(&error)))
                    }
                }
                Err(_) => Err(server.unreachable(&format!("no answer within {limit:?}"))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    fn server(bootstrap: Option<&str>) -> ReachedServer {
        let url = "https://127.0.0.1:6443/".to_owned();
        ReachedServer::with(&url, "prod".to_owned(), bootstrap.map(str::to_owned), (SHORT, 3 * SHORT))
    }

    async fn outcome<F>(server: &ReachedServer, answer: impl Fn() -> F + Clone) -> Result<(), String>
    where
        F: Future<Output = Result<Response<()>, BoxError>> + Send + 'static,
    {
        let mut service = server.layer(tower::service_fn(move |_: Request<()>| answer()));
        service.call(Request::new(())).await.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_silent_server_is_named_in_bounded_time() {
        let server = server(None);
        let silent = outcome(&server, std::future::pending).await.unwrap_err();
        let expected =
            "the API server https://127.0.0.1:6443 of context prod does not answer: no answer within 60ms";
        assert_eq!(silent, expected);
        assert!(server.0.mentioned.load(Ordering::Relaxed));
        outcome(&server, || async { Ok(Response::new(())) }).await.unwrap();
        assert!(!server.0.mentioned.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn a_refused_connection_has_its_cause_alone() {
        let refused = || async {
            let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused");
            Err(Box::<dyn std::error::Error + Send + Sync>::from(io::Error::other(refused)))
        };
        let error = outcome(&server(None), refused).await.unwrap_err();
        assert!(error.ends_with("of context prod does not answer: Connection refused"), "{error}");
    }

    #[tokio::test]
    async fn errors_of_credentials_stay_what_they_are() {
        let failed = || async {
            Err::<Response<()>, BoxError>(
                kube::Error::Api(Box::new(kube::core::Status::failure("no", "exec"))).into(),
            )
        };
        let mut service = server(None).layer(tower::service_fn(move |_: Request<()>| failed()));
        let error: BoxError = service.call(Request::new(())).await.map(drop).unwrap_err();
        assert!(error.is::<kube::Error>());
    }
}
