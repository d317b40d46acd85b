//! Recognizes a server's legitimate callers among all clients that reach its port.

use std::io;
use std::path::Path;

use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use rustls::RootCertStore;
use sha2::{Digest, Sha256};

/// The minimum key length in characters. Shorter keys could be guessed.
const SHORTEST_KEY: usize = 32;

/// The proofs by which a server recognizes its legitimate callers. The default doesn't recognize any callers.
#[derive(Clone, Default)]
pub(crate) struct Callers {
    /// The certificate authorities that sign the callers' certificates. If `None`, certificates aren't requested.
    pub authorities: Option<RootCertStore>,
    /// The last path segment in the callers' requests. If `None`, paths aren't checked.
    pub key: Option<Key>,
}

/// A secret path segment. Only its digest is kept, so that a comparison takes the same time for every guess.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Callers {
    /// Returns true if every legitimate call proves its origin: admission by a certificate, conversion by a key.
    pub fn are_all_recognized(&self) -> bool {
        self.authorities.is_some() && self.key.is_some()
    }

    /// Returns the URI without the last path segment and the query if that segment is the key, otherwise `None`.
    pub fn without_key(&self, uri: &Uri) -> Option<Uri> {
        let key = self.key.as_ref()?;
        let (path, last) = uri.path().rsplit_once('/')?;
        if !key.is(last) {
            return None;
        }
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = PathAndQuery::try_from(if path.is_empty() { "/" } else { path }).ok();
        Uri::from_parts(parts).ok()
    }
}

impl Key {
    /// Reads the key from a file, ignoring surrounding whitespace. Fails unless the key consists of at least [`SHORTEST_KEY`]
    /// letters and digits.
    pub fn read(file: &Path) -> io::Result<Self> {
        let named = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
        let key = text.trim();
        if key.len() < SHORTEST_KEY || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(named(&format_args!("a key has at least {SHORTEST_KEY} letters and digits")));
        }
        Ok(Self(Sha256::digest(key).into()))
    }

    fn is(&self, segment: &str) -> bool {
        self.0 == <[u8; 32]>::from(Sha256::digest(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(key: &str) -> io::Result<Callers> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, key).unwrap();
        Ok(Callers { key: Some(Key::read(&file)?), ..Callers::default() })
    }

    #[test]
    fn a_path_with_the_key_is_handed_on_without_it() {
        let callers = callers(&format!("{}\n", "k".repeat(32))).unwrap();
        let without = |path: &str| callers.without_key(&path.parse().unwrap()).map(|uri| uri.to_string());
        let key = "k".repeat(32);
        assert_eq!(without(&format!("/convert/{key}")).as_deref(), Some("/convert"));
        assert_eq!(
            without(&format!("https://127.0.0.1:1/convert/{key}?timeout=30s")).as_deref(),
            Some("https://127.0.0.1:1/convert")
        );
        assert_eq!(without(&format!("/{key}")).as_deref(), Some("/"));
        assert_eq!(without("/convert"), None);
        assert_eq!(without(&format!("/convert/{key}k")), None);
        assert_eq!(without(&format!("/{key}/convert")), None);
    }

    #[test]
    fn a_key_that_can_be_guessed_is_refused() {
        assert!(callers("short").is_err_and(|error| error.to_string().contains("at least 32")));
        assert!(callers(&"/".repeat(40)).is_err());
    }
}
