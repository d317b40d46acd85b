//! The HTTPS side of a controller that serves webhooks. Every replica serves, leader or not.
//!
//! The certificate is either mounted (`mounted`), and read again when it changes, or the program's own
//! ([`self_managed`]), made and renewed where nobody mounts one.

pub(crate) mod bundle;
pub mod conversion;
mod facts;
mod gate;
mod mounted;
pub mod review;
pub mod self_managed;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Extension, Router};
use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;

use crate::flags;
use crate::runtime::Runtime;
use crate::server;
use crate::server::callers::{Callers, Key};
use crate::server::tls::{acceptor, read_authorities};
pub use crate::webhook::facts::Facts;
use crate::webhook::gate::{Gate, Verified};
use crate::webhook::self_managed::SelfManaged;

/// Serves `router` over HTTPS in the background, as the flags say. Ready counts from here.
///
/// Admission reviews wait for `facts`, and are refused with an error that clients retry while these are not read.
/// Conversion reviews are answered at once.
pub async fn serve(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    facts: Facts,
) -> io::Result<SocketAddr> {
    let certificate = mounted::Certificate::read(&flags.webhook_cert_dir)?;
    serve_with(runtime, flags, router.layer(Extension(facts)), Arc::new(certificate)).await
}

/// As [`serve`], with a certificate of the program's own where none is mounted.
pub async fn serve_with_fallback(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    facts: Facts,
    names: SelfManaged,
) -> io::Result<SocketAddr> {
    if flags.webhook_cert_dir.join("tls.crt").exists() {
        return serve(runtime, flags, router, facts).await;
    }
    tracing::info!(
        folder = %flags.webhook_cert_dir.display(),
        secret = names.secret,
        "no webhook certificate is mounted; creating and renewing one"
    );
    let certificate = self_managed::spawn_keeper(runtime, names);
    serve_with(runtime, flags, router.layer(Extension(facts)), certificate).await
}

async fn serve_with(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    certificate: Arc<dyn ResolvesServerCert>,
) -> io::Result<SocketAddr> {
    let requirement = runtime.ready.require("webhook");
    let callers = Callers {
        authorities: flags.webhook_client_ca.as_deref().map(read_authorities).transpose()?,
        key: flags.webhook_conversion_key.as_deref().map(Key::read).transpose()?,
    };
    let only_verified =
        Verified { admissions: callers.authorities.is_some(), conversions: callers.key.is_some() };
    let gate = Gate::new(gate::LIMITS, only_verified);
    let listener = TcpListener::bind(flags.webhook_address).await?;
    let address = listener.local_addr()?;
    let tls = acceptor(certificate, callers.authorities.clone())?;
    let router = router.layer(Extension(Arc::new(gate)));
    server::spawn_for(callers, listener, Some(tls), router, server::LIMITS, runtime.shutdown.clone());
    tracing::info!(%address, "serving webhooks");
    requirement.met();
    Ok(address)
}
