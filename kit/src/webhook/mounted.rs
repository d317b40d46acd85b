//! A mounted certificate: two files in a folder, which can change while the program runs.
//!
//! The files are reloaded by the first handshake after a change, so they aren't polled.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The minimum interval between checks for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The certificate in a folder, as last read.
#[derive(Debug)]
pub(super) struct Certificate {
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
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let (modified, key) = (modified(folder), load_certificate(folder)?);
        let state = Mutex::new(State { key: Arc::new(key), modified, looked: Instant::now() });
        Ok(Self { folder: folder.to_owned(), state })
    }

    /// Returns the certificate and key to present. Reloads the files first if they have changed. Invalid files are ignored.
    fn current(&self, look_every: Duration) -> Arc<CertifiedKey> {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= look_every {
            state.looked = Instant::now();
            let now = modified(&self.folder);
            if now != state.modified {
                match load_certificate(&self.folder) {
                    Ok(key) => {
                        state.key = Arc::new(key);
                        state.modified = now;
                        tracing::info!("webhook certificate renewed");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the webhook certificate has changed but cannot be used");
                    }
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

fn load_certificate(folder: &Path) -> io::Result<CertifiedKey> {
    let read = |name: &str| {
        let path = folder.join(name);
        let named =
            |error: io::Error| io::Error::other(format!("webhook certificate {}: {error}", path.display()));
        std::fs::read(&path).map_err(named)
    };
    parse_pem(&read("tls.crt")?, &read("tls.key")?)
        .map_err(|error| io::Error::other(format!("webhook certificate {}: {error}", folder.display())))
}

/// Parses a PEM certificate chain and its PEM key. Fails if they don't match.
pub(super) fn parse_pem(chain: &[u8], key: &[u8]) -> io::Result<CertifiedKey> {
    // The parsers' own errors aren't returned, because they quote lines from the file.
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| io::Error::other("tls.crt: it is not a chain of certificates in PEM"))?;
    let wrong_key = |what: &str| io::Error::other(format!("tls.key: it is not {what}"));
    let private = PrivateKeyDer::from_pem_slice(key).map_err(|_| wrong_key("a private key in PEM"))?;
    let signing = any_supported_type(&private).map_err(|_| wrong_key("an RSA, ECDSA or Ed25519 key"))?;
    let certified = CertifiedKey::new(chain, signing);
    certified.keys_match().map_err(|error| io::Error::other(format!("tls.crt: {error}")))?;
    Ok(certified)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str) -> Vec<u8> {
        let validity = pki::Validity::days_from_now(1);
        let authority = pki::Authority::generate("authority", validity).unwrap();
        let made = authority.issue(&pki::Subject::server(name, &[name]), validity).unwrap();
        std::fs::write(folder.join("tls.crt"), &made.certificate).unwrap();
        std::fs::write(folder.join("tls.key"), &*made.key).unwrap();
        CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap().to_vec()
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
