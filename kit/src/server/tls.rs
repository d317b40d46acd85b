//! TLS for servers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// Creates a TLS acceptor that presents `certificate` and offers HTTP/2 and HTTP/1.1.
///
/// With `authorities`, clients may present a certificate, which must be signed by one of these certificate authorities.
pub(crate) fn build_acceptor(
    certificate: Arc<dyn ResolvesServerCert>,
    authorities: Option<RootCertStore>,
) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
                .allow_unauthenticated()
                .build()
                .map_err(io::Error::other)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Reads certificate authorities from a file with PEM certificates. Fails if the file contains no certificate.
pub(crate) fn read_authorities(file: &Path) -> io::Result<RootCertStore> {
    let named = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
    let pem = std::fs::read(file).map_err(|error| named(&error))?;
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| named(&error))?;
        authorities.add(certificate).map_err(|error| named(&error))?;
    }
    if authorities.is_empty() {
        return Err(named(&"it has no certificates"));
    }
    Ok(authorities)
}
