//! Indexes cached objects by a key, such as an owner or a referenced name, so that events don't scan a store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use parking_lot::RwLock;

use crate::watchable::Watchable;

/// The object references per key. All indexes share one reference per object.
type Names<K> = HashMap<String, HashSet<Arc<ObjectRef<K>>>>;

/// A secondary index for a [`Cache`](crate::watch::Cache). Clones share one index.
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

    /// Returns references to the objects with this key, in arbitrary order.
    pub fn refs(&self, key: &str) -> Vec<ObjectRef<K>> {
        self.refs
            .read()
            .get(key)
            .map(|refs| refs.iter().map(|name| ObjectRef::clone(name)).collect())
            .unwrap_or_default()
    }

    /// Returns the objects with this key, in arbitrary order.
    pub fn objects(&self, key: &str) -> Vec<Arc<K>> {
        self.refs(key).iter().filter_map(|reference| self.store.get(reference)).collect()
    }

    /// Same as [`Self::objects`], but reads each object from the cache only when the iterator reaches it.
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

/// Returns a reference with only the fields that identify the object, to save memory: there are many references per object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectRef<K> {
    reference_to(object.meta().namespace.as_deref(), &object.name_any())
}

/// Returns a reference to the object with this name, in `namespace` if the object is namespaced.
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

/// Returns the key for an object: `namespace/name`, or `/name` without a namespace.
pub fn key(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}
