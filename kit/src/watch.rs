//! Watches kinds and caches their objects: [`objects`], [`metadata`], [`selected`], or [`one`] for
//! a single object. Controllers must not watch in any other way.
//!
//! One watch per kind feeds one cache, no matter how many controllers read it. Managed fields (four fifths of a cache's memory)
//! and annotations that no controller reads are dropped on arrival. Kinds are kept as metadata if readers need only owners or
//! labels. Indexes and listeners get the old and the new version of every changed object, so readers don't have to scan.

use std::cell::OnceCell;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::api::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::expectations::{Expectations, StaleCache, stale_cache, version};
use crate::guarded::{admit_event, guard_api};
use crate::index::{Index, reference, reference_to};
use crate::pruned::prune;
use crate::runtime::Runtime;
pub use crate::watchable::Watchable;

/// The number of objects per list page. An object can exceed 1 MB, and a page is also held in memory as raw JSON.
const PAGE: u32 = 100;

/// A change to one object. Without an old version the object is new, without a new version it is gone.
#[derive(Debug)]
pub struct Change<K> {
    /// The object as the cache held it before the change.
    pub old: Option<Arc<K>>,
    /// The object as the cache holds it after the change.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// Returns the old and the new version of the object, as far as they exist.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send>;
/// Applies a change to one index. The object reference is created lazily, once for all indexes.
type Indexing<K> = Box<dyn Fn(&Change<K>, &dyn Fn() -> Arc<ObjectRef<K>>) + Send>;

/// The subscribers to changes. Indexes are notified first, so that listeners can read them.
struct Subscribers<K: Watchable> {
    indexes: Vec<Indexing<K>>,
    listeners: Vec<Listener<K>>,
}

impl<K: Watchable> Subscribers<K> {
    fn notify(&self, change: &Change<K>) {
        let Some(object) = change.sides().next() else { return };
        let name = OnceCell::new();
        let name = || Arc::clone(name.get_or_init(|| Arc::new(reference(&**object))));
        self.indexes.iter().for_each(|index| index(change, &name));
        self.listeners.iter().for_each(|listener| listener(change));
    }
}

struct Shared<K: Watchable> {
    store: Store<K>,
    expectations: Arc<Expectations>,
    /// The highest resourceVersion in any event so far.
    seen: AtomicU64,
    subscribers: Mutex<Subscribers<K>>,
    /// True once the first list is complete. The store's own wait isn't used, because it wakes only the last of several waiters.
    complete: watch::Sender<bool>,
}

/// All objects of one kind, as last reported by the watch. Clones share one cache.
pub struct Cache<K: Watchable>(Arc<Shared<K>>);

impl<K: Watchable> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Watches whole objects, without their managed fields.
pub fn objects<K: Watchable>(runtime: &Runtime, api: Api<K>) -> Cache<K> {
    selected(runtime, api, watcher::Config::default())
}

/// Watches only metadata, without managed fields. This is enough for owners, labels and existence.
pub fn metadata<K>(runtime: &Runtime, api: Api<PartialObjectMeta<K>>) -> Cache<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    selected(runtime, api, watcher::Config::default())
}

/// Watches the objects that `config` selects, for example by a label selector. Managed fields are dropped.
pub fn selected<K: Watchable>(runtime: &Runtime, api: Api<K>, config: watcher::Config) -> Cache<K> {
    let (cache, writer) = Cache::new(Arc::clone(&runtime.expectations));
    tokio::spawn(feed(runtime, api, config, cache.clone(), writer));
    cache
}

/// Watches one object. The stream yields its current state, then every change, and `None` while the object is absent.
///
/// Only this object is requested and kept, so it may be a Secret.
pub fn one<K>(api: Api<K>, name: &str) -> BoxStream<'static, Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = K::kind(&());
    let shown = name.to_owned();
    let events = watcher::watch_object(api, name).default_backoff();
    let objects = events.filter_map(move |object| {
        let object = object.inspect_err(|error| {
            tracing::warn!(%kind, name = shown, %error, "watch interrupted; trying again");
        });
        std::future::ready(object.ok())
    });
    objects.boxed()
}

/// Feeds `cache` from the API server until the program ends.
pub(crate) fn feed<K: Watchable>(
    runtime: &Runtime,
    api: Api<K>,
    config: watcher::Config,
    cache: Cache<K>,
    writer: Writer<K>,
) -> impl Future<Output = ()> + Send + use<K> {
    let store = cache.store();
    let config = config.page_size(PAGE);
    let events = watcher(guard_api(api), config).default_backoff().filter_map(move |event| {
        std::future::ready(event.map(|event| admit_event(&store, event)).transpose())
    });
    let events = events.modify(prune);
    // The program shuts down if the watch ends, because a cache without a watch would look as if the cluster doesn't change.
    let end = runtime.shutdown.clone().drop_guard();
    let followed = cache.follow(events, writer);
    async move {
        followed.await;
        drop(end);
    }
}

impl<K: Watchable> Cache<K> {
    /// Creates an empty cache without a watch, and the writer with which [`Cache::follow`] fills the cache. Use it in tests. To
    /// watch a kind, use [`objects`] or [`metadata`].
    pub fn new(expectations: Arc<Expectations>) -> (Self, Writer<K>) {
        let (store, feed) = reflector::store();
        let shared = Shared {
            store,
            expectations,
            seen: AtomicU64::new(0),
            subscribers: Mutex::new(Subscribers { indexes: Vec::new(), listeners: Vec::new() }),
            complete: watch::Sender::new(false),
        };
        (Self(Arc::new(shared)), feed)
    }

