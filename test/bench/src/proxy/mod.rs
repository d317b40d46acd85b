//! A reverse proxy between the VM operator and its API server, which injects faults.
//!
//! It counts and names every write, stops one before or after it is done, refuses by chance, holds events back,
//! breaks watches off and shows the API server as it was some time ago.

pub mod call;
pub mod chaos;
mod events;
pub mod injections;
mod serve;
mod shared;

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

use injections::{CaseKey, Injections, NextPark, Park, ParkPoint};
use shared::{Activity, ProxyShared};

/// The running proxy; it ends when it is dropped.
pub struct ApiProxy {
    shared: Arc<ProxyShared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApiProxy {
    /// Listens on loopback, and asks `upstream` in the name of `account` whatever it is asked.
    pub async fn start(upstream: Client, account: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyShared {
            upstream,
            account: account.to_owned(),
            injections: Mutex::default(),
            activity: Mutex::new(Activity { in_flight: 0, last: Instant::now() }),
        });
        let task = tokio::spawn(accept_connections(listener, Arc::clone(&shared)));
        Ok(Self { shared, address, task })
    }

    /// ApiWrites a kubeconfig that leads here. It holds no secret: the proxy is on loopback, and has the rights itself.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: x\n  cluster:\n    server: http://{}\n\
             users:\n- name: x\n  user: {{}}\ncontexts:\n- name: x\n  context: {{cluster: x, user: x}}\n",
            self.address
        );
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads or changes the injections.
    pub fn with_injections<T>(&self, change: impl FnOnce(&mut Injections) -> T) -> T {
        change(&mut self.shared.injections.lock())
    }

    /// Forgets all injections and counts.
    pub fn reset(&self) {
        *self.shared.injections.lock() = Injections::default();
    }

    /// Stops that write at that point; the receiver turns true when it has come.
    pub fn park(&self, key: CaseKey, point: ParkPoint) -> watch::Receiver<bool> {
        let (reached, receiver) = watch::channel(false);
        self.with_injections(|injections| injections.park = Some(Park { key, point, reached }));
        receiver
    }

    /// Stops the next write of this verb and resource at that point; the receiver turns true when it has come.
    pub fn park_next(&self, what: &str, point: ParkPoint) -> watch::Receiver<bool> {
        let (reached, receiver) = watch::channel(false);
        let next = NextPark { what: what.to_owned(), point, reached };
        self.with_injections(|injections| injections.next = Some(next));
        receiver
    }

    /// How long no call has been in flight; watches, leases and events do not count.
    pub fn idle_time(&self) -> Duration {
        let activity = self.shared.activity.lock();
        if activity.in_flight == 0 { activity.last.elapsed() } else { Duration::ZERO }
    }
}

async fn accept_connections(listener: TcpListener, shared: Arc<ProxyShared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_connection(stream, Arc::clone(&shared)))),
            Err(error) => tracing::warn!(%error, "the proxy cannot accept a connection"),
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<ProxyShared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve::serve_request(Arc::clone(&shared), request));
    // A cut ends the connection with an error, which is what is wanted.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
