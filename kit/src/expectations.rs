//! What this process wrote, so that nobody acts on a cache that has not seen it yet.
//!
//! A watch lags behind the API server. A controller that reads its cache right after a write would see the world
//! before that write, and might do the same thing twice. Each write leaves its resourceVersion here; each cache
//! says how far it has come.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

/// After this a write no longer holds a reader back: the watch is broken, or the object is gone since.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15);

/// The writes that a cache may not have seen yet, and the intents that were applied.
#[derive(Default)]
pub struct Expectations {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    unseen: HashMap<u64, Unseen>,
    intents: HashMap<u64, Intent>,
    /// Intents by object, so that a deleted object takes its own along.
    by_object: HashMap<u64, Vec<u64>>,
}

struct Unseen {
    version: u64,
    at: Instant,
}

/// An intent that the API server accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Hash of what was applied.
    pub hash: u64,
    /// resourceVersion of what came of it.
    pub version: u64,
    /// When to send it even so: it was found to be so, and what a former process sent besides is not known.
    pub confirm: Option<Instant>,
}

/// The cache is older than what is known to have been written: wait for it to catch up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the cache has an older version of {kind} {name} than the API server")]
pub struct StaleCache {
    /// Kind of the object.
    pub kind: String,
    /// Its name, with the namespace.
    pub name: String,
}

impl Expectations {
    /// Remembers that `object`, as the API server returned it, was written by us.
    pub fn record_write<K: Resource<DynamicType = ()>>(&self, object: &K) {
        if let Some(version) = version(object) {
            // Whoever takes the last finalizer off is answered with the object as it was: its end comes after.
            let version = version + u64::from(is_ended(object));
            let unseen = Unseen { version, at: Instant::now() };
            self.state.lock().unseen.insert(key_of(object), unseen);
        }
    }

    /// Says whether an object that the cache shows as of `shown` is older than our last write of it.
    ///
    /// `shown` is the resourceVersion of the cached object, or of the latest event of the watch where the object
    /// is absent.
    pub fn is_stale<K: Resource<DynamicType = ()>>(
        &self,
        namespace: Option<&str>,
        name: &str,
        shown: u64,
    ) -> bool {
        let mut state = self.state.lock();
        let key = key::<K>(namespace, name);
        let Some(unseen) = state.unseen.get(&key) else { return false };
        let old = unseen.version > shown && unseen.at.elapsed() < FORGOTTEN_AFTER;
        if !old {
            state.unseen.remove(&key);
        }
        old
    }

    /// Says whether the cached `object` is older than our last write of it.
    pub fn check_fresh<K: Resource<DynamicType = ()>>(&self, object: &K) -> Result<(), StaleCache> {
        let name = object.name_any();
        let shown = version(object).unwrap_or(u64::MAX);
        if self.is_stale::<K>(object.meta().namespace.as_deref(), &name, shown) {
            return Err(stale_cache::<K>(object.meta().namespace.as_deref(), &name));
        }
        Ok(())
    }

    /// The last intent of `manager` for this object that the API server accepted.
    pub fn intent<K: Resource<DynamicType = ()>>(&self, manager: &str, object: &K) -> Option<Intent> {
        self.state.lock().intents.get(&intent_key(manager, key_of(object))).copied()
    }

    /// Remembers an intent that the API server accepted.
    pub fn record_intent<K: Resource<DynamicType = ()>>(&self, manager: &str, object: &K, intent: Intent) {
        let object = key_of(object);
        let key = intent_key(manager, object);
        let mut state = self.state.lock();
        if state.intents.insert(key, intent).is_none() {
            state.by_object.entry(object).or_default().push(key);
        }
    }

    /// Forgets an object that is gone.
    pub fn forget<K: Resource<DynamicType = ()>>(&self, object: &K) {
        let key = key_of(object);
        let mut state = self.state.lock();
        // An object of the same name may have been made since: what we wrote of it is newer than this one's end.
        if state.unseen.get(&key).is_some_and(|unseen| Some(unseen.version) > version(object)) {
            return;
        }
        state.unseen.remove(&key);
        for intent in state.by_object.remove(&key).unwrap_or_default() {
            state.intents.remove(&intent);
        }
    }
}

/// The error for an object that the cache shows older than we wrote it.
pub fn stale_cache<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> StaleCache {
    let name = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    StaleCache { kind: K::kind(&()).into_owned(), name }
}

/// The resourceVersion as the ordered number it is on every API server that Cluster API runs on.
pub fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

/// Whether the object went with the write that returned it.
fn is_ended<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty()
}

fn key_of<K: Resource<DynamicType = ()>>(object: &K) -> u64 {
    key::<K>(object.meta().namespace.as_deref(), object.meta().name.as_deref().unwrap_or_default())
}

fn key<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (K::group(&()), K::kind(&()), namespace.unwrap_or_default(), name).hash(&mut hasher);
    hasher.finish()
}

fn intent_key(manager: &str, object: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (manager, object).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn config_map(version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".into());
        object.metadata.namespace = Some("n".into());
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    #[test]
    fn a_cache_is_behind_until_it_shows_the_write() {
        let expectations = Expectations::default();
        assert!(expectations.check_fresh(&config_map(5)).is_ok());
        expectations.record_write(&config_map(7));
        let behind = expectations.check_fresh(&config_map(6)).unwrap_err();
        assert_eq!(behind.to_string(), "the cache has an older version of ConfigMap n/a than the API server");
        assert!(expectations.check_fresh(&config_map(7)).is_ok());
        assert!(expectations.check_fresh(&config_map(6)).is_ok(), "once seen, the write is forgotten");
    }

    #[test]
    fn an_object_that_went_with_our_write_is_not_acted_on_again() {
        let mut ended = config_map(7);
        ended.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ));
        let expectations = Expectations::default();
        expectations.record_write(&ended);
        assert!(expectations.check_fresh(&ended).is_err());
        assert!(expectations.check_fresh(&config_map(8)).is_ok(), "a namesake is another");
        expectations.record_write(&ended);
        expectations.forget(&config_map(8));
        assert!(expectations.check_fresh(&ended).is_ok(), "nothing is kept of what is gone");
    }

    #[test]
    fn an_absent_object_is_judged_by_how_far_the_watch_has_come() {
        let expectations = Expectations::default();
        expectations.record_write(&config_map(7));
        assert!(expectations.is_stale::<ConfigMap>(Some("n"), "a", 6));
        assert!(!expectations.is_stale::<ConfigMap>(Some("n"), "b", 6));
        assert!(!expectations.is_stale::<ConfigMap>(Some("n"), "a", 9));
    }

    #[test]
    fn the_end_of_an_older_object_does_not_forget_its_namesake() {
        let expectations = Expectations::default();
        expectations.record_write(&config_map(9));
        expectations.forget(&config_map(8));
        assert!(expectations.check_fresh(&config_map(8)).is_err());
        expectations.forget(&config_map(9));
        assert!(expectations.check_fresh(&config_map(8)).is_ok());
    }

    #[test]
    fn an_intent_goes_with_its_object() {
        let expectations = Expectations::default();
        let intent = Intent { hash: 1, version: 7, confirm: None };
        expectations.record_intent("m", &config_map(7), intent);
        assert_eq!(expectations.intent("m", &config_map(7)), Some(intent));
        assert_eq!(expectations.intent("other", &config_map(7)), None);
        expectations.forget(&config_map(8));
        assert_eq!(expectations.intent("m", &config_map(7)), None);
    }
}
