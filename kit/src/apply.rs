//! Writes objects to the API server. Controllers must not write in any other way.
//!
//! An intent is always applied as a whole, by server-side apply, with one field manager per acting
//! controller and kind. A status is sent as a patch with the fields that differ from the watched object. A
//! request that wouldn't change the object isn't sent. Every write is recorded in [`crate::expectations`].

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
use crate::expectations::{AcceptedIntent, Expectations, version};
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::watchable::Watchable;

/// The time after which an intent is sent once even if the live object already matches it. An earlier process may have applied
/// more fields, which only a new apply removes.
const CONFIRM_AFTER: Duration = Duration::from_hours(1);

/// A client that writes as one field manager, such as `capw/machine`.
#[derive(Clone)]
pub struct Api {
    client: Client,
    manager: &'static str,
    expectations: Arc<Expectations>,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
}

/// The result of an apply.
#[derive(Debug)]
pub enum ApplyResult<K> {
    /// The cached object, which already matched. No request was sent.
    Unchanged(Arc<K>),
    /// The object that the API server returned.
    Sent(Arc<K>),
}

impl<K> ApplyResult<K> {
    /// Returns the object as it is after the apply.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Unchanged(object) | Self::Sent(object) => object,
        }
    }
}

impl Api {
    /// Creates a client that writes as the field manager `manager`, which is named after the controller's crate and kind.
    pub fn new(runtime: &Runtime, manager: &'static str) -> Self {
        Self {
            client: runtime.client.clone(),
            manager,
            expectations: Arc::clone(&runtime.expectations),
            metrics: Arc::clone(&runtime.metrics),
            permits: Arc::clone(&runtime.api_permits),
        }
    }

    /// Returns the underlying client, for requests that this type doesn't offer.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads one object from the API server. Returns `None` if it doesn't exist. Use this for objects that aren't watched,
    /// Secrets in particular.
    pub async fn get<K: Watchable>(&self, namespace: Option<&str>, name: &str) -> kube::Result<Option<K>> {
        let _permit = self.permit().await;
        get(&self.client, namespace, name).await
    }

    /// Reads `seen` again from the API server. Returns `None` if the object is gone or was replaced under the same name.
    ///
    /// Call this before an irreversible action, because a watch can lag behind.
    pub async fn live<K: Watchable>(&self, seen: &K) -> kube::Result<Option<K>> {
        let live = self.get::<K>(seen.meta().namespace.as_deref(), &seen.name_any()).await?;
        Ok(live.filter(|live| live.uid() == seen.uid()))
    }

    /// Waits for a request permit. Requests are built after the permit is granted, so that waiting calls don't hold request
    /// bodies in memory.
    async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// Applies `intent`: creates the object, or sets the intent's fields, even if another manager owns them, and removes this
    /// manager's other fields.
    ///
    /// `live` is the cached object. If it already matches the intent, the request isn't sent.
    pub async fn apply<K>(&self, intent: &K, live: Option<&Arc<K>>) -> kube::Result<ApplyResult<K>>
    where
        K: Watchable + Serialize,
    {
        let wanted = add_type::<K>(intent)?;
        let hash = hash(&wanted);
        if let Some(live) = live
            && self.is_so(&**live, &wanted, hash)?
        {
            return Ok(ApplyResult::Unchanged(Arc::clone(live)));
        }
        let _permit = self.permit().await;
        let params = PatchParams::apply(self.manager).force();
        let request = request_for(intent).patch(&intent.name_any(), &params, &Patch::Apply(&wanted));
        let object: K = self.send(request, "apply").await?;
        Ok(self.record_sent(object, hash))
    }

    /// Records that the API server accepted the intent with this hash, and returns the resulting object.
    fn record_sent<K: Watchable>(&self, object: K, hash: u64) -> ApplyResult<K> {
        let version = version(&object).unwrap_or_default();
        self.expectations.record_intent(
            self.manager,
            &object,
            AcceptedIntent { hash, version, confirm: None },
        );
        ApplyResult::Sent(Arc::new(object))
    }

    /// Returns true if `live` contains the wanted fields and the manager's last intent was the same, so that the apply wouldn't
    /// remove a field either.
    ///
    /// The intents of an earlier process are unknown. If this process hasn't recorded an intent, a matching object counts as
    /// applied until [`CONFIRM_AFTER`] has passed. Then the intent is sent once. So a restart alone doesn't cause writes.
    fn is_so<K: Watchable + Serialize>(&self, live: &K, wanted: &Value, hash: u64) -> kube::Result<bool> {
        let shown = version(live).unwrap_or_default();
        let Some(before) = self.expectations.intent(self.manager, live) else {
            let so = matches(&json_of(live)?, wanted.clone());
            if so {
                let confirm = Some(Instant::now() + CONFIRM_AFTER);
                self.expectations.record_intent(
                    self.manager,
                    live,
                    AcceptedIntent { hash, version: shown, confirm },
                );
            }
            return Ok(so);
        };
        let due = before.confirm.is_some_and(|confirm| confirm <= Instant::now());
        Ok(!due
            && before.hash == hash
            && (before.version == shown || matches(&json_of(live)?, wanted.clone())))
    }

