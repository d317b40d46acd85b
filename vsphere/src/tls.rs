//! Verifies the server's certificate, and records its thumbprint for error messages.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::{ServerTrust, Thumbprint};

/// The thumbprint of the certificate that the server presented last.
pub(crate) type SeenThumbprint = Arc<Mutex<Option<Thumbprint>>>;

/// Creates a TLS client configuration that applies `trust` and records each presented thumbprint in `shown`.
pub(crate) fn client_config(trust: &ServerTrust, shown: SeenThumbprint) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let judge = match trust {
        ServerTrust::CaBundle(pem) => Judge::Chain(build_chain_verifier(load_bundle(pem)?, &provider)?),
        ServerTrust::System => Judge::Chain(build_chain_verifier(load_system_roots()?, &provider)?),
        ServerTrust::Thumbprint(thumbprint) => Judge::Pin(*thumbprint),
        ServerTrust::Insecure => Judge::Anything,
    };
    let verifier = Arc::new(Verifier { judge, provider: provider.clone(), shown });
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn load_bundle(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("the CA bundle is not PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("the CA bundle contains an unusable certificate: {error}"))?;
    }
    if roots.is_empty() { Err("the CA bundle contains no certificate".into()) } else { Ok(roots) }
}

fn load_system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err("the operating system has no trust anchors".into()) } else { Ok(roots) }
}

fn build_chain_verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| error.to_string())
}

#[derive(Debug)]
enum Judge {
    Chain(Arc<WebPkiServerVerifier>),
    Pin(Thumbprint),
    Anything,
}

#[derive(Debug)]
struct Verifier {
    judge: Judge,
    provider: Arc<CryptoProvider>,
    shown: SeenThumbprint,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = Thumbprint::of(end_entity);
        *self.shown.lock() = Some(shown);
        match &self.judge {
            Judge::Chain(chain) => {
                chain.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
            }
            Judge::Pin(pinned) if *pinned == shown => Ok(ServerCertVerified::assertion()),
            Judge::Pin(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            Judge::Anything => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_must_hold_a_certificate() {
        let refused =
            client_config(&ServerTrust::CaBundle("nothing".into()), SeenThumbprint::default()).unwrap_err();
        assert_eq!(refused, "the CA bundle contains no certificate");
    }
}
