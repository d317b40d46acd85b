//! How a server recognizes the callers that it works for, beside strangers who reach its port.

use std::io;
use std::path::Path;

use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use rustls::RootCertStore;
use sha2::{Digest, Sha256};

/// Fewer characters could be guessed.
const SHORTEST_KEY: usize = 32;

/// The callers of a server. By default it recognizes none.
#[derive(Clone, Default)]
pub(crate) struct Callers {
    /// The authorities of their certificates.
    pub authorities: Option<RootCertStore>,
    /// The last segment of the paths that they ask for.
    pub key: Option<Key>,
}

/// A secret path segment. Only its digest is kept, so that comparing it takes the same time for every guess.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Callers {
    /// Returns true if every call that the server is meant for proves where it comes from: certificates for admission, a key for
    /// conversions.
    pub fn are_all_recognized(&self) -> bool {
        self.authorities.is_some() && self.key.is_some()
    }

    /// Returns the URI without its last segment if that is the key.
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
    /// Reads the key from a file.
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
