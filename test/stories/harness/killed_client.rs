//! A client that simulates a program that is killed at one of its writes.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tokio::sync::Notify;
use tower::{Layer, Service};

/// The point at which a program is killed.
#[derive(Clone, Debug)]
pub struct Kill {
    /// The number of the write at which it is killed, starting at 1.
    at: usize,
    /// True if the API server still receives that write.
    is_sent: bool,
    writes: Arc<AtomicUsize>,
    killed: Arc<Notify>,
}

impl Kill {
    pub fn new(at: usize, is_sent: bool) -> Self {
        Self { at, is_sent, writes: Arc::default(), killed: Arc::default() }
    }

    /// Returns a client that doesn't receive the response to that write or to any later request.
    pub fn client(&self, config: Config) -> Client {
        ClientBuilder::try_from(config).expect("a client").with_layer(self).build()
    }

    /// Runs the program until it is killed. Returns its result if it wasn't killed.
    pub async fn run<T>(&self, program: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            ended = program => Some(ended),
            () = self.killed.notified() => None,
        }
    }
}

impl<S> Layer<S> for Kill {
    type Service = Killed<S>;

    fn layer(&self, inner: S) -> Killed<S> {
        Killed { inner, kill: self.clone() }
    }
}

/// The client layer that stops requests.
#[derive(Clone)]
pub struct Killed<S> {
    inner: S,
    kill: Kill,
}

impl<S> Service<Request<Body>> for Killed<S>
where
    S: Service<Request<Body>>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Kill { at, is_sent, ref writes, ref killed } = self.kill;
        // Access reviews are posted, but don't change anything.
        let is_write = request.method() != Method::GET && !request.uri().path().ends_with("reviews");
        let write = if is_write { writes.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
        if writes.load(Ordering::SeqCst) < at || (write == at && is_sent && at > 0) {
            let (answer, killed) = (self.inner.call(request), killed.clone());
            return Box::pin(async move {
                let answer = answer.await;
                if write == at && write > 0 {
                    killed.notify_one();
                    return pending().await;
                }
                answer
            });
        }
        if write == at {
            killed.notify_one();
        }
        Box::pin(pending())
    }
}
