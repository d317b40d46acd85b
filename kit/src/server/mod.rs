//! The one HTTP server of a program, within bounds: of connections, handshakes, headers, streams and time.
//!
//! Whoever reaches a port may open connections and send what they like. So every connection has a place among few, shared
//! between addresses; a client that is slow or silent is cut off; and one address can't keep out the others ([`shares`]).
//! Clients that have proved who they are ([`callers`]) have places of their own. What is read of a body is bounded by who
//! reads it.

mod activity;
pub(crate) mod callers;
pub(crate) mod peer;
mod place;
pub mod shares;
pub(crate) mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::server::activity::Activity;
use crate::server::callers::Callers;
use crate::server::peer::Peer;
pub(crate) use crate::server::place::Limits;
use crate::server::place::{Place, Places};

/// Bytes of the headers of a request.
const HEADER_BYTES: u16 = 16 << 10;
/// Bytes of the headers of a request over HTTP/2, of which a connection has many.
const STREAM_HEADER_BYTES: u32 = 8 << 10;
/// Requests at the same time on one HTTP/2 connection; the API server opens another connection for more.
const STREAMS: u32 = 32;
/// Bytes that an HTTP/2 client may send of one request, and of all of its connection, before they are read.
const WINDOWS: (u32, u32) = (128 << 10, 256 << 10);
/// An HTTP/2 connection on which nothing came for so long is asked whether it lives.
const ASKED_AFTER: Duration = Duration::from_secs(30);
/// The last answers of a connection that is closed get this long.
const CLOSE: Duration = Duration::from_secs(5);

/// The limits of all servers.
pub(crate) const LIMITS: Limits = Limits {
    connections: 96,
    per_address: 64,
    handshake: Duration::from_secs(5),
    headers: Duration::from_secs(10),
    request: Duration::from_secs(30),
    idle: Duration::from_mins(2),
};

struct Server {
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    callers: Callers,
    places: Places,
    stop: CancellationToken,
}

/// Serves `router` in the background until `stop`; then connections end after the answers that they wait for.
pub(crate) fn spawn(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    spawn_for(Callers::default(), listener, tls, router, limits, stop);
}

/// As [`spawn`], and recognizes these callers, for which it keeps places that strangers cannot take.
pub(crate) fn spawn_for(
    callers: Callers,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let places = Places::new(&limits, &callers);
    let server = Arc::new(Server { tls, router, limits, callers, places, stop });
    tokio::spawn(server.accept(listener));
}

impl Server {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of file descriptors, most likely: the next accept fails too unless some are closed.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(place) = self.places.enter(of(peer).address) else {
                tracing::debug!(%peer, "connection refused: too many are open");
                continue;
            };
            tokio::spawn(Arc::clone(&self).keep(stream, peer, place));
        }
    }

    /// Serves one connection until it ends or its place is given to another address.
    async fn keep(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, place: Place) {
        let evicted = place.evicted();
        tokio::select! {
            () = self.serve_connection(stream, peer, &place) => {}
            () = evicted.cancelled() => tracing::debug!(%peer, "connection closed: its place was given to another client"),
        }
    }

    async fn serve_connection(&self, stream: TcpStream, peer: SocketAddr, place: &Place) {
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_http(stream, of(peer), false, place).await };
        match timeout(self.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                // A certificate that the authority did not sign ends the handshake.
                let verified = session.peer_certificates().is_some_and(|chain| !chain.is_empty());
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                if verified {
                    self.places.promote(place);
                }
                self.serve_http(stream, Peer { verified, ..of(peer) }, is_http2, place).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    async fn serve_http<S>(&self, stream: S, peer: Peer, is_http2: bool, place: &Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::<Activity>::default();
        let service = service_fn(|request: Request<Incoming>| {
            let (router, busy) = (self.router.clone(), activity.begin());
            let limit = self.limits.request;
            let (request, peer) = self.recognize(request, peer, place);
            async move {
                let answer = answer(router, request, peer, limit).await;
                drop(busy);
                Ok::<_, Infallible>(answer)
            }
        });
        let builder = self.protocol(is_http2);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = activity.idle(self.limits.headers, self.limits.idle) => {}
            () = self.stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        // Requests have an end of their own; answers that nobody takes do not.
        let _ = timeout(self.limits.request + CLOSE, async {
            tokio::select! {
                _ = connection.as_mut() => {}
                () = activity.idle(CLOSE, CLOSE) => {}
            }
        })
        .await;
    }

    /// A request whose path ends with the callers' key is one of theirs, and is handed on without the key.
    fn recognize<B>(&self, mut request: Request<B>, peer: Peer, place: &Place) -> (Request<B>, Peer) {
        let Some(uri) = self.callers.without_key(request.uri()) else { return (request, peer) };
        *request.uri_mut() = uri;
        self.places.promote(place);
        (request, Peer { verified: true, ..peer })
    }

    /// One protocol, so that nobody waits without limit for the first bytes, which would decide it.
    fn protocol(&self, is_http2: bool) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.headers)
            .max_buf_size(HEADER_BYTES.into());
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(STREAM_HEADER_BYTES)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .keep_alive_interval(ASKED_AFTER)
            .keep_alive_timeout(self.limits.headers);
        if is_http2 { builder.http2_only() } else { builder.http1_only() }
    }
}

async fn answer(router: Router, request: Request<Incoming>, peer: Peer, limit: Duration) -> Response {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    match timeout(limit, router.oneshot(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(never)) => match never {},
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the request took too long").into_response(),
    }
}

/// The peer at an address; one of IPv4 is the same whichever socket it came through.
fn of(address: SocketAddr) -> Peer {
    Peer { address: address.ip().to_canonical(), verified: false }
}

#[cfg(test)]
mod tests;
