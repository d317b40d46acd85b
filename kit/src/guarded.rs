//! One object that can't be decoded must not blind us to its whole kind.
//!
//! kube's watcher fails on such an object, begins again, and meets it again, for ever. Here it is told of in the
//! log and the others pass. An object that was in order once stays in the cache as it was then: it is there still,
//! and nobody must take it for gone.

use kube::{
    Api, Resource, ResourceExt,
    api::ObjectMeta,
    core::DynamicResourceScope,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher::Event,
    },
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::borrow::Cow;

/// An object, or what can be said of one that is not what its kind says.
#[derive(Clone, Debug)]
pub(crate) enum Guarded<K> {
    /// As it should be.
    Sound(K),
    /// It can't be decoded.
    Broken {
        /// Whose it is.
        meta: Box<ObjectMeta>,
        /// Why.
        error: String,
    },
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let error = match K::deserialize(&value) {
            Ok(object) => return Ok(Self::Sound(object)),
            Err(error) => error.to_string(),
        };
        let meta = ObjectMeta::deserialize(&value["metadata"]).map_err(serde::de::Error::custom)?;
        Ok(Self::Broken { meta: Box::new(meta), error })
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

/// The same objects, decoded with care.
pub(crate) fn guarded<K: Resource<DynamicType = ()>>(api: Api<K>) -> Api<Guarded<K>> {
    match api.namespace().map(str::to_owned) {
        Some(namespace) => Api::namespaced_with(api.into_client(), &namespace, &()),
        None => Api::all_with(api.into_client(), &()),
    }
}

/// The event as the cache is to take it, if it is to take it; `store` has the objects as they were.
pub(crate) fn admitted<K>(store: &Store<K>, event: Event<Guarded<K>>) -> Option<Event<K>>
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
            told(store, &meta, &error);
            None
        }
        Event::InitApply(Guarded::Broken { meta, error }) => told(store, &meta, &error).map(Event::InitApply),
        Event::Delete(Guarded::Broken { meta, .. }) => before(store, &meta).map(Event::Delete),
    }
}

/// Says what is wrong, and gives the object as it was when it was in order, if it ever was.
fn told<K>(store: &Store<K>, meta: &ObjectMeta, error: &str) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let name = crate::index::key(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let before = before(store, meta);
    let known_as_of = before.as_ref().and_then(ResourceExt::resource_version);
    tracing::error!(kind = %K::kind(&()), name, error, known_as_of, "object can't be decoded; mend or delete it");
    before
}

fn before<K>(store: &Store<K>, meta: &ObjectMeta) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let reference = ObjectRef::<K>::new(meta.name.as_deref()?);
    let reference = match &meta.namespace {
        Some(namespace) => reference.within(namespace),
        None => reference,
    };
    store.get(&reference).map(|object| K::clone(&object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::reflector;
    use serde_json::json;

    fn config_map(version: &str, data: &serde_json::Value) -> Guarded<ConfigMap> {
        let metadata = json!({ "name": "a", "namespace": "n", "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata, "data": data })).unwrap()
    }

    #[test]
    fn a_broken_object_stays_as_it_was_until_it_is_gone() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        let mut take = |event| {
            if let Some(event) = admitted(&store, event) {
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
