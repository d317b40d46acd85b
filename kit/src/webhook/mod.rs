//! The HTTPS side of a controller that serves webhooks. Every replica serves, leader or not.
//!
//! The certificate is either mounted (`folder`), and read again when it changes, or the program's own ([`own`]), made
//! and renewed where nobody mounts one.

mod folder;
pub(crate) mod issue;
pub mod own;
pub mod review;

use crate::{flags, run::Runtime};
use axum::{Router, serve::Listener};
use rustls::{ServerConfig, crypto::ring::default_provider, server::ResolvesServerCert};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

/// A client that does not finish its handshake in this time is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves `router` over HTTPS in the background, as the flags say. Ready counts from here.
pub async fn serve(runtime: &Runtime, flags: &flags::Webhook, router: Router) -> io::Result<SocketAddr> {
    let certificate = folder::Certificate::read(&flags.webhook_cert_dir)?;
    serve_with(runtime, flags, router, Arc::new(certificate)).await
}

/// As [`serve`], with a certificate of the program's own where none is mounted.
pub async fn serve_or_own(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    own: own::Own,
) -> io::Result<SocketAddr> {
    if flags.webhook_cert_dir.join("tls.crt").exists() {
        return serve(runtime, flags, router).await;
    }
    tracing::info!(
        folder = %flags.webhook_cert_dir.display(),
        secret = own.secret,
        "no webhook certificate is mounted: making and keeping one"
    );
    let held = own::keep(runtime, own);
    serve_with(runtime, flags, router, held).await
}

async fn serve_with(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    certificate: Arc<dyn ResolvesServerCert>,
) -> io::Result<SocketAddr> {
    let requirement = runtime.ready.require("webhook");
    let listener = TcpListener::bind(flags.webhook_address).await?;
    let address = listener.local_addr()?;
    let stop = runtime.shutdown.clone();
    let tls = Handshakes::accept(listener, acceptor(certificate)?, stop.clone());
    let serving = axum::serve(tls, router).with_graceful_shutdown(async move { stop.cancelled().await });
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "stopped serving webhooks");
        }
    });
    tracing::info!(%address, "serving webhooks");
    requirement.met();
    Ok(address)
}

/// TLS with this certificate, by which HTTP/2 and HTTP/1.1 are offered.
pub(crate) fn acceptor(certificate: Arc<dyn ResolvesServerCert>) -> io::Result<TlsAcceptor> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connections whose handshake is done; a slow one holds up nobody else.
pub(crate) struct Handshakes {
    done: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Handshakes {
    pub(crate) fn accept(listener: TcpListener, acceptor: TlsAcceptor, stop: CancellationToken) -> Self {
        let address = listener.local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let (sender, done) = mpsc::channel(16);
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = stop.cancelled() => return,
                };
                let Ok((stream, peer)) = accepted else {
                    // Out of file descriptors, most likely: the next accept fails too unless some are closed.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => drop(sender.send((stream, peer)).await),
                        Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
                        Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
                    }
                });
            }
        });
        Self { done, address }
    }
}

impl Listener for Handshakes {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.done.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
