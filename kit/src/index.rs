//! Objects by a key of ours (an owner, a referenced name), kept by the watch, so that no event scans a store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use parking_lot::RwLock;

use crate::watchable::Watchable;

/// The objects of each key; one name of an object serves all indexes.
type Names<K> = HashMap<String, HashSet<Arc<ObjectRef<K>>>>;

/// A secondary index of a [`Cache`](crate::watch::Cache). Clones share one index.
pub struct Index<K: Watchable> {
    store: Store<K>,
    refs: Arc<RwLock<Names<K>>>,
}

impl<K: Watchable> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), refs: Arc::clone(&self.refs) }
    }
}

impl<K: Watchable> Index<K> {
    pub(crate) fn new(store: Store<K>) -> Self {
        Self { store, refs: Arc::default() }
    }

    /// References to the objects of this key, in no order.
    pub fn refs(&self, key: &str) -> Vec<ObjectRef<K>> {
        self.refs
            .read()
            .get(key)
            .map(|refs| refs.iter().map(|name| ObjectRef::clone(name)).collect())
            .unwrap_or_default()
    }

    /// The objects of this key, in no order.
    pub fn objects(&self, key: &str) -> Vec<Arc<K>> {
        self.refs(key).iter().filter_map(|reference| self.store.get(reference)).collect()
    }

    /// The objects of this key, in no order. Each object is read from the cache when the iterator reaches it.
    pub fn each(&self, key: &str) -> impl Iterator<Item = Arc<K>> + use<K> {
        let names: Vec<_> =
            self.refs.read().get(key).map(|refs| refs.iter().cloned().collect()).unwrap_or_default();
        let store = self.store.clone();
        names.into_iter().filter_map(move |name| store.get(&name))
    }

    pub(crate) fn update(&self, reference: &Arc<ObjectRef<K>>, old: &[String], new: Vec<String>) {
        let mut refs = self.refs.write();
        for key in old {
            if let Some(of_key) = refs.get_mut(key) {
                of_key.remove(reference);
                if of_key.is_empty() {
                    refs.remove(key);
                }
            }
        }
        for key in new {
            refs.entry(key).or_default().insert(Arc::clone(reference));
        }
    }
}

/// A reference with what identifies the object, and no more: there are many of one object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectRef<K> {
    reference_to(object.meta().namespace.as_deref(), &object.name_any())
}

/// Returns a reference to the object of this name, in this namespace if it has one.
pub(crate) fn reference_to<K>(namespace: Option<&str>, name: &str) -> ObjectRef<K>
where
    K: Resource<DynamicType = ()>,
{
    let reference = ObjectRef::new(name);
    match namespace {
        Some(namespace) => reference.within(namespace),
        None => reference,
    }
}

/// The key of an object in a namespace: `namespace/name`.
pub fn key(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}
