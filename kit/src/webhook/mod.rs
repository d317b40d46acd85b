//! The HTTPS side of a controller that serves webhooks. Every replica serves, leader or not.
//!
//! The certificate is either mounted (`mounted`), and read again when it changes, or the program's own
//! ([`self_managed`]), made and renewed where nobody mounts one.

pub(crate) mod bundle;
pub mod conversion;
mod mounted;
pub mod review;
pub mod self_managed;
pub(crate) mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;

use crate::flags;
use crate::runtime::Runtime;
use crate::webhook::self_managed::SelfManaged;
use crate::webhook::tls::{Handshakes, acceptor};

/// A review holds the object twice, before and after; the API server stores objects of up to 3 MiB as JSON or so.
const LARGEST_REVIEW: usize = 16 << 20;

/// Serves `router` over HTTPS in the background, as the flags say. Ready counts from here.
pub async fn serve(runtime: &Runtime, flags: &flags::Webhook, router: Router) -> io::Result<SocketAddr> {
    let certificate = mounted::Certificate::read(&flags.webhook_cert_dir)?;
    serve_with(runtime, flags, router, Arc::new(certificate)).await
}

/// As [`serve`], with a certificate of the program's own where none is mounted.
pub async fn serve_with_fallback(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    names: SelfManaged,
) -> io::Result<SocketAddr> {
    if flags.webhook_cert_dir.join("tls.crt").exists() {
        return serve(runtime, flags, router).await;
    }
    tracing::info!(
        folder = %flags.webhook_cert_dir.display(),
        secret = names.secret,
        "no webhook certificate is mounted: making and keeping one"
    );
    let certificate = self_managed::spawn_keeper(runtime, names);
    serve_with(runtime, flags, router, certificate).await
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
    let router = router.layer(DefaultBodyLimit::max(LARGEST_REVIEW));
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
