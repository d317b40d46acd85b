//! The one way to watch.
//!
//! One watch per kind feeds one cache, however many controllers read it. Managed fields are dropped on arrival
//! (four fifths of a cache's memory); a kind of which only owners or labels matter is kept as metadata. Indexes
//! and listeners are told of every change with the object as it was and as it is, so nobody has to scan.

use crate::{
    expectations::{Expectations, StaleCache, stale_cache, version},
    guarded::{admitted, guarded},
    index::{Index, reference},
    run::Runtime,
};
use futures::{Stream, StreamExt};
use kube::{
    Api, Resource, ResourceExt,
    api::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::{
    cell::OnceCell,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::watch;

/// A kind that can be watched: every generated kind, and [`PartialObjectMeta`] of one.
pub trait Watchable:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

/// One object's change: absent before means new, absent now means gone.
#[derive(Debug)]
pub struct Change<K> {
    /// The object as the cache held it.
    pub old: Option<Arc<K>>,
    /// The object as the cache holds it now.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as it was and as it is, whichever there is.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send>;
/// Takes a change into an index; the name of its object is made once for all indexes, and only if one needs it.
type Indexing<K> = Box<dyn Fn(&Change<K>, &dyn Fn() -> Arc<ObjectRef<K>>) + Send>;

/// Who is told of changes: indexes first, so that listeners can read them.
struct Told<K: Watchable> {
    indexes: Vec<Indexing<K>>,
    listeners: Vec<Listener<K>>,
}

impl<K: Watchable> Told<K> {
    fn tell(&self, change: &Change<K>) {
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
    /// The highest resourceVersion that any event of this watch carried.
    seen: AtomicU64,
    told: Mutex<Told<K>>,
    /// Whether the first list is in. The store's own wait wakes only the last of several that wait for it.
    complete: watch::Sender<bool>,
}

/// All objects of one kind as the watch last showed them. Clones share one cache.
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

/// Watches only the metadata, without managed fields; enough for owners, labels and existence.
pub fn metadata<K>(runtime: &Runtime, api: Api<PartialObjectMeta<K>>) -> Cache<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    selected(runtime, api, watcher::Config::default())
}

/// Watches as `config` says (a label selector, say), without managed fields.
pub fn selected<K: Watchable>(runtime: &Runtime, api: Api<K>, config: watcher::Config) -> Cache<K> {
    let (cache, writer) = Cache::new(Arc::clone(&runtime.expectations));
    tokio::spawn(fed(runtime, api, config, cache.clone(), writer));
    cache
}

/// Feeds `cache` with what the API server has, as long as the program runs.
pub(crate) fn fed<K: Watchable>(
    runtime: &Runtime,
    api: Api<K>,
    config: watcher::Config,
    cache: Cache<K>,
    writer: Writer<K>,
) -> impl Future<Output = ()> + Send + use<K> {
    let store = cache.store();
    let events = watcher(guarded(api), config)
        .default_backoff()
        .filter_map(move |event| std::future::ready(event.map(|event| admitted(&store, event)).transpose()));
    let events = events.modify(prune);
    // A watch ends with its program, and a program with its watch: a cache that nobody feeds looks like peace.
    let end = runtime.shutdown.clone().drop_guard();
    let followed = cache.follow(events, writer);
    async move {
        followed.await;
        drop(end);
    }
}

/// Drops what no controller reads.
fn prune<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

impl<K: Watchable> Cache<K> {
    /// A cache that nothing feeds; what [`Cache::follow`] is given fills it. For tests, which have no API server.
    pub fn new(expectations: Arc<Expectations>) -> (Self, Writer<K>) {
        let (store, feed) = reflector::store();
        let shared = Shared {
            store,
            expectations,
            seen: AtomicU64::new(0),
            told: Mutex::new(Told { indexes: Vec::new(), listeners: Vec::new() }),
            complete: watch::Sender::new(false),
        };
        (Self(Arc::new(shared)), feed)
    }

    /// The object as the watch last showed it, however old that is.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let reference = ObjectRef::<K>::new(name);
        self.0.store.get(&match namespace {
            Some(namespace) => reference.within(namespace),
            None => reference,
        })
    }

    /// The object, unless the cache has not seen our own last write of it yet.
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

    /// Every object. A scan: for start-up and sweeps, never per event.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.0.store.state()
    }

    /// Whether the cache holds nothing. Costs nothing.
    pub fn is_empty(&self) -> bool {
        self.0.store.is_empty()
    }

    /// Whether the cache holds everything that was there when the watch began.
    pub fn is_complete(&self) -> bool {
        *self.0.complete.borrow()
    }

    /// The store that kube's own controller reads.
    pub(crate) fn store(&self) -> Store<K> {
        self.0.store.clone()
    }

    /// Resolves when the cache holds everything that was there when the watch began.
    pub async fn complete(&self) {
        // The sender lives as long as the cache that is asked.
        let _ = self.0.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// Keeps the objects by the keys that `keys` gives them.
    pub fn index(&self, keys: impl Fn(&K) -> Vec<String> + Send + 'static) -> Index<K> {
        let index = Index::new(self.store());
        let kept = index.clone();
        let indexing: Indexing<K> = Box::new(move |change, name| {
            let of = |side: &Option<Arc<K>>| side.as_deref().map(&keys).unwrap_or_default();
            let (old, new) = (of(&change.old), of(&change.new));
            if old != new {
                kept.moved(&name(), &old, new);
            }
        });
        let mut told = self.0.told.lock();
        for object in self.all() {
            let name = || Arc::new(reference(&*object));
            indexing(&Change { old: None, new: Some(Arc::clone(&object)) }, &name);
        }
        told.indexes.push(indexing);
        index
    }

    /// Tells `listener` of every change; first of all objects that are there already.
    ///
    /// Listeners are called in the order they came, after all indexes know of the change.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + 'static) {
        let mut told = self.0.told.lock();
        for object in self.all() {
            listener(&Change { old: None, new: Some(object) });
        }
        told.listeners.push(Box::new(listener));
    }

    /// Takes every event of a watch into the cache, until the stream ends.
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
        // Held across store and listeners, so that a new listener sees each object exactly once.
        let told = self.0.told.lock();
        if let Event::Apply(object) | Event::Delete(object) | Event::InitApply(object) = event {
            self.0.seen.fetch_max(version(object).unwrap_or(0), Ordering::AcqRel);
        }
        match event {
            Event::Apply(object) => {
                let reference = ObjectRef::from_obj(object);
                let old = self.0.store.get(&reference);
                writer.apply_watcher_event(event);
                told.tell(&Change { old, new: self.0.store.get(&reference) });
            }
            Event::Delete(object) => {
                let old = self.0.store.get(&ObjectRef::from_obj(object));
                writer.apply_watcher_event(event);
                self.0.expectations.forget(object);
                told.tell(&Change { old, new: None });
            }
            Event::InitDone => {
                let before = self.all();
                writer.apply_watcher_event(event);
                self.relisted(&told, before);
                self.0.complete.send_replace(true);
            }
            Event::Init | Event::InitApply(_) => writer.apply_watcher_event(event),
        }
    }

    /// Tells what a new list changed: nobody is told of objects that are as they were.
    fn relisted(&self, told: &Told<K>, before: Vec<Arc<K>>) {
        let mut gone: std::collections::HashMap<_, _> =
            before.into_iter().map(|object| (ObjectRef::from_obj(&*object), object)).collect();
        for object in self.all() {
            let old = gone.remove(&ObjectRef::from_obj(&*object));
            if old.as_ref().is_none_or(|old| old.resource_version() != object.resource_version()) {
                told.tell(&Change { old, new: Some(object) });
            }
        }
        for object in gone.into_values() {
            self.0.expectations.forget(&*object);
            told.tell(&Change { old: Some(object), new: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use std::collections::BTreeMap;

    fn config_map(name: &str, version: u64, owner: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.into());
        object.metadata.namespace = Some("n".into());
        object.metadata.resource_version = Some(version.to_string());
        object.metadata.labels = Some(BTreeMap::from([("owner".into(), owner.into())]));
        object
    }

    fn owner(object: &ConfigMap) -> Vec<String> {
        object.labels().get("owner").cloned().into_iter().collect()
    }

    struct Watched {
        cache: Cache<ConfigMap>,
        writer: Option<Writer<ConfigMap>>,
        expectations: Arc<Expectations>,
        log: Arc<Mutex<Vec<String>>>,
    }

    impl Watched {
        fn new() -> Self {
            let expectations = Arc::<Expectations>::default();
            let (cache, feed) = Cache::new(Arc::clone(&expectations));
            let log = Arc::<Mutex<Vec<String>>>::default();
            let told = Arc::clone(&log);
            cache.listen(move |change: &Change<ConfigMap>| {
                let of = |side: &Option<Arc<ConfigMap>>| {
                    side.as_ref().map_or("-".into(), |o| o.resource_version().unwrap_or_default())
                };
                let name = change.sides().next().map(|o| o.name_any()).unwrap_or_default();
                told.lock().push(format!("{name} {}>{}", of(&change.old), of(&change.new)));
            });
            Self { cache, writer: Some(feed), expectations, log }
        }

        fn events(&mut self, events: Vec<Event<ConfigMap>>) -> Vec<String> {
            let mut writer = self.writer.take().unwrap();
            for event in events {
                self.cache.take(&mut writer, &event);
            }
            self.writer = Some(writer);
            let mut told = std::mem::take(&mut *self.log.lock());
            told.sort();
            told
        }
    }

    #[test]
    fn a_relist_tells_only_what_changed() {
        let mut watched = Watched::new();
        let first = vec![
            Event::Init,
            Event::InitApply(config_map("a", 1, "x")),
            Event::InitApply(config_map("b", 2, "x")),
            Event::InitApply(config_map("c", 3, "x")),
            Event::InitDone,
        ];
        assert_eq!(watched.events(first), ["a ->1", "b ->2", "c ->3"]);
        let second = vec![
            Event::Init,
            Event::InitApply(config_map("a", 1, "x")),
            Event::InitApply(config_map("c", 9, "x")),
            Event::InitApply(config_map("d", 8, "x")),
            Event::InitDone,
        ];
        assert_eq!(watched.events(second), ["b 2>-", "c 3>9", "d ->8"]);
    }

    #[test]
    fn an_index_follows_the_keys() {
        let mut watched = Watched::new();
        let index = watched.cache.index(owner);
        let names = |key: &str| {
            let mut names: Vec<_> = index.objects(key).iter().map(|o| o.name_any()).collect();
            names.sort();
            names
        };
        watched.events(vec![
            Event::Apply(config_map("a", 1, "x")),
            Event::Apply(config_map("b", 2, "x")),
            Event::Apply(config_map("a", 3, "y")),
        ]);
        assert_eq!((names("x"), names("y")), (vec!["b".into()], vec!["a".to_owned()]));
        watched.events(vec![Event::Delete(config_map("b", 4, "x"))]);
        assert!(names("x").is_empty());
        let late = watched.cache.index(owner);
        assert_eq!(late.refs("y").len(), 1, "an index made late knows what is there");
    }

    #[test]
    fn nobody_reads_a_cache_older_than_our_write() {
        let mut watched = Watched::new();
        watched.events(vec![Event::Apply(config_map("a", 5, "x"))]);
        watched.expectations.record_write(&config_map("a", 7, "x"));
        watched.expectations.record_write(&config_map("new", 8, "x"));
        assert!(watched.cache.current(Some("n"), "a").is_err());
        assert!(watched.cache.current(Some("n"), "new").is_err());
        watched.events(vec![Event::Apply(config_map("a", 7, "x")), Event::Delete(config_map("b", 9, "x"))]);
        assert!(watched.cache.current(Some("n"), "a").unwrap().is_some());
        let made_and_deleted_since = watched.cache.current(Some("n"), "new").unwrap();
        assert!(made_and_deleted_since.is_none());
    }

    #[test]
    fn managed_fields_are_dropped() {
        let mut object = config_map("a", 1, "x");
        object.metadata.managed_fields = Some(Vec::new());
        prune(&mut object);
        assert!(object.metadata.managed_fields.is_none());
    }

    #[tokio::test]
    async fn a_watch_that_breaks_down_ends_the_program() {
        let list = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "5" },
            "items": [{ "metadata": { "name": "a", "namespace": "n", "resourceVersion": "1" } }],
        });
        let runtime = Runtime::detached(support::api_server::server(move |_| (200, list.clone())).0);
        let cache = objects(&runtime, Api::<ConfigMap>::all(runtime.client.clone()));
        cache.listen(|_| panic!("a listener's mistake"));
        runtime.shutdown.cancelled().await;
    }

    #[tokio::test]
    async fn a_cache_is_complete_after_the_first_list() {
        let mut watched = Watched::new();
        let events = [Event::Init, Event::InitApply(config_map("a", 1, "x")), Event::InitDone];
        let writer = watched.writer.take().unwrap();
        watched.cache.clone().follow(stream::iter(events.map(Ok)), writer).await;
        watched.cache.complete().await;
        assert_eq!(watched.cache.all().len(), 1);
    }
    #[tokio::test]
    async fn everyone_who_waits_for_a_complete_cache_is_told() {
        let mut watched = Watched::new();
        let waiting = [watched.cache.clone(), watched.cache.clone(), watched.cache.clone()]
            .map(|cache| tokio::spawn(async move { cache.complete().await }));
        tokio::task::yield_now().await;
        let events = [Event::Init, Event::InitDone];
        let writer = watched.writer.take().unwrap();
        watched.cache.clone().follow(stream::iter(events.map(Ok)), writer).await;
        for waiter in waiting {
            waiter.await.unwrap();
        }
    }
}
