//! Reduces the metadata that a cache keeps.
//!
//! A user can put 256 KiB of annotations on each of many objects. Controllers don't read these annotations, but
//! caching them would fill the memory of every program that watches the kind.

use std::collections::BTreeMap;

use api::names::annotation;
use kube::Resource;

/// The maximum annotation value size in bytes.
const LONGEST_VALUE: usize = 4 << 10;
/// The maximum size in bytes of an annotation value that Layercake writes, such as a resource policy's ledger.
const LONGEST_WRITTEN: usize = 32 << 10;
/// The maximum total size in bytes of annotations that only administrators may set, including their names.
const MOST_PROTECTED: usize = 16 << 10;
/// The maximum total size in bytes of all other annotations, including their names.
const MOST_OTHERS: usize = 16 << 10;
/// The maximum number of owner references, not counting the controller's.
const MOST_OWNERS: usize = 64;
/// The annotation that only `kubectl apply` reads.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes metadata that controllers don't read.
///
/// Objects without a namespace keep all annotations except [`LAST_APPLIED`], because tenants can't
/// write them, and images store release data in their annotations.
pub(crate) fn prune<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    let Some(annotations) = &mut meta.annotations else { return prune_owners(object) };
    annotations.remove(LAST_APPLIED);
    if meta.namespace.is_some() {
        prune_annotations(annotations);
    }
    prune_owners(object);
}

/// Keeps the annotations that Layercake reads, truncated if necessary, and as many others as the limits allow.
fn prune_annotations(annotations: &mut BTreeMap<String, String>) {
    let (mut protected, mut others) = (0, 0);
    annotations.retain(|name, value| {
        if annotation::READ.contains(&name.as_str()) {
            let longest = if WRITTEN.contains(&name.as_str()) { LONGEST_WRITTEN } else { LONGEST_VALUE };
            truncate_string(value, longest);
            return true;
        }
        // A separate limit, so that users can't push out an annotation that blocks their own requests.
        if annotation::PROTECTED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            truncate_string(value, LONGEST_VALUE);
            protected += name.len() + value.len();
            return protected <= MOST_PROTECTED;
        }
        if value.len() > LONGEST_VALUE {
            return false;
        }
        others += name.len() + value.len();
        others <= MOST_OTHERS
    });
}

/// Layercake's annotations whose values grow with the items that they list.
const WRITTEN: &[&str] = &[
    annotation::RESOURCE_POLICY_LEDGER,
    annotation::AUTOSCALER_LABELS,
    annotation::AUTOSCALER_TAINTS,
    annotation::DISKS,
];

fn truncate_string(value: &mut String, longest: usize) {
    if value.len() > longest {
        value.truncate(value.floor_char_boundary(longest));
        value.shrink_to_fit();
    }
}

fn prune_owners<K: Resource>(object: &mut K) {
    if let Some(owners) = &mut object.meta_mut().owner_references
        && owners.len() > MOST_OWNERS
    {
        let mut others = 0;
        owners.retain(|owner| {
            others += usize::from(owner.controller != Some(true));
            owner.controller == Some(true) || others <= MOST_OWNERS
        });
        owners.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn pruned(namespace: Option<&str>, annotations: Vec<(String, String)>) -> BTreeMap<String, String> {
        let mut object = ConfigMap::default();
        object.metadata.namespace = namespace.map(str::to_owned);
        object.metadata.annotations = Some(annotations.into_iter().collect());
        prune(&mut object);
        object.metadata.annotations.unwrap()
    }

    #[test]
    fn large_annotations_that_nobody_reads_are_dropped() {
        let long = || "x".repeat(250_000);
        let given = vec![
            ("x".to_owned(), long()),
            ("example.com/small".to_owned(), "1".to_owned()),
            (LAST_APPLIED.to_owned(), "{}".to_owned()),
            (annotation::PAUSED.to_owned(), long()),
            (format!("{}backup", annotation::DELETE_CHECK), long()),
        ];
        let kept = pruned(Some("n"), given.clone());
        let lengths: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.len())).collect();
        let expected = [
            (annotation::PAUSED, LONGEST_VALUE),
            ("delete.check.vmoperator.vmware.com/backup", LONGEST_VALUE),
            ("example.com/small", 1),
        ];
        assert_eq!(lengths, expected);
        assert_eq!(pruned(None, given).len(), 4, "release data of an image stays");
    }

    #[test]
    fn nobody_hides_an_annotation_that_programs_read_behind_others() {
        let mut given: Vec<_> = (0..3000).map(|n| (format!("a{n}"), "x".repeat(60))).collect();
        let check = format!("{}backup", annotation::DELETE_CHECK);
        given.push((check.clone(), String::new()));
        given.push((annotation::FIRST_BOOT_DONE.to_owned(), "true".to_owned()));
        let kept = pruned(Some("n"), given);
        assert!(kept.contains_key(&check) && kept.contains_key(annotation::FIRST_BOOT_DONE));
        let size: usize = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(size < MOST_OTHERS + 200, "{size}");
    }

    #[test]
    fn the_controller_stays_among_many_owners() {
        let owner = |n: usize| OwnerReference {
            name: n.to_string(),
            controller: Some(n == 4999),
            ..OwnerReference::default()
        };
        let mut object = ConfigMap::default();
        object.metadata.owner_references = Some((0..5000).map(owner).collect());
        prune(&mut object);
        let kept = object.metadata.owner_references.unwrap();
        assert_eq!((kept.len(), kept[64].name.as_str()), (65, "4999"));
    }
}
