//! Object sets that gcm generates. They are applied like add-ons but aren't part of the add-on status.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::manifest::Manifest;

/// A set's objects, in apply order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    manifests: Vec<Manifest>,
    version: String,
}

impl Generated {
    /// Returns a set with these objects.
    pub fn new(manifests: Vec<Manifest>) -> Self {
        let mut hasher = Sha256::new();
        for manifest in &manifests {
            hasher.update(manifest.json.as_bytes());
        }
        let version = URL_SAFE_NO_PAD.encode(&hasher.finalize()[..9]);
        Self { manifests, version }
    }

    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// Returns a hash of the contents as the version. A report with another version describes an earlier desired state.
    pub fn version(&self) -> &str {
        &self.version
    }
}
