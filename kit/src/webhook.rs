//! The HTTPS side of a controller that serves webhooks. Every replica serves, leader or not.
//!
//! The certificate is read again when its file changes, on the handshake that finds it changed: cert-manager
//! renews it under a running program, and nothing polls meanwhile.

use crate::{flags, run::Started};
use axum::{Router, serve::Listener};
use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    crypto::ring::{default_provider, sign::any_supported_type},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

/// A client that does not finish its handshake in this time is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The certificate's files are looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves `router` over HTTPS in the background, as the flags say. Ready counts from here.
pub async fn serve(started: &Started, flags: &flags::Webhook, router: Router) -> io::Result<SocketAddr> {
    let requirement = started.ready.require("webhook");
    let certificate = Certificate::read(&flags.webhook_cert_dir)?;
    let listener = TcpListener::bind(flags.webhook_address).await?;
    let address = listener.local_addr()?;
    let stop = started.shutdown.clone();
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

fn acceptor(certificate: Certificate) -> io::Result<TlsAcceptor> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificate));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate in a folder, as last read.
#[derive(Debug)]
struct Certificate {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    key: Arc<CertifiedKey>,
    modified: Option<SystemTime>,
    looked: Instant,
}

impl Certificate {
    fn read(folder: &Path) -> io::Result<Self> {
        let (modified, key) = (modified(folder), certified(folder)?);
        let state = Mutex::new(State { key: Arc::new(key), modified, looked: Instant::now() });
        Ok(Self { folder: folder.to_owned(), state })
    }

    /// The key to present, read again if its files changed and are in order.
    fn current(&self, look_every: Duration) -> Arc<CertifiedKey> {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= look_every {
            state.looked = Instant::now();
            let now = modified(&self.folder);
            if now != state.modified {
                match certified(&self.folder) {
                    Ok(key) => {
                        state.key = Arc::new(key);
                        state.modified = now;
                        tracing::info!("webhook certificate renewed");
                    }
                    Err(error) => tracing::warn!(%error, "webhook certificate changed but can't be used"),
                }
            }
        }
        Arc::clone(&state.key)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current(LOOK_EVERY))
    }
}

fn modified(folder: &Path) -> Option<SystemTime> {
    let of = |name: &str| std::fs::metadata(folder.join(name)).and_then(|file| file.modified()).ok();
    of("tls.crt").max(of("tls.key"))
}

fn certified(folder: &Path) -> io::Result<CertifiedKey> {
    let (crt, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let named = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("webhook certificate {}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(&crt)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| named(&crt, &error))?;
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| named(&key, &error))?;
    let signing = any_supported_type(&private).map_err(|error| named(&key, &error))?;
    let certified = CertifiedKey::new(chain, signing);
    certified.keys_match().map_err(|error| named(&crt, &error))?;
    Ok(certified)
}

/// Connections whose handshake is done; a slow one holds up nobody else.
struct Handshakes {
    done: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Handshakes {
    fn accept(listener: TcpListener, acceptor: TlsAcceptor, stop: CancellationToken) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    }

    #[test]
    fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let first = write(folder.path(), "first");
        let certificate = Certificate::read(folder.path()).unwrap();
        let shown = || certificate.current(Duration::ZERO).cert[0].to_vec();
        assert_eq!(shown(), first);

        let second = write(folder.path(), "second");
        certificate.state.lock().modified = None;
        assert_eq!(shown(), second);

        std::fs::write(folder.path().join("tls.crt"), "no certificate").unwrap();
        certificate.state.lock().modified = None;
        assert_eq!(shown(), second);
    }

    #[test]
    fn a_missing_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Certificate::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("tls.crt"), "{error}");
    }
}
