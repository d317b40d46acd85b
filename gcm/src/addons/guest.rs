//! The guest's API server, as add-ons need it. Every call has a deadline, every answer a limit.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kit::guest::{bounded, describe};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{GroupVersionKind, PartialObjectMeta, Status};
use kube::discovery::{self, Scope};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use serde_json::Value;

use super::apply_set::{self, PARENT_NAMESPACE, PART_OF};
use super::drift::Written;
use super::manifest::{Manifest, ObjectKey};

/// No call of a guest takes longer.
const CALL: Duration = Duration::from_secs(15);
/// No answer of a guest is larger.
const MAX_ANSWER: usize = 8 << 20;
/// The most members of one kind that are looked at.
const MAX_MEMBERS: u32 = 500;
/// Where objects are that name no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// Nobody answers, or nobody knows us: nothing else will succeed either.
    #[error("the cluster's API server does not answer: {0}")]
    Unreachable(String),
    /// The API server does not take this one.
    #[error("{0}")]
    Refused(String),
}

/// A kind as the guest serves it.
#[derive(Clone, Debug)]
pub struct ServedKind {
    resource: ApiResource,
    namespaced: bool,
}

/// What an object is applied as.
#[derive(Clone, Copy)]
pub struct Membership<'a> {
    /// The id of its set.
    pub set: &'a str,
    /// The owner of its fields.
    pub manager: &'a str,
    /// What else to do than to delete an object that is in its place, as the end of a sentence.
    pub remedy: &'a str,
}

/// What a watch of one kind shows.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// An object is as this.
    Seen(ObjectKey, Written),
    /// An object is gone, or bears our label no more.
    Gone(ObjectKey),
    /// A list is complete: these are all of the kind.
    Listed(String, String, BTreeSet<ObjectKey>),
}

/// A guest's API server.
pub struct Guest {
    client: Client,
    kinds: HashMap<GroupVersionKind, ServedKind>,
}

async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<Result<T, GuestError>> {
    match tokio::time::timeout(CALL, request).await {
        Err(_) => Ok(Err(GuestError::Unreachable(format!("no answer within {} s", CALL.as_secs())))),
        Ok(Ok(answer)) => Ok(Ok(answer)),
        Ok(Err(error)) => Err(error),
    }
}

fn explain(error: &kube::Error) -> GuestError {
    match error {
        kube::Error::Api(status) if status.code != 401 => GuestError::Refused(describe(error)),
        _ => GuestError::Unreachable(describe(error)),
    }
}

async fn send<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, GuestError> {
    call(request).await.unwrap_or_else(|error| Err(explain(&error)))
}

/// Whether the API server refuses nothing but the change of what can't be changed.
fn is_immutable(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let of_change = |message: &str| message.contains("immutable") || message.contains("forbidden");
    status.code == 422 && !causes.is_empty() && causes.iter().all(|cause| of_change(&cause.message))
}

