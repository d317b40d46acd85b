//! Labels and annotations that mark an add-on's objects as one set. They follow the ApplySet specification (KEP-3659), which
//! `kubectl apply --applyset` also uses.
//!
//! The objects are the set's *members*. The set's *parent* is a ConfigMap that records the kinds and namespaces of the members.
//! The *slot* of an add-on is the name under which the workload cluster records the add-on.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::manifest::{Manifest, ObjectKey};
use super::marks::{APPLIED, GROUP_KINDS, ObjectMetadata, PART_OF};

/// The label of a parent that contains the set id.
pub const ID: &str = "applyset.kubernetes.io/id";
/// The annotation of a parent that names the tool that manages the set.
pub const TOOLING: &str = "applyset.kubernetes.io/tooling";
/// The annotation of a parent that lists the members' namespaces, except for the parent's own namespace.
pub const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// The namespace of all parents.
pub const PARENT_NAMESPACE: &str = "kube-system";
const TOOL: &str = "gcm/v1";
/// The maximum number of kinds that are read from a parent. The number is limited because users of the workload cluster can
/// change the parent.
const MAX_KINDS: usize = 64;

/// Returns the name of the parent for the add-on in a slot.
pub fn parent_name(slot: &str) -> String {
    format!("gcm-addon-{slot}")
}

/// Returns the set id for the add-on in a slot.
pub fn id(slot: &str) -> String {
    let parent = format!("{}.{PARENT_NAMESPACE}.ConfigMap.", parent_name(slot));
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(Sha256::digest(parent)))
}

/// Returns the manifest's object, labeled as a member of the set `id`.
pub fn member(manifest: &Manifest, id: &str) -> Value {
    let mut value = manifest.value();
    if !value["metadata"]["labels"].is_object() {
        value["metadata"]["labels"] = json!({});
    }
    value["metadata"]["labels"][PART_OF] = json!(id);
    value
}

/// Formats kind and group as in the annotation [`GROUP_KINDS`]: `KIND.GROUP`, or `KIND` for the core group.
pub fn group_kind(key: &ObjectKey) -> String {
    if key.group.is_empty() { key.kind.clone() } else { format!("{}.{}", key.kind, key.group) }
}

