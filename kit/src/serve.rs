//! Serves health, readiness and metrics over plain HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::server;

/// The unmet requirements for readiness. Clones share one list.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<Vec<&'static str>>>);

/// A requirement for readiness. If it is dropped without [`Requirement::met`], the replica stays unready.
pub struct Requirement {
    missing: Readiness,
    what: &'static str,
}

/// The requirement that remains until the program has registered all others.
const START: &str = "its start";

impl Readiness {
    /// Creates the readiness for a program that hasn't registered its requirements yet.
    pub(crate) fn starting() -> Self {
        let ready = Self::default();
        ready.0.lock().push(START);
        ready
    }

    /// Records that the program has registered all its requirements.
    pub(crate) fn started(&self) {
        self.0.lock().retain(|missing| *missing != START);
    }

    /// Adds a requirement. The replica isn't ready until the requirement is met. `what` names it in the response from `/readyz`.
    pub fn require(&self, what: &'static str) -> Requirement {
        self.0.lock().push(what);
        Requirement { missing: self.clone(), what }
    }

    /// Returns the unmet requirements.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.lock().clone()
    }
}

impl Requirement {
    /// Marks the requirement as met, permanently.
    pub fn met(self) {
        self.missing.0.lock().retain(|missing| *missing != self.what);
    }
}

/// Serves `/healthz` and `/readyz` at `address` in the background.
pub async fn serve_health(
    address: SocketAddr,
    ready: Readiness,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new().route("/healthz", get(|| async { "ok" })).route(
        "/readyz",
        get(move || {
            let missing = ready.missing();
            async move {
                if missing.is_empty() {
                    (StatusCode::OK, "ok".to_owned())
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}", missing.join(", ")))
                }
            }
        }),
    );
    serve(address, router, stop).await
}

/// Serves `/metrics` at `address` in the background, over plain HTTP and without authentication.
pub async fn serve_plain_metrics(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new().route(
        "/metrics",
        get(move || async move { ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.text()) }),
    );
    serve(address, router, stop).await
}

async fn serve(address: SocketAddr, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::debug!(address = %listener.local_addr()?, "serving");
    server::spawn(listener, None, router, server::LIMITS, stop);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_nothing_is_missing() {
        let ready = Readiness::default();
        let (webhook, cache) = (ready.require("webhook"), ready.require("cache"));
        webhook.met();
        assert_eq!(ready.missing(), ["cache"]);
        cache.met();
        assert!(ready.missing().is_empty());
    }

    #[test]
    fn nothing_is_ready_that_has_not_named_what_it_requires() {
        let ready = Readiness::starting();
        assert_eq!(ready.missing(), ["its start"]);
        let webhook = ready.require("webhook");
        ready.started();
        assert_eq!(ready.missing(), ["webhook"]);
        webhook.met();
        assert!(ready.missing().is_empty());
    }
}
