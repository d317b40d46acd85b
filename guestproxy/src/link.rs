//! A manager's connection to the proxy, and the proxy's connection to the cluster. Both end together.

use std::io;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::{AbortedResponse, Passed, passed, watched, whole};
use crate::guest::ProxiedCluster;
use crate::rewrite::{self, ObjectSelection, ReadMode};
use crate::{limits, tunnel};

/// A connection to a cluster.
pub struct Link {
    guest: Arc<ProxiedCluster>,
    sender: Mutex<SendRequest<Passed>>,
    /// Canceled when the connection to the cluster ends.
    ended: CancellationToken,
    _connection: AbortOnDropHandle<()>,
}

impl Link {
    /// Sets up TLS and HTTP/1.1 with a cluster.
    ///
    /// # Errors
    /// Returns an error if the cluster doesn't present a certificate from its authority, or doesn't respond in time.
    pub async fn connect(
        guest: Arc<ProxiedCluster>,
        stream: TcpStream,
        tls: Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let name = ServerName::try_from(guest.target.host.clone()).map_err(io::Error::other)?;
        let connected = timeout(limits::HANDSHAKE, TlsConnector::from(tls).connect(name, stream));
        let stream = connected.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let handshake = http1::Builder::new().max_buf_size(limits::HEADERS).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        let connection = tokio::spawn(async move {
            let _ended = guard;
            let _ = connection.with_upgrades().await;
        });
        let connection = AbortOnDropHandle::new(connection);
        Ok(Self { guest, sender: Mutex::new(sender), ended, _connection: connection })
    }

    /// Forwards a manager's requests until either connection ends.
    pub async fn serve(self, manager: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let tunnels = parking_lot::Mutex::new(None);
        let service = service_fn(|request| self.pass(request, &tunnels));
        let connection = server::conn::http1::Builder::new()
            .max_buf_size(limits::HEADERS)
            .serve_connection(TokioIo::new(manager), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => {}
            () = self.ended.cancelled() => {
                // The last response may still be on its way. On a connection that switched its protocol, HTTP has already ended.
                if tunnels.lock().is_none() {
                    connection.as_mut().graceful_shutdown();
                }
                let _ = timeout(limits::PIECE, connection).await;
            }
        }
        let tunnel = tunnels.lock().take();
        if let Some(tunnel) = tunnel {
            let tunnel: Tunnel = tunnel;
            if let Err(error) = tunnel.pass().await {
                self.guest.report(&error);
            }
        }
    }

    async fn pass(
        &self,
        mut request: Request<Incoming>,
        tunnels: &parking_lot::Mutex<Option<Tunnel>>,
    ) -> Result<Response<Passed>, AbortedResponse> {
        let ObjectSelection { path, mode } = rewrite::selection(request.uri());
        let mode = if request.method() == Method::GET { mode } else { ReadMode::Whole };
        if let ReadMode::Watch { sends_all } = mode
            && self.guest.begin_watch(&path, sends_all).is_err()
        {
            let text = "the cluster has more objects than its Machines and the limit for all clusters allow";
            return Ok(refusal(StatusCode::TOO_MANY_REQUESTS, text));
        }
        let most = self.guest.answer_limit();
        let may_upgrade = rewrite::is_upgrade(request.headers());
        rewrite::request(request.headers_mut());
        let manager = may_upgrade.then(|| hyper::upgrade::on(&mut request));
        let request =
            request.map(|body| body.map_err(|error| AbortedResponse(error.to_string())).boxed_unsync());
        let mut answer = self.send(request).await.inspect_err(|broken| self.guest.report(broken))?;
        let status = answer.status();
        let is_error = !status.is_success() && status != StatusCode::SWITCHING_PROTOCOLS;
        let most = if is_error { limits::ERROR } else { most };
        if let Err(unwanted) = rewrite::answer(status, answer.headers_mut(), may_upgrade, most) {
            let text = format!("the answer of the cluster's API server was refused: {}", unwanted.reason());
            self.guest.report(&text);
            return Ok(refusal(StatusCode::BAD_GATEWAY, &text));
        }
        if let Some(manager) = manager.filter(|_| status == StatusCode::SWITCHING_PROTOCOLS) {
            *tunnels.lock() = Some(Tunnel { manager, guest: hyper::upgrade::on(&mut answer) });
            return Ok(answer.map(|_| whole("")));
        }
        let guest = Arc::clone(&self.guest);
        Ok(match mode {
            ReadMode::Watch { .. } if !is_error => {
                // White space at the end isn't forwarded, so the length may differ.
                answer.headers_mut().remove(http::header::CONTENT_LENGTH);
                answer.map(|body| watched(body, guest, path))
            }
            ReadMode::Page { continues } if !is_error => {
                let before = guest.begin_page(&path, continues);
                answer.map(|body| passed(body, guest, most, Some((path, before))))
            }
            _ => answer.map(|body| passed(body, guest, most, None)),
        })
    }

    async fn send(&self, request: Request<Passed>) -> Result<Response<Incoming>, AbortedResponse> {
        let mut sender = self.sender.lock().await;
        let ready =
            timeout(limits::PIECE, sender.ready()).await.map_err(|_| AbortedResponse::from("it stopped"))?;
        ready.map_err(|error| AbortedResponse(error.to_string()))?;
        let answered = timeout(limits::ANSWER_BEGINS, sender.send_request(request)).await;
        let answered = answered.map_err(|_| AbortedResponse::from("its answer did not begin in time"))?;
        answered.map_err(|error| {
            AbortedResponse(
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
            )
        })
    }
}

/// Both sides of a connection that switches its protocol.
struct Tunnel {
    manager: hyper::upgrade::OnUpgrade,
    guest: hyper::upgrade::OnUpgrade,
}

impl Tunnel {
    async fn pass(self) -> io::Result<()> {
        let both = async { tokio::try_join!(self.manager, self.guest) };
        let upgraded = timeout(limits::CONNECT, both).await;
        let (manager, guest) =
            upgraded.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(io::Error::other)?;
        tunnel::pass(TokioIo::new(manager), TokioIo::new(guest), limits::TUNNEL, Some(limits::TUNNEL_TIME))
            .await
    }
}

/// Returns a response with a Kubernetes Status, which managers show like a Status from the API server.
fn refusal(status: StatusCode, message: &str) -> Response<Passed> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "code": status.as_u16(),
    });
    let mut answer = Response::new(whole(body.to_string()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("10"));
    }
    answer
}
