//! Detects changes that other clients make to an add-on's objects, from metadata only.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::marks::ObjectMetadata;

/// The state of an object after gcm's last write, or in a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    version: u64,
    generation: Option<i64>,
    marks: u64,
}

/// The action that a change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAction {
    /// No action: the object is as gcm wrote it, or the event is older than the write.
    None,
    /// Check the object's health: only the status changed.
    Status,
    /// Apply the manifest again: another client changed the object.
    Drift,
}

impl Written {
    /// Returns the state in this metadata.
    pub fn of(meta: &ObjectMetadata) -> Self {
        Self { version: version(meta), generation: meta.generation, marks: marks(meta) }
    }

    /// Returns the action that the later state `now` requires.
    pub fn change(&self, now: &Self) -> RequiredAction {
        if now.version <= self.version {
            return RequiredAction::None;
        }
        match (self.generation, now.generation) {
            (Some(before), Some(after)) if before == after => {
                if self.marks == now.marks {
                    RequiredAction::Status
                } else {
                    RequiredAction::Drift
                }
            }
            // Kinds without generations don't have a status, so every new version is drift.
            _ => RequiredAction::Drift,
        }
    }
}

fn version(meta: &ObjectMetadata) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}

/// Hashes the labels, the annotations and the deletion state. Changes to these don't increase the generation.
fn marks(meta: &ObjectMetadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    (meta.labels.hash(), meta.annotations.hash(), meta.deletion_timestamp.is_some()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(version: &str, generation: Option<i64>, label: &str) -> ObjectMetadata {
        let meta = json!({"resourceVersion": version, "generation": generation, "labels": {"a": label}});
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn only_what_others_wrote_later_is_drift() {
        let written = Written::of(&meta("10", Some(2), "x"));
        for (now, expected) in [
            (meta("10", Some(2), "x"), RequiredAction::None),
            (meta("9", Some(1), "x"), RequiredAction::None),
            (meta("11", Some(2), "x"), RequiredAction::Status),
            (meta("11", Some(3), "x"), RequiredAction::Drift),
            (meta("11", Some(2), "y"), RequiredAction::Drift),
        ] {
            assert_eq!(written.change(&Written::of(&now)), expected, "{now:?}");
        }
        let map = Written::of(&meta("10", None, "x"));
        assert_eq!(map.change(&Written::of(&meta("11", None, "x"))), RequiredAction::Drift);
    }
}
