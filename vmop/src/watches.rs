//! Which objects a watch event enqueues: another object's keys, looked up in an index.
//!
//! The watches of a controller stand in one table, each with the index that it uses, as in
//! `program/virtual_machines.rs`.

use api::names::annotation;
use k8s_openapi::api::core::v1::Namespace;
use kit::index::{Index, key};
use kit::watch::{Change, Watchable};
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

/// The objects that `index` has under the `keys` of another object.
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

/// As `to`, of the object as it is (or last was), and only when that `value` of it changes.
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

/// As `to`, when an object comes or goes, and not when it changes.
pub fn when_it_comes_or_goes<O: 'static, K: Watchable>(
    to: impl Fn(&O) -> Vec<ObjectRef<K>> + Send + 'static,
) -> impl Fn(&Change<O>) -> Vec<ObjectRef<K>> + Send + 'static {
    move |change| match change {
        Change { old: Some(_), new: Some(_) } => Vec::new(),
        other => other.sides().flat_map(|object| to(object)).collect(),
    }
}

/// The key of a cluster-wide object: its name.
pub fn name<O: Resource>(object: &O) -> Option<String> {
    object.meta().name.clone()
}

/// The key of an object in a namespace.
pub fn namespaced_name<O: Resource>(object: &O) -> Option<String> {
    object.meta().name.as_deref().map(|name| key(object.meta().namespace.as_deref(), name))
}

/// The namespace of an object.
pub fn namespace<O: Resource>(object: &O) -> Option<String> {
    object.meta().namespace.clone()
}

/// The networks that VMs of a namespace may name, as its annotation lists them.
pub fn annotated_networks(namespace: &PartialObjectMeta<Namespace>) -> Option<String> {
    namespace.annotations().get(annotation::NAMESPACE_NETWORKS).cloned()
}

/// Folder and pool of a namespace, as its annotations name them.
pub fn annotated_placement(namespace: &PartialObjectMeta<Namespace>) -> [Option<String>; 2] {
    [annotation::NAMESPACE_FOLDER, annotation::NAMESPACE_RESOURCE_POOL]
        .map(|key| namespace.annotations().get(key).cloned())
}
