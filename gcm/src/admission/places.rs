//! Suggests where an unknown field belongs: under another name, at another path, or in another API version.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

/// The remedy for an unknown field without a suggestion.
pub const REMOVE: &str = "Remove it: an API server either refuses it or drops it silently";

/// The metadata fields that every object can have.
pub const METADATA: [&str; 14] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

/// Returns true for a top-level field that every object can have.
pub fn is_common(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata" | "status")
}

/// The spec fields of one kind in all versions.
pub struct FieldPlaces {
    version: String,
    /// Field paths by version. Paths omit list indexes, as in `spec.topology.nodePools[].name`.
    fields: BTreeMap<String, Vec<String>>,
}

/// The reason why a field doesn't exist, and the remedy.
pub struct FieldAdvice {
    pub reason: String,
    pub remedy: String,
    /// The sibling field that the author probably meant, and to which the value belongs.
    pub neighbour: Option<String>,
}

/// Fields that were renamed after v1alpha1, as parent path, v1alpha1 name and later name.
const RENAMED: [(&str, &str, &str); 6] = [
    ("spec.topology.controlPlane", "count", "replicas"),
    ("spec.topology.controlPlane", "class", "vmClass"),
    ("spec.topology.nodePools[]", "count", "replicas"),
    ("spec.topology.nodePools[]", "class", "vmClass"),
    ("spec.topology.workers", "count", "replicas"),
    ("spec.topology.workers", "class", "vmClass"),
];

/// Field names that are too common to suggest another place for them.
const COMMON: [&str; 6] = ["name", "version", "type", "kind", "data", "key"];

impl FieldPlaces {
    /// Returns the fields of a kind, for a manifest that uses this version.
    pub fn of(crd: &CustomResourceDefinition, version: &str) -> Self {
        let mut fields = BTreeMap::new();
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let spec = schema.and_then(|schema| schema.properties.as_ref()?.get("spec"));
            let paths = fields.entry(version.name.clone()).or_insert_with(Vec::new);
            if let Some(spec) = spec {
                collect(spec, "spec", paths);
            }
        }
        Self { version: version.to_owned(), fields }
    }

    /// Returns the advice for a key at `path` that `schema` doesn't contain.
    pub fn advise(&self, path: &str, key: &str, schema: &JSONSchemaProps) -> FieldAdvice {
        let path = without_numbers(path);
        let reason = "the field does not exist".to_owned();
        if let Some(advice) = self.advise_other_version(&path, key) {
            return advice;
        }
        let siblings = schema.properties.iter().flat_map(BTreeMap::keys).map(String::as_str);
        if let Some(near) = nearest(key, siblings) {
            let remedy = format!("Did you mean {near}? If not, remove it");
            return FieldAdvice { reason, remedy, neighbour: Some(near.to_owned()) };
        }
        let elsewhere = self.elsewhere(key);
        let remedy = if elsewhere.is_empty() {
            REMOVE.to_owned()
        } else {
            format!("It belongs to {}", elsewhere.join(" or "))
        };
        FieldAdvice { reason, remedy, neighbour: None }
    }

    fn advise_other_version(&self, path: &str, key: &str) -> Option<FieldAdvice> {
        let old = self.version == "v1alpha1";
        let renamed = RENAMED.iter().find_map(|(at, before, after)| match (old, *at == path) {
            (true, true) if *after == key => Some(*before),
            (false, true) if *before == key => Some(*after),
            _ => None,
        });
        if let Some(right) = renamed.filter(|right| self.has(&self.version, path, right)) {
            let other = self.versions_with(path, key);
            return Some(FieldAdvice {
                reason: format!("{key} belongs to {other}"),
                remedy: format!("In {} its name is {right}", self.version),
                neighbour: Some(right.to_owned()),
            });
        }
        let remedy = match (old, path, key) {
            (false, "spec.topology", "workers") => {
                let remedy = format!(
                    "In {} it is nodePools, a list: - {{name: workers, replicas: …, vmClass: …, storageClass: …}}",
                    self.version
                );
                return Some(FieldAdvice {
                    reason: "workers belongs to v1alpha1".to_owned(),
                    remedy,
                    neighbour: Some("nodePools".to_owned()),
                });
            }
            (true, "spec.topology", "nodePools") => {
                return Some(FieldAdvice {
                    reason: "nodePools belongs to v1alpha2 and v1alpha3".to_owned(),
                    remedy: "In v1alpha1 it is workers, one group of nodes; for several groups use v1alpha3"
                        .to_owned(),
                    neighbour: Some("workers".to_owned()),
                });
            }
            (true, _, "tkr") => "In v1alpha1 the release is spec.distribution.fullVersion, with + for ---",
            _ => return None,
        };
        Some(FieldAdvice {
            reason: format!("{key} belongs to v1alpha2 and v1alpha3"),
            remedy: remedy.to_owned(),
            neighbour: None,
        })
    }

    fn has(&self, version: &str, path: &str, key: &str) -> bool {
        let field = format!("{path}.{key}");
        self.fields.get(version).is_some_and(|fields| fields.contains(&field))
    }

    fn versions_with(&self, path: &str, key: &str) -> String {
        let with: Vec<&str> =
            self.fields.keys().map(String::as_str).filter(|version| self.has(version, path, key)).collect();
        if with.is_empty() { "v1alpha1".to_owned() } else { with.join(" and ") }
    }

    /// Returns the paths in this version that end in this key. Returns an empty list if the key is a common name, or if there
    /// are more than three such paths.
    fn elsewhere(&self, key: &str) -> Vec<String> {
        if COMMON.contains(&key) {
            return Vec::new();
        }
        let end = format!(".{key}");
        let fields = self.fields.get(&self.version).map(Vec::as_slice).unwrap_or_default();
        let found: Vec<String> = fields
            .iter()
            .filter(|field| field.ends_with(&end))
            .map(|field| field.replace("[]", "[…]"))
            .collect();
        if found.len() > 3 { Vec::new() } else { found }
    }
}

fn collect(schema: &JSONSchemaProps, path: &str, paths: &mut Vec<String>) {
    for (key, field) in schema.properties.iter().flatten() {
        let path = format!("{path}.{key}");
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
            collect(items, &format!("{path}[]"), paths);
        }
        collect(field, &path, paths);
        paths.push(path);
    }
}

/// Removes the list indexes from a path: `nodePools[2]` becomes `nodePools[]`.
fn without_numbers(path: &str) -> String {
    let mut inside = false;
    path.chars()
        .filter(|c| {
            inside = match c {
                '[' => true,
                ']' => false,
                _ => inside,
            };
            !(inside && c.is_ascii_digit())
        })
        .collect()
}

/// Returns the name that a misspelled name most likely means: the nearest one, if its edit distance is at most a quarter of the
/// length of `written`, plus one.
pub fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let far = written.len() / 4 + 1;
    names
        .map(|name| (distance(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= far && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}

/// Returns the Levenshtein distance between two strings.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_a_slip_of_the_hand() {
        let names = ["replicas", "vmClass", "storageClass", "volumes"];
        for (written, meant) in
            [("replica", "replicas"), ("VMClass", "vmClass"), ("storageclas", "storageClass")]
        {
            assert_eq!(nearest(written, names.into_iter()), Some(meant));
        }
        for written in ["count", "security", "x"] {
            assert_eq!(nearest(written, names.into_iter()), None, "{written}");
        }
    }

    #[test]
    fn numbers_leave_the_path() {
        assert_eq!(
            without_numbers("spec.topology.nodePools[12].volumes[0].a1"),
            "spec.topology.nodePools[].volumes[].a1"
        );
    }
}
