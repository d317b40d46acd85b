//! Functions that map a watch event to the objects to enqueue, by looking up the changed object's keys in an index.
//!
//! Each controller lists its watches in one table with their indexes, for example in `program/virtual_machines.rs`.

use api::names::annotation;
use k8s_openapi::api::core::v1::Namespace;
use kit::index::{Index, key};
use kit::watch::{Change, Watchable};
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

/// Returns a function that maps an object to the objects that `index` contains under the first object's `keys`.
pub fn to<O, K: Watchable, Keys>(
    index: &Index<K>,
    keys: impl Fn(&O) -> Keys + Send + 'static,
) -> impl Fn(&O) -> Vec<ObjectRef<K>> + Send + 'static
where
    O: 'static,
    Keys: IntoIterator<Item = String> + 'static,
{
    let index = index.clone();
    move |other| keys(other).into_iter().flat_map(|key| index.refs(&key)).collect()
}

/// Returns a function that maps a changed object with `to` if the object's `value` changed, and otherwise to an empty list.
/// Uses the new object, or the old one after a deletion.
pub fn when_changed<O: 'static, K: Watchable, V: PartialEq>(
    value: impl Fn(&O) -> V + Send + 'static,
    to: impl Fn(&O) -> Vec<ObjectRef<K>> + Send + 'static,
) -> impl Fn(&Change<O>) -> Vec<ObjectRef<K>> + Send + 'static {
    move |change| {
        if change.old.as_deref().map(&value) == change.new.as_deref().map(&value) {
            return Vec::new();
        }
        change.new.as_ref().or(change.old.as_ref()).map(|object| to(object)).unwrap_or_default()
    }
}

/// Returns a function that maps an object with `to` if the object was created or deleted, and otherwise to an empty list.
pub fn when_it_comes_or_goes<O: 'static, K: Watchable>(
    to: impl Fn(&O) -> Vec<ObjectRef<K>> + Send + 'static,
) -> impl Fn(&Change<O>) -> Vec<ObjectRef<K>> + Send + 'static {
    move |change| match change {
        Change { old: Some(_), new: Some(_) } => Vec::new(),
        other => other.sides().flat_map(|object| to(object)).collect(),
    }
}

/// Returns a cluster-scoped object's index key: its name.
pub fn name<O: Resource>(object: &O) -> Option<String> {
    object.meta().name.clone()
}

/// Returns a namespaced object's index key: `namespace/name`.
pub fn namespaced_name<O: Resource>(object: &O) -> Option<String> {
    object.meta().name.as_deref().map(|name| key(object.meta().namespace.as_deref(), name))
}

/// Returns the object's namespace.
pub fn namespace<O: Resource>(object: &O) -> Option<String> {
    object.meta().namespace.clone()
}

/// Returns the annotation with the networks that VMs in the namespace may use.
pub fn annotated_networks(namespace: &PartialObjectMeta<Namespace>) -> Option<String> {
    namespace.annotations().get(annotation::NAMESPACE_NETWORKS).cloned()
}

/// Returns the folder and the resource pool in a namespace's annotations.
pub fn annotated_placement(namespace: &PartialObjectMeta<Namespace>) -> [Option<String>; 2] {
    [annotation::NAMESPACE_FOLDER, annotation::NAMESPACE_RESOURCE_POOL]
        .map(|key| namespace.annotations().get(key).cloned())
}
