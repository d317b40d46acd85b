//! A set of objects that gcm generates for a workload cluster, such as storage classes. The engine applies it like an add-on, but
//! the add-on status doesn't list it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::manifest::Manifest;

/// The generated objects, in the order in which the engine applies them, and a version.
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

    /// Returns the version, which is a hash of the objects. A report with another version describes an earlier desired state.
    pub fn version(&self) -> &str {
        &self.version
    }
}
