//! Watches kinds that another product may install, once they are served.
//!
//! A watch for an unserved kind would retry forever, and readers would wait for its first list forever. So this module
//! watches the kind's CustomResourceDefinition by its name, and the kind itself only once the definition exists.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher;
use tokio::sync::watch as state;

use crate::runtime::Runtime;
use crate::watch::{self, Cache, Watchable, feed};

/// The objects of a kind that may not be served. Clones share one cache.
pub struct Optional<K: Watchable> {
    cache: Cache<K>,
    /// `None` until it is known if the kind is served.
    served: state::Receiver<Option<bool>>,
}

impl<K: Watchable> Clone for Optional<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), served: self.served.clone() }
    }
}

/// Watches whole objects, without their managed fields, once their kind is served.
pub fn watch_optional<K: Watchable>(runtime: &Runtime, api: Api<K>) -> Optional<K> {
    let (cache, writer) = Cache::new(Arc::clone(&runtime.expectations));
    let (found, served) = state::channel(None);
    let definition = format!("{}.{}", K::plural(&()), K::group(&()));
    let definitions = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(runtime.client.clone());
    let (runtime, fill) = (runtime.clone(), cache.clone());
    tokio::spawn(async move {
        let mut seen = watch::one(definitions, &definition);
        while let Some(None) = seen.next().await {
            found.send_replace(Some(false));
        }
        drop(seen);
        found.send_replace(Some(true));
        // If the kind is no longer served, this watch logs the error and retries.
        tokio::join!(feed(&runtime, api, watcher::Config::default(), fill, writer), found.closed());
    });
    Optional { cache, served }
}

impl<K: Watchable> Optional<K> {
    /// Creates a kind that isn't served, for tests.
    pub fn unserved() -> Self {
        Self { cache: Cache::new(Arc::default()).0, served: state::channel(Some(false)).1 }
    }

    /// Creates a served kind with the objects in `cache`, for tests.
    pub fn served(cache: Cache<K>) -> Self {
        Self { cache, served: state::channel(Some(true)).1 }
    }

    /// Returns the cache, for indexes and listeners. It is empty while the kind isn't served.
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// Returns true if the kind is served.
    pub fn is_served(&self) -> bool {
        *self.served.borrow() == Some(true)
    }

    /// Waits until it is known if the kind is served and, if it is, until the cache is complete.
    pub async fn settled(&self) {
        let mut served = self.served.clone();
        // The sender lives as long as the program.
        let known = served.wait_for(Option::is_some).await.is_ok_and(|served| *served == Some(true));
        if known {
            self.cache.complete().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn list(items: &serde_json::Value) -> (u16, serde_json::Value) {
        (
            200,
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}),
        )
    }

    #[tokio::test]
    async fn a_kind_that_is_not_served_is_not_asked_for() {
        let (client, requests) = support::api_server::server(|_| list(&json!([])));
        let runtime = Runtime::detached(client);
        let maps = watch_optional(&runtime, Api::<ConfigMap>::all(runtime.client.clone()));
        maps.settled().await;
        assert!(!maps.is_served());
        assert!(requests.lock().iter().all(|request| request.path.contains("customresourcedefinitions")));
    }

    #[tokio::test]
    async fn a_kind_is_watched_from_when_it_is_served() {
        let (client, _) = support::api_server::server(|request| {
            let object = json!({"metadata": {"name": "x", "namespace": "n", "resourceVersion": "6"}});
            match (request.path.contains("customresourcedefinitions"), request.path.contains("watch=")) {
                // The definition appears during the watch.
                (true, true) => (200, json!({"type": "ADDED", "object": object})),
                (true, false) => list(&json!([])),
                (false, _) => list(&json!([object])),
            }
        });
        let runtime = Runtime::detached(client);
        let maps = watch_optional(&runtime, Api::<ConfigMap>::all(runtime.client.clone()));
        let mut known = maps.served.clone();
        known.wait_for(|served| *served == Some(true)).await.unwrap();
        maps.settled().await;
        assert!(maps.cache().get(Some("n"), "x").is_some());
    }
}
