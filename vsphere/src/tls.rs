//! Which certificate is believed, and which was shown.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::Trust;

/// The SHA-256 of a certificate, written as `AB:CD:…`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thumbprint([u8; 32]);

impl Thumbprint {
    /// The thumbprint of a certificate in DER.
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no thumbprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThumbprintError {
    /// It has the length of a SHA-1 thumbprint, which proves nothing.
    #[error("a SHA-1 thumbprint is not enough; give the SHA-256 one (64 hexadecimal digits)")]
    Sha1,
    /// It is something else.
    #[error("a thumbprint has 64 hexadecimal digits, with or without colons")]
    Malformed,
}

impl FromStr for Thumbprint {
    type Err = ThumbprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let text =
            text.get(..7).filter(|head| head.eq_ignore_ascii_case("sha256:")).map_or(text, |_| &text[7..]);
        let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b':' | b' ')).collect();
        if digits.len() == 40 && digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(ThumbprintError::Sha1);
        }
        if digits.len() != 64 {
            return Err(ThumbprintError::Malformed);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble =
                |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            match (nibble(pair[0]), nibble(pair[1])) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => return Err(ThumbprintError::Malformed),
            }
        }
        Ok(Self(bytes))
    }
}

/// The thumbprint of the certificate that the server showed last.
pub(crate) type SeenThumbprint = Arc<Mutex<Option<Thumbprint>>>;

/// A TLS client that trusts what `trust` says and remembers what it was shown.
pub(crate) fn client_config(trust: &Trust, shown: SeenThumbprint) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let judge = match trust {
        Trust::CaBundle(pem) => Judge::Chain(chain(bundle(pem)?, &provider)?),
        Trust::System => Judge::Chain(chain(system()?, &provider)?),
        Trust::Thumbprint(thumbprint) => Judge::Pin(*thumbprint),
        Trust::Insecure => Judge::Anything,
    };
    let verifier = Arc::new(Verifier { judge, provider: provider.clone(), shown });
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn bundle(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("the CA bundle is not PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("the CA bundle holds an unusable certificate: {error}"))?;
    }
    if roots.is_empty() { Err("the CA bundle holds no certificate".into()) } else { Ok(roots) }
}

fn system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err("the operating system has no trust anchors".into()) } else { Ok(roots) }
}

fn chain(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
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
    fn thumbprints_are_read_as_people_write_them() {
        let thumbprint = Thumbprint::of(b"abc");
        let text = thumbprint.to_string();
        assert!(text.starts_with("BA:78:16:BF") && text.len() == 95, "{text}");
        let plain: String = text.to_lowercase().replace(':', "");
        for form in [text.clone(), plain.clone(), format!("SHA256:{plain}"), format!(" {text}\n")] {
            assert_eq!(form.parse(), Ok(thumbprint), "{form}");
        }
        let refused = [
            ("", ThumbprintError::Malformed),
            ("AB:CD", ThumbprintError::Malformed),
            (&"zz".repeat(32), ThumbprintError::Malformed),
            (&"ab".repeat(20), ThumbprintError::Sha1),
            ("é", ThumbprintError::Malformed),
        ];
        for (form, error) in refused {
            assert_eq!(form.parse::<Thumbprint>(), Err(error), "{form}");
        }
    }

    #[test]
    fn a_bundle_must_hold_a_certificate() {
        let refused =
            client_config(&Trust::CaBundle("nothing".into()), SeenThumbprint::default()).unwrap_err();
        assert_eq!(refused, "the CA bundle holds no certificate");
    }
}
