//! The one way to write.
//!
//! Intents go by server-side apply, one field manager per acting controller and kind, always whole. Status goes
//! as the difference to what the watch showed. What is already so is not sent at all. Whatever was written is
//! remembered in [`crate::expectations`].

mod whole;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::core::object::HasStatus;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use crate::api_error::{is_already_exists, is_conflict, is_gone};
use crate::expectations::{Expectations, Intent, version};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::watchable::Watchable;

/// An intent that was found to be so is sent all the same on the first look after this.
const CONFIRM_AFTER: Duration = Duration::from_hours(1);

/// The API server as one field manager sees it, `capw/machine` say.
#[derive(Clone)]
pub struct Api {
    client: Client,
    manager: &'static str,
    expectations: Arc<Expectations>,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
}

/// What an apply came to.
#[derive(Debug)]
pub enum Applied<K> {
    /// It was so already; nothing was sent. The object is the cached one.
    Unchanged(Arc<K>),
    /// The object as the API server returned it.
    Sent(Arc<K>),
}

impl<K> Applied<K> {
    /// The object as it is now.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Unchanged(object) | Self::Sent(object) => object,
        }
    }
}

impl Api {
    /// The API server as seen by `manager`: crate and kind of the acting controller.
    pub fn new(runtime: &Runtime, manager: &'static str) -> Self {
        Self {
            client: runtime.client.clone(),
            manager,
            expectations: Arc::clone(&runtime.expectations),
            metrics: Arc::clone(&runtime.metrics),
            permits: Arc::clone(&runtime.api_permits),
        }
    }

    /// The client, for what is asked for seldom.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads one object from the API server: for what no watch covers, Secrets above all.
    pub async fn get<K: Watchable>(&self, namespace: Option<&str>, name: &str) -> kube::Result<Option<K>> {
        let _permit = self.permit().await;
        get(&self.client, namespace, name).await
    }

    /// The object as the API server itself has it; `None` if it is gone, or another one has its name.
    ///
    /// For whoever is about to do what can't be undone: a watch may show what was true long ago.
    pub async fn live<K: Watchable>(&self, seen: &K) -> kube::Result<Option<K>> {
        let live = self.get::<K>(seen.meta().namespace.as_deref(), &seen.name_any()).await?;
        Ok(live.filter(|live| live.uid() == seen.uid()))
    }

    /// What is made for a request is made when it can be sent: those that wait take no memory.
    async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// Makes `intent` so: creates the object, or changes those fields that are ours.
    ///
    /// `live` is the object as the cache holds it. Nothing is sent where the live object bears the intent already.
    pub async fn apply<K>(&self, intent: &K, live: Option<&Arc<K>>) -> kube::Result<Applied<K>>
    where
        K: Watchable + Serialize,
    {
        let wanted = typed::<K>(intent)?;
        let hash = hash(&wanted);
        if let Some(live) = live
            && self.is_so(&**live, &wanted, hash)?
        {
            return Ok(Applied::Unchanged(Arc::clone(live)));
        }
        let _permit = self.permit().await;
        let params = PatchParams::apply(self.manager).force();
        let request = request_for(intent).patch(&intent.name_any(), &params, &Patch::Apply(&wanted));
        let object: K = self.send(request, "apply").await?;
        let version = version(&object).unwrap_or_default();
        self.expectations.record_intent(self.manager, &object, Intent { hash, version, confirm: None });
        Ok(Applied::Sent(Arc::new(object)))
    }

    /// Whether `live` bears what is wanted, and nothing that we wanted before and do not any more.
    ///
    /// What a former process wanted is not known. It is taken to be the same, until the slow resync sends the
    /// intent once: a restart writes nothing.
    fn is_so<K: Watchable + Serialize>(&self, live: &K, wanted: &Value, hash: u64) -> kube::Result<bool> {
        let shown = version(live).unwrap_or_default();
        let Some(before) = self.expectations.intent(self.manager, live) else {
            let so = contains(&json_of(live)?, wanted);
            if so {
                let confirm = Some(Instant::now() + CONFIRM_AFTER);
                self.expectations.record_intent(self.manager, live, Intent { hash, version: shown, confirm });
            }
            return Ok(so);
        };
        let due = before.confirm.is_some_and(|confirm| confirm <= Instant::now());
        Ok(!due && before.hash == hash && (before.version == shown || contains(&json_of(live)?, wanted)))
    }

    /// Creates the object; an error that `is_already_exists` where there is one of that name.
    pub async fn create<K: Watchable + Serialize>(&self, object: &K) -> kube::Result<K> {
        let _permit = self.permit().await;
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let body = serde_json::to_vec(&typed(object)?).map_err(kube::Error::SerdeError)?;
        self.send(request_for(object).create(&params, body), "create").await
    }

    /// As [`Self::apply`] where the cache shows the object; creates it else.
    ///
    /// A namesake that the cache does not show yet stays as it is: an error that [`is_already_exists`].
    pub async fn create_or_apply<K>(&self, intent: &K, live: Option<&Arc<K>>) -> kube::Result<Applied<K>>
    where
        K: Watchable + Serialize,
    {
        if live.is_some() {
            return self.apply(intent, live).await;
        }
        let object = self.create(intent).await?;
        let (hash, version) = (hash(&typed::<K>(intent)?), version(&object).unwrap_or_default());
        self.expectations.record_intent(self.manager, &object, Intent { hash, version, confirm: None });
        Ok(Applied::Sent(Arc::new(object)))
    }