    /// Creates the object. If the name is taken, [`is_already_exists`] returns true for the error.
    pub async fn create<K: Watchable + Serialize>(&self, object: &K) -> kube::Result<K> {
        let _permit = self.permit().await;
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let body = serde_json::to_vec(&add_type(object)?).map_err(kube::Error::SerdeError)?;
        self.send(request_for(object).create(&params, body), "create").await
    }

    /// Applies `intent` if the cache contains the object (`live`), and creates the object otherwise.
    ///
    /// An existing object that isn't in the cache yet stays unchanged: [`is_already_exists`] returns true for the error.
    pub async fn create_or_apply<K>(&self, intent: &K, live: Option<&Arc<K>>) -> kube::Result<ApplyResult<K>>
    where
        K: Watchable + Serialize,
    {
        if live.is_some() {
            return self.apply(intent, live).await;
        }
        let object = self.create(intent).await?;
        Ok(self.record_sent(object, hash(&add_type::<K>(intent)?)))
    }

    /// Sends a merge patch that fails with a conflict unless the object still has the resourceVersion and UID that the caller
    /// saw.
    pub async fn patch<K: Watchable>(&self, seen: &K, mut patch: Value) -> kube::Result<K> {
        let _permit = self.permit().await;
        patch["metadata"]["resourceVersion"] = json!(seen.resource_version());
        patch["metadata"]["uid"] = json!(seen.uid());
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let request = request_for(seen).patch(&seen.name_any(), &params, &Patch::Merge(patch));
        self.send(request, "patch").await
    }

    /// Adds a finalizer to the object. Returns `None` if the object already has it.
    pub async fn add_finalizer<K: Watchable>(&self, seen: &K, finalizer: &str) -> kube::Result<Option<K>> {
        if seen.finalizers().iter().any(|there| there == finalizer) {
            return Ok(None);
        }
        let mut finalizers = seen.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        self.patch(seen, json!({ "metadata": { "finalizers": finalizers } })).await.map(Some)
    }

    /// Removes a finalizer from the object. Returns true if the object had it. A missing object isn't an error.
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

    /// Updates the status, sending only the differences from the status in `seen`. Returns true if a request was sent.
    pub async fn patch_status<K, S>(&self, seen: &K, status: &S) -> kube::Result<bool>
    where
        K: Watchable + HasStatus<Status = S>,
        S: Serialize,
    {
        let _permit = self.permit().await;
        let old = seen.status().map(json_of).transpose()?.unwrap_or_else(|| json!({}));
        let Some(change) = compute_patch(&old, &json_of(status)?) else { return Ok(false) };
        // The UID ensures that the status isn't written to a new object with the same name.
        let patch = json!({ "metadata": { "uid": seen.uid() }, "status": change });
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let name = seen.name_any();
        let request = request_for(seen).patch_subresource("status", &name, &params, &Patch::Merge(patch));
        match self.send::<K>(request, "patch_status").await {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(true),
        }
    }

    /// Deletes the object if its UID still matches. Returns false if the object is gone or was replaced. If `seen` is already
    /// being deleted, returns true without a request.
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

/// Serializes the object with apiVersion and kind, which k8s-openapi types have as constants instead of fields.
fn add_type<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> kube::Result<Value> {
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

/// Returns true if the object `live` contains every field in `wanted` with the same value. The kind and version of the object
/// itself aren't compared, because not all types of kinds contain them.
fn matches(live: &Value, mut wanted: Value) -> bool {
    if let Value::Object(wanted) = &mut wanted {
        wanted.remove("apiVersion");
        wanted.remove("kind");
    }
    contains(live, &wanted)
}

/// Returns true if `live` contains every field in `wanted` with the same value. A missing field equals null. Lists must be
/// equal, but owner references and finalizers in `live` may have any order and further items.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            live.get(name).map_or(wanted.is_null(), |live| match (live, wanted) {
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

/// Returns the JSON merge patch from `old` to `new`, or `None` if they are equal.
fn compute_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut changes = Map::new();
    for (name, value) in after {
        let change = match before.get(name) {
            Some(old) => compute_patch(old, value),
            None => (!value.is_null()).then(|| value.clone()),
        };
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changes.extend(gone.map(|name| (name.clone(), Value::Null)));
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// Returns the owner reference that marks `owner` as a child's controller.
pub fn build_controller_reference<K>(
    owner: &K,
) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference
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

/// Reads one object from the API server without waiting for a request permit. Returns `None` if it doesn't exist.
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