    /// Returns the object as last reported by the watch, regardless of its age.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        self.0.store.get(&reference_to(namespace, name))
    }

    /// Returns the object, or an error if the cache doesn't contain this process's last write to it yet.
    pub fn current(&self, namespace: Option<&str>, name: &str) -> Result<Option<Arc<K>>, StaleCache> {
        let object = self.get(namespace, name);
        let shown = object
            .as_deref()
            .map_or_else(|| self.0.seen.load(Ordering::Acquire), |found| version(found).unwrap_or(u64::MAX));
        if self.0.expectations.is_stale::<K>(namespace, name, shown) {
            return Err(stale_cache::<K>(namespace, name));
        }
        Ok(object)
    }

    /// Returns every object. This is a scan, for start-up and sweeps, not for events.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.0.store.state()
    }

    /// Returns true if the cache is empty. Doesn't scan the cache.
    pub fn is_empty(&self) -> bool {
        self.0.store.is_empty()
    }

    /// Returns true once the cache contains every object in the first list.
    pub fn is_complete(&self) -> bool {
        *self.0.complete.borrow()
    }

    /// Returns the store that kube's scheduler reads.
    pub(crate) fn store(&self) -> Store<K> {
        self.0.store.clone()
    }

    /// Waits until the cache contains every object in the first list.
    pub async fn complete(&self) {
        // The cache itself keeps the sender alive, so this can't fail.
        let _ = self.0.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// Creates a complete cache with these objects and without a watch, for tests and for commands that list once.
    pub fn filled(objects: impl IntoIterator<Item = K>) -> Self {
        let (cache, mut writer) = Self::new(Arc::default());
        cache.take(&mut writer, &Event::Init);
        for object in objects {
            cache.take(&mut writer, &Event::InitApply(object));
        }
        cache.take(&mut writer, &Event::InitDone);
        cache
    }

    /// Adds an index. `keys` returns an object's index keys.
    pub fn index(&self, keys: impl Fn(&K) -> Vec<String> + Send + 'static) -> Index<K> {
        let index = Index::new(self.store());
        let kept = index.clone();
        let indexing: Indexing<K> = Box::new(move |change, name| {
            let of = |side: &Option<Arc<K>>| side.as_deref().map(&keys).unwrap_or_default();
            let (old, new) = (of(&change.old), of(&change.new));
            if old != new {
                kept.update(&name(), &old, new);
            }
        });
        let mut subscribers = self.0.subscribers.lock();
        for object in self.all() {
            let name = || Arc::new(reference(&*object));
            indexing(&Change { old: None, new: Some(Arc::clone(&object)) }, &name);
        }
        subscribers.indexes.push(indexing);
        index
    }

    /// Calls `listener` for each object in the cache, then for every change.
    ///
    /// Listeners are called in the order in which they were added, after all indexes are updated.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + 'static) {
        let mut subscribers = self.0.subscribers.lock();
        for object in self.all() {
            listener(&Change { old: None, new: Some(object) });
        }
        subscribers.listeners.push(Box::new(listener));
    }

    /// Applies every watch event to the cache until the stream ends.
    pub async fn follow(self, events: impl Stream<Item = watcher::Result<Event<K>>>, mut writer: Writer<K>) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(&mut writer, &event),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(kind = %K::kind(&()), error, "watch interrupted; trying again");
                }
            }
        }
    }

    pub(crate) fn take(&self, writer: &mut Writer<K>, event: &Event<K>) {
        // Locked across the store and the listeners, so that a new listener gets each object exactly once.
        let subscribers = self.0.subscribers.lock();
        if let Event::Apply(object) | Event::Delete(object) | Event::InitApply(object) = event {
            self.0.seen.fetch_max(version(object).unwrap_or(0), Ordering::AcqRel);
        }
        match event {
            Event::Apply(object) => {
                let reference = ObjectRef::from_obj(object);
                let old = self.0.store.get(&reference);
                writer.apply_watcher_event(event);
                subscribers.notify(&Change { old, new: self.0.store.get(&reference) });
            }
            Event::Delete(object) => {
                let old = self.0.store.get(&ObjectRef::from_obj(object));
                writer.apply_watcher_event(event);
                self.0.expectations.forget(object);
                subscribers.notify(&Change { old, new: None });
            }
            Event::InitDone => {
                let before = self.all();
                writer.apply_watcher_event(event);
                self.notify_relisted(&subscribers, before);
                self.0.complete.send_replace(true);
            }
            Event::Init | Event::InitApply(_) => writer.apply_watcher_event(event),
        }
    }

    /// Notifies subscribers about the objects that differ after a new list. Unchanged objects are skipped.
    fn notify_relisted(&self, subscribers: &Subscribers<K>, before: Vec<Arc<K>>) {
        let mut gone: std::collections::HashMap<_, _> =
            before.into_iter().map(|object| (ObjectRef::from_obj(&*object), object)).collect();
        for object in self.all() {
            let old = gone.remove(&ObjectRef::from_obj(&*object));
            if old.as_ref().is_none_or(|old| old.resource_version() != object.resource_version()) {
                subscribers.notify(&Change { old, new: Some(object) });
            }
        }
        for object in gone.into_values() {
            self.0.expectations.forget(&*object);
            subscribers.notify(&Change { old: Some(object), new: None });
        }
    }
}

#[cfg(test)]
mod tests;
