//! Serves webhooks over HTTPS. Every replica serves them, not only the leader.
//!
//! The certificate is either mounted (`mounted`) and reloaded when it changes, or created and
//! renewed by the program ([`self_managed`]).

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
use std::path::Path;
use std::sync::Arc;

use axum::{Extension, Router};
use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;

use crate::flags;
use crate::runtime::Runtime;
use crate::server;
use crate::server::callers::{Callers, Key};
use crate::server::tls::{build_acceptor, read_authorities};
pub use crate::webhook::facts::Facts;
use crate::webhook::gate::{ReviewGate, Verified};
use crate::webhook::self_managed::SelfManaged;

/// Serves `router` over HTTPS in the background, as configured by `flags`. The program isn't ready until the server has started.
///
/// Admission reviews wait for `facts`. If the facts aren't read in time, the review is rejected with an
/// error that clients retry. Conversion reviews don't wait. `names` are the objects for a certificate that the program
/// creates.
pub async fn serve(
    runtime: &Runtime,
    flags: &flags::Webhook,
    router: Router,
    facts: Facts,
    names: SelfManaged,
) -> io::Result<SocketAddr> {
    let certificate = choose_certificate(runtime, &flags.webhook_cert_dir, names)?;
    let requirement = runtime.ready.require("webhook");
    let callers = Callers {
        authorities: flags.webhook_client_ca.as_deref().map(read_authorities).transpose()?,
        key: flags.webhook_conversion_key.as_deref().map(Key::read).transpose()?,
    };
    let only_verified =
        Verified { admissions: callers.authorities.is_some(), conversions: callers.key.is_some() };
    let gate = ReviewGate::new(gate::LIMITS, only_verified);
    let listener = TcpListener::bind(flags.webhook_address).await?;
    let address = listener.local_addr()?;
    let tls = build_acceptor(certificate, callers.authorities.clone())?;
    let router = router.layer(Extension(facts)).layer(Extension(Arc::new(gate)));
    server::spawn_for(callers, listener, Some(tls), router, server::LIMITS, runtime.shutdown.clone());
    tracing::info!(%address, "serving webhooks");
    requirement.met();
    Ok(address)
}

/// Returns the certificate to present: the mounted one if there is one, or else one that the program creates and renews.
///
/// This is the only place where the choice is made. A deployment that mounts cert-manager's Secret or the embedded plane's files
/// uses these certificates.
fn choose_certificate(
    runtime: &Runtime,
    folder: &Path,
    names: SelfManaged,
) -> io::Result<Arc<dyn ResolvesServerCert>> {
    if folder.join("tls.crt").exists() {
        return Ok(Arc::new(mounted::Certificate::read(folder)?));
    }
    tracing::info!(
        folder = %folder.display(),
        secret = names.secret,
        "no webhook certificate is mounted; creating and renewing one"
    );
    Ok(self_managed::spawn_keeper(runtime, names))
}
