//! A reverse proxy between the VM operator and its API server, which injects faults.
//!
//! It counts and names each write, parks a write before or after it is carried out, randomly rejects calls, delays
//! events, interrupts watches, and shows old views of the API server.

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
use axum::serve::Listener;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use injections::{CaseKey, Injections, NextPark, Park, ParkPoint};
use shared::{Activity, ProxyShared};

/// A running proxy. It stops when it is dropped.
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
    /// Listens on loopback, and forwards all requests to `upstream`, impersonating `account`.
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

    /// Writes a kubeconfig that points to the proxy. It doesn't contain a secret: the proxy is on loopback and has
    /// the permissions itself.
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

    /// Clears all injections and counts.
    pub fn reset(&self) {
        *self.shared.injections.lock() = Injections::default();
    }

    /// Parks the write with this key at the given point. The receiver becomes true when the write is parked.
    pub fn park(&self, key: CaseKey, point: ParkPoint) -> watch::Receiver<bool> {
        let (reached, receiver) = watch::channel(false);
        self.with_injections(|injections| injections.park = Some(Park { key, point, reached }));
        receiver
    }

    /// Parks the next write with this verb and resource at the given point. The receiver becomes true when it is
    /// parked.
    pub fn park_next(&self, what: &str, point: ParkPoint) -> watch::Receiver<bool> {
        let (reached, receiver) = watch::channel(false);
        let next = NextPark { what: what.to_owned(), point, reached };
        self.with_injections(|injections| injections.next = Some(next));
        receiver
    }

    /// Returns the time since the last call ended, or zero while a call is in flight. Watches, leases and events
    /// don't count.
    pub fn idle_time(&self) -> Duration {
        let activity = self.shared.activity.lock();
        if activity.in_flight == 0 { activity.last.elapsed() } else { Duration::ZERO }
    }
}

async fn accept_connections(mut listener: TcpListener, shared: Arc<ProxyShared>) {
    loop {
        let (stream, _) = Listener::accept(&mut listener).await;
        drop(tokio::spawn(serve_connection(stream, Arc::clone(&shared))));
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<ProxyShared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve::serve_request(Arc::clone(&shared), request));
    // A cut deliberately ends the connection with an error.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
