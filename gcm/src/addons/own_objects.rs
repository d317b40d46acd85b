//! Objects that this program makes itself: applied and kept as an add-on's, and no part of the status of add-ons.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::manifest::Manifest;

/// The objects of one set, in the order in which they are applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    manifests: Vec<Manifest>,
    version: String,
}

impl Generated {
    /// The set of these objects.
    pub fn new(manifests: Vec<Manifest>) -> Self {
        let mut hasher = Sha256::new();
        for manifest in &manifests {
            hasher.update(manifest.json.as_bytes());
        }
        let version = URL_SAFE_NO_PAD.encode(&hasher.finalize()[..9]);
        Self { manifests, version }
    }

    /// The objects.
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// What tells these objects from others: a report of another version is about what was wanted before.
    pub fn version(&self) -> &str {
        &self.version
    }
}
