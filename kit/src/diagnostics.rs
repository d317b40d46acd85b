//! Serves /metrics over HTTPS to clients that may `get` that path, as Cluster API's managers do.

mod access;
mod certificate;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::access::{AccessDenied, AccessReviewer};
use self::certificate::SelfSigned;
use crate::metrics::Metrics;
use crate::server;
use crate::server::tls::build_acceptor;

/// The path to serve, which is also the nonResourceURL in a role.
const PATH: &str = "/metrics";

struct Served {
    metrics: Arc<Metrics>,
    access: AccessReviewer,
}

/// Serves `/metrics` at `address` over HTTPS in the background, with a self-signed certificate.
///
/// The API server authenticates the client's token and authorizes access to the path.
pub(crate) async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    client: Client,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let tls = build_acceptor(Arc::new(SelfSigned::generate()?), None)?;
    let router = router(Served { metrics, access: AccessReviewer::new(client) });
    server::spawn(listener, Some(tls), router, server::LIMITS, stop);
    Ok(())
}

fn router(served: Served) -> Router {
    Router::new().route(PATH, get(answer)).with_state(Arc::new(served))
}

async fn answer(State(served): State<Arc<Served>>, headers: HeaderMap) -> Response {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    match served.access.review(token, PATH).await {
        Ok(()) => ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], served.metrics.text()).into_response(),
        Err(refusal) => refuse(&refusal),
    }
}

fn refuse(refusal: &AccessDenied) -> Response {
    let message = refusal.to_string();
    match refusal {
        AccessDenied::Unauthenticated => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], message).into_response()
        }
        AccessDenied::Forbidden { .. } => (StatusCode::FORBIDDEN, message).into_response(),
        AccessDenied::Unknown => (StatusCode::SERVICE_UNAVAILABLE, message).into_response(),
    }
}

/// Returns the bearer token in an Authorization header. Returns `None` for other schemes and for an empty token.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
