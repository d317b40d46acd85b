//! The HTTP server that all ports of a program use, with limits on connections, handshakes, headers, streams and time.
//!
//! Any client that reaches a port can open connections and send arbitrary data. So connections are limited and shared between
//! addresses, slow or silent clients are disconnected, and one address can't keep out the others ([`addresses`](crate::share::addresses)). Clients that
//! proved their identity ([`callers`]) have reserved connection slots. Handlers limit the size of the bodies that they read.

mod activity;
pub(crate) mod callers;
pub(crate) mod peer;
mod place;
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

use crate::server::activity::ConnectionActivity;
use crate::server::callers::Callers;
use crate::server::peer::Peer;
pub(crate) use crate::server::place::ServerLimits;
use crate::server::place::{ConnectionSlot, ConnectionSlots};

/// The maximum header size per HTTP/1.1 request, in bytes.
const HEADER_BYTES: u16 = 16 << 10;
/// The maximum header size per HTTP/2 request, in bytes. A connection can carry many requests at once.
const STREAM_HEADER_BYTES: u32 = 8 << 10;
/// The maximum number of concurrent requests per HTTP/2 connection. For more requests, the API server opens another connection.
const STREAMS: u32 = 32;
/// The maximum number of unread bytes from an HTTP/2 client: per request, and per connection.
const WINDOWS: (u32, u32) = (128 << 10, 256 << 10);
/// The idle time after which an HTTP/2 connection is pinged.
const ASKED_AFTER: Duration = Duration::from_secs(30);
/// The additional time in which a client must read the last responses before its connection is closed.
const CLOSE: Duration = Duration::from_secs(5);

/// The limits that every server uses.
pub(crate) const LIMITS: ServerLimits = ServerLimits {
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
    limits: ServerLimits,
    callers: Callers,
    places: ConnectionSlots,
    stop: CancellationToken,
}

/// Serves `router` in the background until `stop` is canceled. Pending responses are still sent, within a time limit.
pub(crate) fn spawn(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    spawn_for(Callers::default(), listener, tls, router, limits, stop);
}

/// Same as [`spawn`], but recognizes `callers` and reserves connection slots for them that other clients can't take.
pub(crate) fn spawn_for(
    callers: Callers,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let places = ConnectionSlots::new(&limits, &callers);
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
                // Most likely, the process is out of file descriptors. The next accept fails too unless some are closed.
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

    /// Serves one connection until it ends or its slot is given to another client.
    async fn keep(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, place: ConnectionSlot) {
        let evicted = place.evicted();
        tokio::select! {
            () = self.serve_connection(stream, peer, &place) => {}
            () = evicted.cancelled() => tracing::debug!(%peer, "connection closed: its place was given to another client"),
        }
    }

    async fn serve_connection(&self, stream: TcpStream, peer: SocketAddr, place: &ConnectionSlot) {
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_http(stream, of(peer), false, place).await };
        match timeout(self.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                // An untrusted certificate fails the handshake, so a certificate that is seen here is trusted.
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

    async fn serve_http<S>(&self, stream: S, peer: Peer, is_http2: bool, place: &ConnectionSlot)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::<ConnectionActivity>::default();
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
        // Requests have their own timeout, but responses that the client doesn't read don't.
        let _ = timeout(self.limits.request + CLOSE, async {
            tokio::select! {
                _ = connection.as_mut() => {}
                () = activity.idle(CLOSE, CLOSE) => {}
            }
        })
        .await;
    }

    /// Marks the peer as verified and removes the key from the path if the path ends with the callers' key.
    fn recognize<B>(
        &self,
        mut request: Request<B>,
        peer: Peer,
        place: &ConnectionSlot,
    ) -> (Request<B>, Peer) {
        let Some(uri) = self.callers.without_key(request.uri()) else { return (request, peer) };
        *request.uri_mut() = uri;
        self.places.promote(place);
        (request, Peer { verified: true, ..peer })
    }

    /// Configures either HTTP/2 or HTTP/1.1. Detecting the protocol would wait for the first bytes without a timeout.
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

/// Returns the peer at an address. An IPv4 address is the same through IPv4 and IPv6 sockets.
fn of(address: SocketAddr) -> Peer {
    Peer { address: address.ip().to_canonical(), verified: false }
}

#[cfg(test)]
mod tests;
