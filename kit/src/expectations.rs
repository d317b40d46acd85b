//! Tracks this process's writes, so that a controller doesn't act on a cache that doesn't contain them yet.
//!
//! A watch lags behind the API server. A controller that reads its cache right after a write could see the state before
//! that write and repeat it. So each write records its resourceVersion here, to compare it with the version in the cache.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

/// The time after which a write no longer makes the cache stale. By then the watch is broken, or the object is gone.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15);

/// The writes that a cache may not contain yet, and the applied intents.
#[derive(Default)]
pub struct Expectations {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    unseen: HashMap<u64, Unseen>,
    intents: HashMap<u64, AcceptedIntent>,
    /// The intent keys by object, so that an object's intents can be removed together with the object.
    by_object: HashMap<u64, Vec<u64>>,
}

struct Unseen {
    version: u64,
    at: Instant,
}

/// An intent that the API server accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedIntent {
    /// The hash of the applied intent.
    pub hash: u64,
    /// The resourceVersion of the resulting object.
    pub version: u64,
    /// The time at which to send the intent even if the object matches. Set if this process never sent the intent, because the
    /// intents of an earlier process are unknown.
    pub confirm: Option<Instant>,
}

/// The error for a cache that is older than this process's last write to an object. Wait until the cache catches up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the cache has an older version of {kind} {name} than the API server")]
pub struct StaleCache {
    /// The object's kind.
    pub kind: String,
    /// The object's name, with its namespace.
    pub name: String,
}

impl Expectations {
    /// Records a write. `object` is the object that the API server returned.
    pub fn record_write<K: Resource<DynamicType = ()>>(&self, object: &K) {
        if let Some(version) = version(object) {
            // The response to the removal of the last finalizer has the old version. The delete event has a later one.
            let version = version + u64::from(is_ended(object));
            let unseen = Unseen { version, at: Instant::now() };
            self.state.lock().unseen.insert(key_of(object), unseen);
        }
    }

    /// Returns true if the cached object with version `shown` is older than this process's last write to it. A write no longer
    /// counts after 15 s, because the watch is broken or the object is gone by then.
    ///
    /// `shown` is the resourceVersion of the cached object, or of the watch's latest event if the object is absent.
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

    /// Returns an error if the cached `object` is older than this process's last write to it.
    pub fn check_fresh<K: Resource<DynamicType = ()>>(&self, object: &K) -> Result<(), StaleCache> {
        let name = object.name_any();
        let shown = version(object).unwrap_or(u64::MAX);
        if self.is_stale::<K>(object.meta().namespace.as_deref(), &name, shown) {
            return Err(stale_cache::<K>(object.meta().namespace.as_deref(), &name));
        }
        Ok(())
    }

    /// Returns the last intent of `manager` for this object that the API server accepted.
    pub fn intent<K: Resource<DynamicType = ()>>(&self, manager: &str, object: &K) -> Option<AcceptedIntent> {
        self.state.lock().intents.get(&intent_key(manager, key_of(object))).copied()
    }

    /// Records an intent that the API server accepted.
    pub fn record_intent<K: Resource<DynamicType = ()>>(
        &self,
        manager: &str,
        object: &K,
        intent: AcceptedIntent,
    ) {
        let object = key_of(object);
        let key = intent_key(manager, object);
        let mut state = self.state.lock();
        if state.intents.insert(key, intent).is_none() {
            state.by_object.entry(object).or_default().push(key);
        }
    }

    /// Removes all records about a deleted object.
    pub fn forget<K: Resource<DynamicType = ()>>(&self, object: &K) {
        let key = key_of(object);
        let mut state = self.state.lock();
        // A recorded write that is newer than this deletion belongs to a new object with the same name. Keep the new object's
        // records.
        if state.unseen.get(&key).is_some_and(|unseen| Some(unseen.version) > version(object)) {
            return;
        }
        state.unseen.remove(&key);
        for intent in state.by_object.remove(&key).unwrap_or_default() {
            state.intents.remove(&intent);
        }
    }
}

/// Creates the error for a cached object that is older than this process's last write to it.
pub fn stale_cache<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> StaleCache {
    let name = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    StaleCache { kind: K::kind(&()).into_owned(), name }
}

/// Returns the resourceVersion as a number. It is numeric and ordered on every API server that Cluster API supports.
pub fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

/// Returns true if the object was deleted by the write that returned it.
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
        let intent = AcceptedIntent { hash: 1, version: 7, confirm: None };
        expectations.record_intent("m", &config_map(7), intent);
        assert_eq!(expectations.intent("m", &config_map(7)), Some(intent));
        assert_eq!(expectations.intent("other", &config_map(7)), None);
        expectations.forget(&config_map(8));
        assert_eq!(expectations.intent("m", &config_map(7)), None);
    }
}
