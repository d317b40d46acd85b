//! Objects that this program makes itself: applied and kept as an add-on's, and no part of the status of add-ons.

use serde_json::Value;
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
        let values: Vec<&Value> = manifests.iter().map(|manifest| &manifest.value).collect();
        let digest = Sha256::digest(Value::from_iter(values.into_iter().cloned()).to_string());
        let version = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
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
