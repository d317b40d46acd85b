//! The HTTPS proxy. A manager connects with `CONNECT HOST:PORT`, and talks to the cluster through that connection.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioIo, TokioTimer};
use kit::guest::bounded;
use kit::share::addresses::{Share, Shares};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::answer::{Passed, whole};
use crate::credentials::{ForwardingMode, Vault};
use crate::guest::{ProxiedCluster, ProxiedClusters};
use crate::limits;
use crate::link::Link;
use crate::tunnel;

/// The interval between two checks for deleted clusters.
const SWEEP: Duration = Duration::from_mins(1);
/// The client address for the connection limit. All clients are on this machine, so they share one address.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A proxy for one manager.
pub struct ManagerProxy {
    guests: Arc<ProxiedClusters>,
    vault: Vault,
    strangers: Shares,
}

/// A connection that a manager requested.
struct Asked {
    guest: Arc<ProxiedCluster>,
    trust: ForwardingMode,
    upstream: TcpStream,
    upgrade: OnUpgrade,
}

/// A refused connection: the HTTP status and the reason.
struct Refused(StatusCode, String);

impl ManagerProxy {
    /// Creates the proxy for these clusters.
    pub fn new(guests: Arc<ProxiedClusters>, vault: Vault) -> Arc<Self> {
        Arc::new(Self { guests, vault, strangers: Shares::newest_first(limits::STRANGERS) })
    }

    /// Accepts connections until `stop` is canceled.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let swept = Arc::clone(&self.guests);
        let sweeping = async move {
            loop {
                sleep(SWEEP).await;
                swept.sweep();
            }
        };
        let accepting = async {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // The process has probably run out of file descriptors.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                let mut place = self.strangers.enter(CLIENT);
                if place.take(1).is_ok() {
                    tokio::spawn(Arc::clone(&self).keep(stream, place, stop.clone()));
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = sweeping => {}
            () = accepting => {}
        }
    }

    /// Serves one connection until it ends or its slot is given to another connection.
    async fn keep(self: Arc<Self>, stream: TcpStream, place: Share, stop: CancellationToken) {
        let evicted = place.evicted().clone();
        let asked = tokio::select! {
            asked = self.accept(stream) => asked,
            () = evicted.cancelled() => None,
            () = stop.cancelled() => None,
        };
        let Some(asked) = asked else { return };
        let guest = Arc::clone(&asked.guest);
        let served = tokio::select! {
            served = self.pass(asked, place) => served,
            () = stop.cancelled() => return,
        };
        if let Err(error) = served {
            guest.report(&error);
        }
    }

    /// Reads the `CONNECT` request and responds to it. Returns the requested connection, or `None` if it was refused.
    async fn accept(&self, stream: TcpStream) -> Option<Asked> {
        let asked = parking_lot::Mutex::new(None);
        let service = service_fn(|request| async {
            let answer = match self.open(request).await {
                Ok(opened) => {
                    *asked.lock() = Some(opened);
                    Response::new(whole(""))
                }
                Err(refused) => refused.answer(),
            };
            Ok::<_, Infallible>(answer)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits::CONNECT).max_buf_size(limits::HEADERS);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        // Two steps wait for other servers: reading the Secrets, and connecting to the cluster.
        let _ = timeout(limits::CONNECT + limits::DIAL * 2, connection).await;
        asked.into_inner()
    }

    async fn open(&self, request: Request<Incoming>) -> Result<Asked, Refused> {
        if request.method() != Method::CONNECT {
            let text = "this proxy only accepts CONNECT, from the managers of Cluster API";
            return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, text.to_owned()));
        }
        let authority =
            request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let Some(guest) = self.guests.find(&authority).await else {
            let text = format!("no Cluster has the control plane endpoint {authority}");
            return Err(Refused(StatusCode::FORBIDDEN, text));
        };
        let trust =
            self.vault.trust(&guest.target).await.map_err(|error| Refused(StatusCode::BAD_GATEWAY, error))?;
        let upstream =
            dial(&guest.target.url()).await.map_err(|error| Refused(StatusCode::BAD_GATEWAY, error))?;
        let upgrade = hyper::upgrade::on(request);
        Ok(Asked { guest, trust, upstream, upgrade })
    }

    /// Forwards a connection's traffic until either side ends or the connection is evicted.
    async fn pass(&self, asked: Asked, place: Share) -> io::Result<()> {
        let Asked { guest, trust, upstream, upgrade } = asked;
        let evicted = place.evicted().clone();
        let setup = async {
            let upgraded =
                timeout(limits::CONNECT, upgrade).await.map_err(late)?.map_err(io::Error::other)?;
            let downstream = TokioIo::new(upgraded);
            let credentials = match trust {
                ForwardingMode::Opaque => return Ok::<_, io::Error>(Err(downstream)),
                ForwardingMode::Known(credentials) => credentials,
            };
            let accepted = TlsAcceptor::from(Arc::clone(&credentials.server)).accept(downstream);
            let accepted = timeout(limits::HANDSHAKE, accepted).await.map_err(late)?;
            let stream = accepted.inspect_err(|_| self.vault.forget(&guest.target))?;
            Ok(Ok((stream, credentials)))
        };
        let ready = tokio::select! {
            ready = setup => ready?,
            () = evicted.cancelled() => return Ok(()),
        };
        let (stream, credentials) = match ready {
            Ok(ready) => ready,
            Err(downstream) => {
                let _place = guest.enter().ok_or_else(|| io::Error::other("it has too many connections"))?;
                return tunnel::pass(downstream, upstream, limits::OPAQUE, None).await;
            }
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
        let tls = credentials.client_for(shown.as_ref()).map_err(io::Error::other)?;
        let link = Link::connect(Arc::clone(&guest), upstream, tls)
            .await
            .inspect_err(|_| self.vault.forget(&guest.target))?;
        if shown.is_none() {
            tokio::select! {
                () = link.serve(stream) => {}
                () = evicted.cancelled() => {}
            }
            return Ok(());
        }
        let _place = guest.enter().ok_or_else(|| io::Error::other("it has too many connections"))?;
        drop(place);
        link.serve(stream).await;
        Ok(())
    }
}

impl Refused {
    /// Returns the response. Its status line includes the reason, because Go's client shows the status line.
    fn answer(self) -> Response<Passed> {
        let Self(status, text) = self;
        let text = bounded(&text);
        let mut answer = Response::new(whole(text.clone()));
        *answer.status_mut() = status;
        if let Ok(reason) = ReasonPhrase::try_from(text.into_bytes()) {
            answer.extensions_mut().insert(reason);
        }
        answer
    }
}

/// Connects to a cluster, with TCP keep-alive.
async fn dial(url: &str) -> Result<TcpStream, String> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(limits::DIAL));
    connector.set_keepalive(Some(limits::KEEPALIVE));
    connector.set_keepalive_interval(Some(limits::KEEPALIVE / 3));
    connector.set_keepalive_retries(Some(3));
    let uri = url.parse().map_err(|_| format!("{url} is not a URL"))?;
    match timeout(limits::DIAL, connector.call(uri)).await {
        Ok(Ok(stream)) => Ok(stream.into_inner()),
        Ok(Err(error)) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            Err(format!("cannot connect to {url}: {}", cause.unwrap_or_else(|| error.to_string())))
        }
        Err(_) => {
            Err(format!("cannot connect to {url}: it did not answer within {} s", limits::DIAL.as_secs()))
        }
    }
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the connection was not set up in time")
}
