//! Kinds that another product brings, or does not: watched from when they are served.
//!
//! A watch of a kind that is not served would ask again and again, and whoever waits for its first list
//! would wait for ever. Here the kind's definition is watched, by its name, and the kind only once it is there.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher;
use tokio::sync::watch as state;

use crate::runtime::Runtime;
use crate::watch::{self, Cache, Watchable, feed};

/// All objects of a kind, if it is served. Clones share one cache.
pub struct Optional<K: Watchable> {
    cache: Cache<K>,
    /// Unknown at first.
    served: state::Receiver<Option<bool>>,
}

impl<K: Watchable> Clone for Optional<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), served: self.served.clone() }
    }
}

/// Watches whole objects, without their managed fields, from when their kind is served.
pub fn optional<K: Watchable>(runtime: &Runtime, api: Api<K>) -> Optional<K> {
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
        // A kind that is no longer served is an error of this watch, which logs it and tries again.
        tokio::join!(feed(&runtime, api, watcher::Config::default(), fill, writer), found.closed());
    });
    Optional { cache, served }
}

impl<K: Watchable> Optional<K> {
    /// One of a kind that is not served, for tests of who reads it.
    pub fn unserved() -> Self {
        Self { cache: Cache::new(Arc::default()).0, served: state::channel(Some(false)).1 }
    }

    /// An optional kind that is served, with the objects of this cache. For tests.
    pub fn served(cache: Cache<K>) -> Self {
        Self { cache, served: state::channel(Some(true)).1 }
    }

    /// The cache, for indexes and listeners; empty while the kind is not served.
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// Whether the kind is served.
    pub fn is_served(&self) -> bool {
        *self.served.borrow() == Some(true)
    }

    /// Resolves when it is known whether the kind is served and, if it is, the cache is complete.
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
        let maps = optional(&runtime, Api::<ConfigMap>::all(runtime.client.clone()));
        maps.settled().await;
        assert!(!maps.is_served());
        assert!(requests.lock().iter().all(|request| request.path.contains("customresourcedefinitions")));
    }

    #[tokio::test]
    async fn a_kind_is_watched_from_when_it_is_served() {
        let (client, _) = support::api_server::server(|request| {
            let object = json!({"metadata": {"name": "x", "namespace": "n", "resourceVersion": "6"}});
            match (request.path.contains("customresourcedefinitions"), request.path.contains("watch=")) {
                // The definition comes while it is watched for.
                (true, true) => (200, json!({"type": "ADDED", "object": object})),
                (true, false) => list(&json!([])),
                (false, _) => list(&json!([object])),
            }
        });
        let runtime = Runtime::detached(client);
        let maps = optional(&runtime, Api::<ConfigMap>::all(runtime.client.clone()));
        let mut known = maps.served.clone();
        known.wait_for(|served| *served == Some(true)).await.unwrap();
        maps.settled().await;
        assert!(maps.cache().get(Some("n"), "x").is_some());
    }
}
