//! A workload cluster's StorageClasses: each class that is assigned to the cluster's namespace, in two editions.
//!
//! The second edition has the suffix `-latebinding`, and binds a volume when the first Pod that uses it is scheduled. Claims in
//! the workload cluster become claims in the namespace, with the class that `svStorageClass` names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::gcm::parts::StorageSettings;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::wanted::{ObjectProblem, WantedObjects};

/// The CSI driver in workload clusters.
pub const PROVISIONER: &str = "csi.vsphere.vmware.com";
/// The annotation that marks the default class.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The name suffix of the second edition.
const LATE_BINDING: &str = "-latebinding";
const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";
/// The maximum number of classes that a workload cluster gets. With two editions each, this number stays within the limit for
/// lists in workload clusters.
const MAX_CLASSES: usize = 200;
/// The maximum number of names in a message.
const MAX_NAMES: usize = 10;
/// The maximum length of a class name, in bytes.
const MAX_NAME: usize = 253;

/// The management cluster's classes that are assigned to the namespace, by name.
type Assigned = BTreeMap<String, Option<Arc<StorageClass>>>;

/// Returns true if a cluster requests storage by naming a class or a default class.
pub fn is_requested(settings: Option<&StorageSettings>) -> bool {
    let Some(StorageSettings { classes, default_class }) = settings else { return false };
    classes.iter().flatten().chain(default_class).any(|name| !name.is_empty())
}

/// Returns the StorageClasses for a workload cluster: the assigned classes that the cluster names, or all assigned classes if
/// it doesn't name any.
pub fn wanted(settings: Option<&StorageSettings>, namespace: &str, assigned: &Assigned) -> WantedObjects {
    let named: BTreeSet<&str> = settings
        .and_then(|settings| settings.classes.as_deref())
        .unwrap_or_default()
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    let is_asked_for = |name: &str| named.is_empty() || named.contains(name);
    let mut classes: Vec<_> = assigned.iter().filter(|(name, _)| is_asked_for(name)).collect();
    let mut problems: Vec<_> = named
        .iter()
        .filter(|name| !assigned.contains_key(**name))
        .map(|name| unassigned(name, "spec.settings.storage.classes", namespace, assigned))
        .collect();
    if classes.len() > MAX_CLASSES {
        let message = format!(
            "it has {} storage classes, but a cluster gets at most {MAX_CLASSES}. List the classes that the cluster needs in spec.settings.storage.classes",
            classes.len()
        );
        problems.push(ObjectProblem::new(format!("Namespace {namespace}"), message));
        classes.truncate(MAX_CLASSES);
    }
    let mut documents: BTreeMap<String, Value> = BTreeMap::new();
    for (name, class) in classes {
        documents.extend(editions(name, class.as_deref(), assigned));
    }
    if let Some(default) =
        settings.and_then(|settings| settings.default_class.as_deref()).filter(|name| !name.is_empty())
    {
        match documents.get_mut(default) {
            Some(document) => document["metadata"]["annotations"] = json!({IS_DEFAULT: "true"}),
            None => problems.push(no_default(default, namespace, assigned)),
        }
    }
    WantedObjects::of(documents.into_values().collect(), problems)
}

/// Returns the problem for a ConfigMap whose annotation is invalid.
pub fn invalid_annotation(config_map: &str) -> ObjectProblem {
    ObjectProblem::new(
        format!("ConfigMap {config_map}"),
        "its annotation run.tanzu.vmware.com/storage-classes has no effect: the value must be none, and the bundle must have the type csi. Correct the annotation, or remove it",
    )
}

/// Returns an empty set, because the bundle in this ConfigMap provides the classes. Reports a problem if the spec also names
/// classes, which don't have an effect then.
pub fn of_bundle(settings: Option<&StorageSettings>, config_map: &str) -> WantedObjects {
    let problem = is_requested(settings).then(|| {
        let message = format!(
            "its annotation run.tanzu.vmware.com/storage-classes keeps the classes of the namespace away, but spec.settings.storage names some. Remove the annotation or spec.settings.storage, and annotate the default class in the bundle with {IS_DEFAULT}"
        );
        ObjectProblem::new(format!("ConfigMap {config_map}"), message)
    });
    WantedObjects::of(Vec::new(), problem.into_iter().collect())
}

/// Returns the editions of a class. Omits the late-binding edition if an assigned class already uses its name, the name would
/// be too long, or `name` already has the suffix.
fn editions(name: &str, class: Option<&StorageClass>, assigned: &Assigned) -> Vec<(String, Value)> {
    let mode = class.and_then(|class| class.volume_binding_mode.as_deref()).unwrap_or("Immediate");
    let mut editions = vec![(name.to_owned(), document(name, name, class, mode))];
    let late = format!("{name}{LATE_BINDING}");
    if !name.ends_with(LATE_BINDING) && !assigned.contains_key(&late) && late.len() <= MAX_NAME {
        let document = document(&late, name, class, WAIT_FOR_FIRST_CONSUMER);
        editions.push((late, document));
    }
    editions
}

/// Removes the suffix of the edition with late binding from a storage class's name.
pub fn first_edition(name: &str) -> &str {
    name.strip_suffix(LATE_BINDING).unwrap_or(name)
}

fn document(name: &str, of: &str, class: Option<&StorageClass>, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": {"isSyncedFromSupervisor": "yes"}},
        "provisioner": PROVISIONER,
        "parameters": {"svStorageClass": of},
        "reclaimPolicy": class.and_then(|class| class.reclaim_policy.as_deref()).unwrap_or("Delete"),
        "volumeBindingMode": mode,
        "allowVolumeExpansion": class.and_then(|class| class.allow_volume_expansion).unwrap_or(true),
    })
}

fn unassigned(name: &str, field: &str, namespace: &str, assigned: &Assigned) -> ObjectProblem {
    // Escape the name, because users can write any string.
    let name = name.escape_debug();
    let message = format!(
        "it is not assigned to namespace {namespace}. Add the hard limit {name}.storageclass.storage.k8s.io/requests.storage to a ResourceQuota there, or remove the class from {field}. {}",
        offered(assigned)
    );
    ObjectProblem::new(format!("StorageClass {name}"), message)
}

fn no_default(name: &str, namespace: &str, assigned: &Assigned) -> ObjectProblem {
    if !assigned.contains_key(name) && !assigned.contains_key(first_edition(name)) {
        return unassigned(name, "spec.settings.storage.defaultClass", namespace, assigned);
    }
    let message = "spec.settings.storage.defaultClass names it, but spec.settings.storage.classes does not. Add it there, or use another default";
    ObjectProblem::new(format!("StorageClass {name}"), message)
}

/// Lists the classes that are assigned to the namespace, for messages.
fn offered(assigned: &Assigned) -> String {
    if assigned.is_empty() {
        return "The namespace has none".to_owned();
    }
    let names: Vec<&str> = assigned.keys().take(MAX_NAMES).map(String::as_str).collect();
    let more = if assigned.len() > MAX_NAMES { ", …" } else { "" };
    format!("The namespace has {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests;