/// Returns the parent for a set whose members have these kinds and namespaces. `applied` is the bundle version, once the bundle
/// is applied completely.
pub fn parent(
    slot: &str,
    kinds: &BTreeSet<String>,
    namespaces: &BTreeSet<String>,
    applied: Option<&str>,
) -> ConfigMap {
    let joined = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
    let others: BTreeSet<_> = namespaces.iter().filter(|name| *name != PARENT_NAMESPACE).cloned().collect();
    let mut annotations = vec![
        (TOOLING.to_owned(), TOOL.to_owned()),
        (GROUP_KINDS.to_owned(), joined(kinds)),
        (NAMESPACES.to_owned(), joined(&others)),
    ];
    annotations.extend(applied.map(|version| (APPLIED.to_owned(), version.to_owned())));
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(parent_name(slot)),
            namespace: Some(PARENT_NAMESPACE.to_owned()),
            labels: Some([(ID.to_owned(), id(slot))].into()),
            annotations: Some(annotations.into_iter().collect()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// Returns the kinds that a parent names, as pairs of group and kind. Skips invalid names, and all after the first
/// `MAX_KINDS`.
pub fn kinds_of(parent: &ObjectMetadata) -> Vec<(String, String)> {
    let kinds = parent.annotations.get(GROUP_KINDS).unwrap_or_default();
    let split = |kind: &str| match kind.split_once('.') {
        Some((kind, group)) => (group.to_owned(), kind.to_owned()),
        None => (String::new(), kind.to_owned()),
    };
    let plain = |kind: &&str| {
        !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
    };
    kinds.split(',').map(str::trim).filter(plain).take(MAX_KINDS).map(split).collect()
}

/// Returns the bundle version that was last applied completely, or `None` if the parent doesn't record one.
pub fn applied_version(parent: &ObjectMetadata) -> Option<&str> {
    parent.annotations.get(APPLIED)
}

/// Returns true if an object is deleted when its bundle no longer contains it.
///
/// False for the kinds in the list, because deleting such an object would also delete data or what users created, such as custom
/// resources or the contents of a namespace.
pub fn is_pruned(key: &ObjectKey) -> bool {
    !matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("", "Namespace" | "PersistentVolumeClaim" | "PersistentVolume" | "Node")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// Returns true if a member is deleted and recreated when an immutable field must change. This is safe for kinds whose deletion
/// doesn't affect objects that were created from them.
pub fn is_replaced(key: &ObjectKey) -> bool {
    (key.group.as_str(), key.kind.as_str()) == ("storage.k8s.io", "StorageClass")
}

/// Returns the members that must be deleted: the bundle no longer contains them, and [`is_pruned`] is true for their kind.
pub fn dropped<'m, T>(found: &'m [(ObjectKey, T)], wanted: &BTreeSet<ObjectKey>) -> Vec<&'m (ObjectKey, T)> {
    found.iter().filter(|(key, _)| !wanted.contains(key) && is_pruned(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
        ObjectKey { group: group.into(), kind: kind.into(), namespace: Some("n".into()), name: name.into() }
    }

    /// Returns the parent's metadata as the API server would send it.
    fn answered(parent: &ConfigMap) -> ObjectMetadata {
        serde_json::from_value(json!(parent.metadata)).unwrap()
    }

    #[test]
    fn the_id_is_the_one_of_the_specification() {
        // The hash of NAME.NAMESPACE.KIND.GROUP in URL-safe base64.
        let id = id("cni");
        assert!(id.starts_with("applyset-") && id.ends_with("-v1") && id.len() == 9 + 43 + 3, "{id}");
        assert!(id.len() <= 63, "a label's value");
    }

    #[test]
    fn a_parent_names_what_its_members_are() {
        let kinds = BTreeSet::from(["DaemonSet.apps".to_owned(), "ConfigMap".to_owned()]);
        let namespaces = BTreeSet::from(["kube-system".to_owned(), "kube-flannel".to_owned()]);
        let parent = parent("cni", &kinds, &namespaces, Some("v1"));
        let annotations = parent.metadata.annotations.clone().unwrap();
        assert_eq!(annotations[GROUP_KINDS], "ConfigMap,DaemonSet.apps");
        assert_eq!(annotations[NAMESPACES], "kube-flannel");
        assert_eq!(annotations[TOOLING], "gcm/v1");
        let read = [(String::new(), "ConfigMap".to_owned()), ("apps".to_owned(), "DaemonSet".to_owned())];
        let parent = answered(&parent);
        assert_eq!(kinds_of(&parent), read);
        assert_eq!(applied_version(&parent), Some("v1"));
    }

    #[test]
    fn a_parent_that_others_wrote_is_believed_within_bounds() {
        let mut parent = ConfigMap::default();
        let empty = answered(&parent);
        assert_eq!((kinds_of(&empty), applied_version(&empty)), (Vec::new(), None));
        let kinds: Vec<_> = (0..1000).map(|n| format!("Kind{n}.g")).collect();
        let text = format!("../x, ,{}", kinds.join(","));
        parent.metadata.annotations = Some([(GROUP_KINDS.to_owned(), text)].into());
        let read = kinds_of(&answered(&parent));
        assert_eq!((read.len(), read[0].1.as_str()), (64, "Kind0"));
    }

    #[test]
    fn what_a_bundle_dropped_goes_unless_users_things_went_with_it() {
        let wanted = BTreeSet::from([key("", "ConfigMap", "kept")]);
        let found: Vec<(ObjectKey, ())> = [
            key("", "ConfigMap", "kept"),
            key("", "ConfigMap", "dropped"),
            key("apps", "DaemonSet", "dropped"),
            key("", "Namespace", "n"),
            key("apiextensions.k8s.io", "CustomResourceDefinition", "c"),
            key("", "PersistentVolumeClaim", "data"),
        ]
        .map(|key| (key, ()))
        .to_vec();
        let names: Vec<_> = dropped(&found, &wanted).iter().map(|(key, ())| key.to_string()).collect();
        assert_eq!(names, ["ConfigMap n/dropped", "DaemonSet n/dropped"]);
    }
}