/// The answer, or none where the API server has no such object.
async fn found<T>(request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, GuestError> {
    match call(request).await {
        Ok(answer) => answer.map(Some),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(explain(&error)),
    }
}

impl Guest {
    /// The guest's API server; no request is sent yet.
    pub fn new(config: Config) -> Result<Self, GuestError> {
        let client = kit::client::bounded(config, MAX_ANSWER);
        let client = client.map_err(|error| GuestError::Unreachable(bounded(&error.to_string())))?;
        Ok(Self { client, kinds: HashMap::new() })
    }

    /// How the guest serves a kind.
    pub async fn served(&mut self, group: &str, version: &str, kind: &str) -> Result<ServedKind, GuestError> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        if let Some(known) = self.kinds.get(&gvk) {
            return Ok(known.clone());
        }
        let unserved =
            || GuestError::Refused(format!("the cluster serves no {kind} of {}", gvk.api_version()));
        let (resource, capabilities) = match call(discovery::pinned_kind(&self.client, &gvk)).await {
            Ok(answer) => answer?,
            Err(kube::Error::Discovery(_)) => return Err(unserved()),
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(unserved()),
            Err(error) => return Err(explain(&error)),
        };
        let served = ServedKind { resource, namespaced: capabilities.scope == Scope::Namespaced };
        self.kinds.insert(gvk, served.clone());
        Ok(served)
    }

    /// The kind as the guest serves it, in whatever version; none if it does not.
    pub async fn served_anyhow(&self, group: &str, kind: &str) -> Result<Option<ServedKind>, GuestError> {
        let versions = match call(discovery::group(&self.client, group)).await {
            Ok(answer) => answer?,
            Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(explain(&error)),
        };
        let served = versions.recommended_kind(kind);
        Ok(served.map(|(resource, capabilities)| ServedKind {
            resource,
            namespaced: capabilities.scope == Scope::Namespaced,
        }))
    }

    fn api(&self, kind: &ServedKind, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| kind.namespaced) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.resource),
            None if kind.namespaced => {
                Api::namespaced_with(self.client.clone(), DEFAULT_NAMESPACE, &kind.resource)
            }
            None => Api::all_with(self.client.clone(), &kind.resource),
        }
    }

    /// The key under which the guest has an object: with a namespace if its kind has one, and only then.
    pub fn key(kind: &ServedKind, key: &ObjectKey) -> ObjectKey {
        let named = || key.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        ObjectKey { namespace: kind.namespaced.then(named), ..key.clone() }
    }

    /// Makes an object so, as a member of the set.
    ///
    /// Of a member our fields are ours, whoever changed them. An object of somebody else keeps the fields that have another
    /// owner, and the conflict is the error. A member whose kind lets nobody change it is made anew.
    pub async fn apply(
        &self,
        kind: &ServedKind,
        manifest: &Manifest,
        of: &Membership<'_>,
    ) -> Result<DynamicObject, GuestError> {
        let api = self.api(kind, manifest.key.namespace.as_deref());
        let value = apply_set::member(manifest, of.set);
        let (name, patch) = (&manifest.key.name, Patch::Apply(&value));
        let params = PatchParams::apply(of.manager);
        let mut patched = call(api.patch(name, &params, &patch)).await;
        if let Err(kube::Error::Api(status)) = &patched
            && status.code == 409
        {
            if self.member(&api, name, of.set).await?.is_none() {
                let what = "it exists, and others own what is to be changed. Delete it";
                let remedy = of.remedy;
                return Err(GuestError::Refused(bounded(&format!("{what}{remedy}: {}", status.message))));
            }
            patched = call(api.patch(name, &params.clone().force(), &patch)).await;
        }
        if let Err(kube::Error::Api(status)) = &patched
            && apply_set::is_replaced(&manifest.key)
            && is_immutable(status)
            && let Some(uid) = self.member(&api, name, of.set).await?
        {
            self.delete(kind, &manifest.key, Some(uid)).await?;
            patched = call(api.patch(name, &params.force(), &patch)).await;
        }
        patched.unwrap_or_else(|error| Err(explain(&error)))
    }

    /// The uid of an object, if it is there and a member of the set.
    async fn member(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        set: &str,
    ) -> Result<Option<String>, GuestError> {
        let live = found(api.get_metadata(name)).await?.map(|live| live.metadata);
        let member = live
            .filter(|live| live.labels.as_ref().and_then(|all| all.get(PART_OF)).is_some_and(|id| id == set));
        Ok(member.and_then(|member| member.uid))
    }

    /// An object, if it is there.
    pub async fn get(&self, kind: &ServedKind, key: &ObjectKey) -> Result<Option<Value>, GuestError> {
        let live = found(self.api(kind, key.namespace.as_deref()).get(&key.name)).await?;
        Ok(live.and_then(|live| serde_json::to_value(live).ok()))
    }

    /// The members of a set that are of this kind, in all namespaces.
    pub async fn members(
        &self,
        kind: &ServedKind,
        set: &str,
    ) -> Result<Vec<(ObjectKey, Option<String>)>, GuestError> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource);
        let params = ListParams::default().labels(&format!("{PART_OF}={set}")).limit(MAX_MEMBERS);
        let list = send(api.list_metadata(&params)).await?;
        let of = |meta: kube::api::ObjectMeta| (key_of(&kind.resource, &meta), meta.uid);
        Ok(list.items.into_iter().map(|object| of(object.metadata)).collect())
    }

    /// Deletes an object, if it is still the one that was seen.
    pub async fn delete(
        &self,
        kind: &ServedKind,
        key: &ObjectKey,
        uid: Option<String>,
    ) -> Result<(), GuestError> {
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        let deleted = call(self.api(kind, key.namespace.as_deref()).delete(&key.name, &params)).await;
        match deleted {
            Ok(answer) => answer.map(drop),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(explain(&error)),
        }
    }

    /// The parent of an add-on's set, if there is one.
    pub async fn parent(&self, slot: &str) -> Result<Option<ConfigMap>, GuestError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), PARENT_NAMESPACE);
        found(maps.get(&apply_set::parent_name(slot))).await
    }

    /// Makes the parent of a set so.
    pub async fn apply_parent(&self, parent: &ConfigMap, manager: &str) -> Result<(), GuestError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), PARENT_NAMESPACE);
        let name = parent.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply(manager).force();
        send(maps.patch(&name, &params, &Patch::Apply(parent))).await.map(drop)
    }

    /// What becomes of the members of some sets that are of this kind: metadata alone, for ever.
    pub fn watch(&self, kind: &ServedKind, sets: &[String]) -> impl Stream<Item = Sighting> + Send + use<> {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.client.clone(), &kind.resource);
        let config = watcher::Config::default().labels(&format!("{PART_OF} in ({})", sets.join(",")));
        let resource = kind.resource.clone();
        let events = watcher(api, config).default_backoff();
        let mut listed = BTreeSet::new();
        events.filter_map(move |event| {
            let key = |object: &PartialObjectMeta<DynamicObject>| key_of(&resource, &object.metadata);
            let sighting = match event {
                Err(_) => None,
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    None
                }
                Ok(watcher::Event::InitApply(object)) => {
                    // A list that does not end fills nothing.
                    if listed.len() < MAX_MEMBERS as usize {
                        listed.insert(key(&object));
                    }
                    Some(Sighting::Seen(key(&object), Written::of(&object.metadata)))
                }
                Ok(watcher::Event::InitDone) => {
                    let (group, kind) = (resource.group.clone(), resource.kind.clone());
                    Some(Sighting::Listed(group, kind, std::mem::take(&mut listed)))
                }
                Ok(watcher::Event::Apply(object)) => {
                    Some(Sighting::Seen(key(&object), Written::of(&object.metadata)))
                }
                Ok(watcher::Event::Delete(object)) => Some(Sighting::Gone(key(&object))),
            };
            std::future::ready(sighting)
        })
    }
}

fn key_of(resource: &ApiResource, meta: &kube::api::ObjectMeta) -> ObjectKey {
    ObjectKey {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}
