//! A reverse proxy between the VM operator and its API server, through which misfortune comes.
//!
//! It counts and names every write, stops one before or after it is done, refuses by chance, holds events back,
//! breaks watches off and shows the API server as it was some time ago.

pub mod call;
pub mod chaos;
mod events;
pub mod orders;
mod serve;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use orders::{Key, Moment, Orders, Park};

/// What all requests share.
pub struct Shared {
    upstream: Client,
    account: String,
    orders: Mutex<Orders>,
    activity: Mutex<Activity>,
}

struct Activity {
    in_flight: usize,
    last: Instant,
}

/// A call in flight.
struct Busy<'a>(&'a Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        activity.in_flight -= 1;
        activity.last = Instant::now();
    }
}

impl Shared {
    fn busy(&self) -> Busy<'_> {
        self.activity.lock().in_flight += 1;
        Busy(self)
    }
}

/// The running proxy; it ends when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Listens on loopback, and asks `upstream` in the name of `account` whatever it is asked.
    pub async fn start(upstream: Client, account: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            account: account.to_owned(),
            orders: Mutex::default(),
            activity: Mutex::new(Activity { in_flight: 0, last: Instant::now() }),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, address, task })
    }

    /// Writes a kubeconfig that leads here. It holds no secret: the proxy is on loopback, and has the rights itself.
    pub fn kubeconfig(&self, path: &Path) -> Result<()> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: x\n  cluster:\n    server: http://{}\n\
             users:\n- name: x\n  user: {{}}\ncontexts:\n- name: x\n  context: {{cluster: x, user: x}}\n",
            self.address
        );
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Changes what is ordered.
    pub fn order<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        change(&mut self.shared.orders.lock())
    }

    /// Forgets what was counted and ordered.
    pub fn forget(&self) {
        *self.shared.orders.lock() = Orders::default();
    }

    /// Stops that write at that moment; the receiver tells when it has come.
    pub fn park(&self, key: Key, moment: Moment) -> watch::Receiver<bool> {
        let (reached, told) = watch::channel(false);
        self.order(|orders| orders.park = Some(Park { key, moment, reached }));
        told
    }

    /// How long no call has been in flight; watches, leases and events do not count.
    pub fn quiet(&self) -> Duration {
        let activity = self.shared.activity.lock();
        if activity.in_flight == 0 { activity.last.elapsed() } else { Duration::ZERO }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&shared)))),
            Err(error) => tracing::warn!(%error, "the proxy cannot accept a connection"),
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve::serve(Arc::clone(&shared), request));
    // A cut ends the connection with an error, which is what is wanted.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