    /// Patches what is ours of an object, on condition that it is still the one the caller saw: a conflict else.
    pub async fn patch<K: Watchable>(&self, seen: &K, mut patch: Value) -> kube::Result<K> {
        let _permit = self.permit().await;
        patch["metadata"]["resourceVersion"] = json!(seen.resource_version());
        patch["metadata"]["uid"] = json!(seen.uid());
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let request = request_for(seen).patch(&seen.name_any(), &params, &Patch::Merge(patch));
        self.send(request, "patch").await
    }

    /// Puts a finalizer on the object; None if it is there already.
    pub async fn add_finalizer<K: Watchable>(&self, seen: &K, finalizer: &str) -> kube::Result<Option<K>> {
        if seen.finalizers().iter().any(|there| there == finalizer) {
            return Ok(None);
        }
        let mut finalizers = seen.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        self.patch(seen, json!({ "metadata": { "finalizers": finalizers } })).await.map(Some)
    }

    /// Takes a finalizer off the object; true if it was there. An object that is gone is fine.
    pub async fn remove_finalizer<K: Watchable>(&self, seen: &K, finalizer: &str) -> kube::Result<bool> {
        let finalizers: Vec<_> = seen.finalizers().iter().filter(|other| *other != finalizer).collect();
        if finalizers.len() == seen.finalizers().len() {
            return Ok(false);
        }
        match self.patch(seen, json!({ "metadata": { "finalizers": finalizers } })).await {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(true),
        }
    }

    /// Makes the status so, sending only what differs from what `seen` shows. True if a request was sent.
    pub async fn patch_status<K, S>(&self, seen: &K, status: &S) -> kube::Result<bool>
    where
        K: Watchable + HasStatus<Status = S>,
        S: Serialize,
    {
        let _permit = self.permit().await;
        let old = seen.status().map(json_of).transpose()?.unwrap_or_else(|| json!({}));
        let Some(change) = difference(&old, &json_of(status)?) else { return Ok(false) };
        // The uid keeps the status of an object that is gone from its namesake.
        let patch = json!({ "metadata": { "uid": seen.uid() }, "status": change });
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let name = seen.name_any();
        let request = request_for(seen).patch_subresource("status", &name, &params, &Patch::Merge(patch));
        match self.send::<K>(request, "patch_status").await {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(true),
        }
    }

    /// Deletes the object, if it is still the one that was seen. True if there was one to delete.
    pub async fn delete<K: Watchable>(&self, seen: &K) -> kube::Result<bool> {
        if seen.meta().deletion_timestamp.is_some() {
            return Ok(true);
        }
        let _permit = self.permit().await;
        let preconditions = Preconditions { uid: seen.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        self.metrics.wrote(self.manager, &K::kind(&()), "delete");
        let request =
            request_for(seen).delete(&seen.name_any(), &params).map_err(kube::Error::BuildRequest)?;
        match self.client.request_status::<PartialObjectMeta<K>>(request).await {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) || is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send<K: Watchable>(
        &self,
        request: Result<axum::http::Request<Vec<u8>>, kube::core::request::Error>,
        verb: &'static str,
    ) -> kube::Result<K> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.metrics.wrote(self.manager, &K::kind(&()), verb);
        let object: K = self.client.request(request).await?;
        self.expectations.record_write(&object);
        Ok(object)
    }
}

fn request_for<K: Resource<DynamicType = ()>>(object: &K) -> Request {
    Request::new(K::url_path(&(), object.meta().namespace.as_deref()))
}

/// The object as JSON with apiVersion and kind, which generated types of k8s-openapi carry outside their fields.
fn typed<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> kube::Result<Value> {
    let mut value = json_of(object)?;
    value["apiVersion"] = json!(K::api_version(&()));
    value["kind"] = json!(K::kind(&()));
    Ok(value)
}

fn json_of<T: Serialize>(value: &T) -> kube::Result<Value> {
    serde_json::to_value(value).map_err(kube::Error::SerdeError)
}

fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Whether `live` bears everything that `wanted` says, whatever the API server or others added.
pub fn bears<T: Serialize>(live: &T, wanted: &T) -> bool {
    json_of(live).and_then(|live| Ok(contains(&live, &json_of(wanted)?))).unwrap_or_default()
}

/// Whether `live` has every field that `wanted` has, with the same value. Metadata lists are sets.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            // k8s-openapi leaves these out of an object's own fields.
            name == "apiVersion"
                || name == "kind"
                || live.get(name).map_or(wanted.is_null(), |live| match (live, wanted) {
                    (Value::Array(live), Value::Array(wanted))
                        if name == "ownerReferences" || name == "finalizers" =>
                    {
                        wanted.iter().all(|wanted| live.iter().any(|live| contains(live, wanted)))
                    }
                    _ => contains(live, wanted),
                })
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        _ => live == wanted,
    }
}

/// The JSON merge patch from `old` to `new`, if they differ.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut changes = Map::new();
    for (name, value) in after {
        let change = match before.get(name) {
            Some(old) => difference(old, value),
            None => (!value.is_null()).then(|| value.clone()),
        };
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changes.extend(gone.map(|name| (name.clone(), Value::Null)));
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// A child's owner reference to the controller that made it.
pub fn controlled_by<K>(owner: &K) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference
where
    K: Resource<DynamicType = ()>,
{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Reads one object from the API server, without waiting for a permit.
pub async fn get<K>(client: &Client, namespace: Option<&str>, name: &str) -> kube::Result<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let request = Request::new(K::url_path(&(), namespace))
        .get(name, &kube::api::GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    match client.request::<K>(request).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
