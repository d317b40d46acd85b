//! Keeps a watch working if one object can't be decoded.
//!
//! kube's watcher fails on such an object, starts over and fails on it again, forever. Here the
//! object is logged and the others are processed. An object that was valid before stays in the
//! cache in its last valid version, because it still exists and must not look deleted.

use std::borrow::Cow;

use kube::api::ObjectMeta;
use kube::core::DynamicResourceScope;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::index::{key, reference_to};

/// The maximum length of a logged decoding error, which may quote user input.
const LONGEST_ERROR: usize = 400;

/// The part that is read from an object that doesn't match its kind.
#[derive(Deserialize)]
struct Known {
    metadata: Box<ObjectMeta>,
}

/// An object, or the metadata of an object that doesn't match its kind.
#[derive(Clone, Debug)]
pub(crate) enum Guarded<K> {
    /// The decoded object.
    Sound(K),
    /// An object that can't be decoded.
    Broken {
        /// The object's metadata.
        meta: Box<ObjectMeta>,
        /// The decoding error.
        error: String,
    },
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Reads the raw JSON, because a value tree takes many times as much memory if the values are short. The raw
        // JSON is available here because API servers send the event type before the object.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str(text.get()) {
            Ok(object) => return Ok(Self::Sound(object)),
            Err(error) => error.to_string(),
        };
        let Known { metadata } = serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(Self::Broken { meta: metadata, error: bounds::printable(&error, LONGEST_ERROR) })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Guarded<K> {
    type DynamicType = ();
    type Scope = DynamicResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }
    fn metadata_api() -> bool {
        K::metadata_api()
    }
    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Sound(object) => object.meta(),
            Self::Broken { meta, .. } => meta,
        }
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Sound(object) => object.meta_mut(),
            Self::Broken { meta, .. } => meta,
        }
    }
}

/// Returns an API for the same objects, decoded as [`Guarded`].
pub(crate) fn guard_api<K: Resource<DynamicType = ()>>(api: Api<K>) -> Api<Guarded<K>> {
    match api.namespace().map(str::to_owned) {
        Some(namespace) => Api::namespaced_with(api.into_client(), &namespace, &()),
        None => Api::all_with(api.into_client(), &()),
    }
}

/// Returns the event for the cache, or `None` to skip it. `store` contains the last valid versions.
pub(crate) fn admit_event<K>(store: &Store<K>, event: Event<Guarded<K>>) -> Option<Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    match event {
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
        Event::Apply(Guarded::Sound(object)) => Some(Event::Apply(object)),
        Event::InitApply(Guarded::Sound(object)) => Some(Event::InitApply(object)),
        Event::Delete(Guarded::Sound(object)) => Some(Event::Delete(object)),
        Event::Apply(Guarded::Broken { meta, error }) => {
            keep_last_good(store, &meta, &error);
            None
        }
        Event::InitApply(Guarded::Broken { meta, error }) => {
            keep_last_good(store, &meta, &error).map(Event::InitApply)
        }
        Event::Delete(Guarded::Broken { meta, .. }) => cached(store, &meta).map(Event::Delete),
    }
}

/// Logs the error and returns the last valid version of the object, if the cache has one.
fn keep_last_good<K>(store: &Store<K>, meta: &ObjectMeta, error: &str) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let name = key(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let last_good = cached(store, meta);
    let known_as_of = last_good.as_ref().and_then(ResourceExt::resource_version);
    tracing::error!(kind = %K::kind(&()), name, error, known_as_of, "cannot decode the object; correct or delete it");
    last_good
}

fn cached<K>(store: &Store<K>, meta: &ObjectMeta) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let reference = reference_to(meta.namespace.as_deref(), meta.name.as_deref()?);
    store.get(&reference).map(|object| K::clone(&object))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::WatchEvent;
    use kube::runtime::reflector;
    use serde_json::json;

    use super::*;

    fn config_map(version: &str, data: &serde_json::Value) -> Guarded<ConfigMap> {
        let metadata = json!({ "name": "a", "namespace": "n", "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata, "data": data })).unwrap()
    }

    #[test]
    fn a_broken_object_stays_as_it_was_until_it_is_gone() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        let mut take = |event| {
            if let Some(event) = admit_event(&store, event) {
                writer.apply_watcher_event(&event);
            }
            let all: Vec<_> = store.state().iter().filter_map(|object| object.resource_version()).collect();
            all.join(" ")
        };
        let (sound, broken) = (config_map("1", &json!({ "k": "v" })), config_map("2", &json!(["no map"])));
        assert!(matches!(broken, Guarded::Broken { .. }));
        assert_eq!(take(Event::Apply(broken.clone())), "", "it never was in order");
        assert_eq!(take(Event::Apply(sound)), "1");
        assert_eq!(take(Event::Apply(broken.clone())), "1");
        for event in [Event::Init, Event::InitApply(broken.clone()), Event::InitDone] {
            take(event);
        }
        assert_eq!(take(Event::Apply(broken.clone())), "1", "a new list does not lose it");
        assert_eq!(take(Event::Apply(config_map("3", &json!(null)))), "3", "mended");
        assert_eq!(take(Event::Delete(broken)), "");
    }

    #[test]
    fn events_of_a_watch_are_decoded_whether_their_objects_are_in_order_or_not() {
        let of = |data: &str| {
            let object = format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"data":{data}}}"#);
            let event = format!(r#"{{"type":"ADDED","object":{object}}}"#);
            match serde_json::from_str(&event).unwrap() {
                WatchEvent::Added(guarded) => guarded,
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(of(r#"{"k":"v"}"#), Guarded::<ConfigMap>::Sound(_)));
        let zeros = format!("[{}0]", "0,".repeat(100_000));
        let Guarded::<ConfigMap>::Broken { meta, error } = of(&zeros) else { panic!("no map") };
        assert_eq!(meta.name.as_deref(), Some("a"));
        assert!(error.len() < 1000, "{}", error.len());
    }

    #[test]
    fn what_has_no_metadata_is_no_object() {
        assert!(serde_json::from_value::<Guarded<ConfigMap>>(json!({ "data": [] })).is_err());
    }

    #[tokio::test]
    async fn a_list_with_a_broken_object_fills_the_cache_with_the_others() {
        let metadata_of = |name: &str| json!({ "name": name, "namespace": "n", "resourceVersion": "1" });
        let (client, requests) = support::api_server::server(move |request| {
            if request.path.contains("watch=") {
                return support::api_server::refusal(500, "InternalError");
            }
            let items = json!([{ "metadata": metadata_of("a") }, { "metadata": metadata_of("b"), "data": ["no map"] }]);
            let metadata = json!({ "resourceVersion": "5" });
            (
                200,
                json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items }),
            )
        });
        let runtime = crate::Runtime::detached(client.clone());
        let cache = crate::watch::objects(&runtime, Api::<ConfigMap>::namespaced(client, "n"));
        cache.complete().await;
        let names: Vec<_> = cache.all().iter().map(|object| object.name_any()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(requests.lock()[0].line(), "GET /api/v1/namespaces/n/configmaps");
    }
}
