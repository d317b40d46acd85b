//! A client for a workload cluster's API server: [`kit::guest`], extended with requests for object sets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kit::guest::answer::MetadataOnly;
pub use kit::guest::discovery::ServedKind;
use kit::guest::watch::Event;
use kit::guest::{self, ApiRejection, GuestError};
use kube::Resource;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{GroupVersionKind, Request};
use tokio::sync::mpsc;

use super::apply_set::{self, PARENT_NAMESPACE};
use super::drift::Written;
use super::health::HealthFields;
use super::manifest::{Manifest, ObjectKey};
use super::marks::{ObjectMetadata, OurMarks, PART_OF};
use super::pods::{MAX_PODS, PendingPod, PodList};

/// The timeout of one request to the workload cluster.
const DEADLINE: Duration = Duration::from_secs(15);
/// The maximum size, in bytes, of an object's metadata: 256 KiB for annotations, plus managed fields.
const MAX_METADATA: usize = 1 << 20;
/// The maximum size, in bytes, of an object. API servers don't accept larger objects, and gcm keeps only small parts of each.
const MAX_OBJECT: usize = 3 << 20;

/// The maximum length, in bytes, of a label selector.
const MAX_SELECTOR: usize = 4096;

/// The set and the field manager for applying an object.
#[derive(Clone, Copy)]
pub struct Membership<'a> {
    /// The ID that labels all objects in one ApplySet.
    pub set: &'a str,
    /// The field manager.
    pub manager: &'a str,
    /// An alternative to deleting a conflicting object, as the end of a sentence, or an empty string.
    pub remedy: &'a str,
}

/// An event from the watch on one kind.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// An object was created or changed.
    Seen(ObjectKey, Written),
    /// An object was deleted or lost gcm's label.
    Gone(ObjectKey),
    /// A list is complete. Contains the group, the kind and the keys of all objects.
    Listed(String, String, BTreeSet<ObjectKey>),
}

/// A client for a workload cluster's API server, which remembers the kinds that it serves.
pub struct WorkloadClusterClient {
    pub(super) server: guest::GuestClient,
    kinds: HashMap<GroupVersionKind, ServedKind>,
}

impl WorkloadClusterClient {
    /// Prepares a connection to the API server at URL `server`, with credentials from Cluster API's kubeconfig Secret. Doesn't
    /// send requests.
    ///
    /// # Errors
    /// Returns the reason why the Secret can't be used. The error doesn't quote the Secret.
    pub async fn connect(
        namespace: &str,
        cluster: &str,
        kubeconfig: &Secret,
        server: &str,
    ) -> Result<Self, String> {
        let server = guest::GuestClient::connect(namespace, cluster, kubeconfig, server, DEADLINE).await?;
        Ok(Self { server, kinds: HashMap::new() })
    }

    /// Returns how the workload cluster serves a kind: its path and scope. Fails if the kind isn't served.
    pub async fn served(&mut self, group: &str, version: &str, kind: &str) -> Result<ServedKind, GuestError> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        if let Some(known) = self.kinds.get(&gvk) {
            return Ok(known.clone());
        }
        let served = self.server.served(group, version, kind).await?;
        let served = served.ok_or_else(|| ServedKind::unserved(group, version, kind))?;
        self.kinds.insert(gvk, served.clone());
        Ok(served)
    }

    /// Returns the key under which the workload cluster serves an object. Adds or removes the namespace, depending on the
    /// kind's scope.
    pub fn key(kind: &ServedKind, key: &ObjectKey) -> ObjectKey {
        let named =
            || key.namespace.clone().unwrap_or_else(|| guest::discovery::DEFAULT_NAMESPACE.to_owned());
        ObjectKey { namespace: kind.namespaced.then(named), ..key.clone() }
    }

    /// Applies an object as a set member.
    ///
    /// If the object is already a member, gcm takes over its fields from other managers. If it is a foreign object, a conflict
    /// is an error. A member whose immutable fields must change is deleted and recreated if [`apply_set::is_replaced`] allows
    /// it.
    pub async fn apply(
        &self,
        kind: &ServedKind,
        manifest: &Manifest,
        of: &Membership<'_>,
    ) -> Result<ObjectMetadata, GuestError> {
        let params = PatchParams::apply(of.manager);
        let mut patched = self.patch(kind, manifest, of, &params).await;
        if let Err(GuestError::Refused(refusal)) = &patched
            && refusal.code == 409
        {
            if self.member(kind, &manifest.key, of.set).await?.is_none() {
                let what = "the object exists, and another field manager owns the fields to change. Delete the object";
                let remedy = of.remedy;
                return Err(ApiRejection::new(&format!("{what}{remedy}: {refusal}")).into());
            }
            patched = self.patch(kind, manifest, of, &params.clone().force()).await;
        }
        if let Err(GuestError::Refused(refusal)) = &patched
            && apply_set::is_replaced(&manifest.key)
            && refusal.is_immutable
            && let Some(uid) = self.member(kind, &manifest.key, of.set).await?
        {
            self.delete(kind, &manifest.key, Some(uid)).await?;
            patched = self.patch(kind, manifest, of, &params.force()).await;
        }
        patched
    }

    /// Sends an apply patch. The response contains only metadata.
    async fn patch(
        &self,
        kind: &ServedKind,
        manifest: &Manifest,
        of: &Membership<'_>,
        params: &PatchParams,
    ) -> Result<ObjectMetadata, GuestError> {
        let request = {
            let value = apply_set::member(manifest, of.set);
            let at = Request::new(kind.path(manifest.key.namespace.as_deref()));
            at.patch_metadata(&manifest.key.name, params, &Patch::Apply(&value))
        };
        let object: MetadataOnly<OurMarks> = self.server.read(request, MAX_METADATA).await?;
        Ok(object.metadata)
    }

    /// Returns an object's uid if it exists and belongs to the set.
    async fn member(
        &self,
        kind: &ServedKind,
        key: &ObjectKey,
        set: &str,
    ) -> Result<Option<String>, GuestError> {
        let live = self.metadata(&Request::new(kind.path(key.namespace.as_deref())), &key.name).await?;
        Ok(live.filter(|live| live.labels.get(PART_OF) == Some(set)).and_then(|member| member.uid))
    }

    async fn metadata(&self, at: &Request, name: &str) -> Result<Option<ObjectMetadata>, GuestError> {
        let request = at.get_metadata(name, &GetParams::default());
        let object = self.server.read_if_there::<MetadataOnly<OurMarks>>(request, MAX_METADATA).await?;
        Ok(object.map(|object| object.metadata))
    }

    /// Returns the fields that determine an object's health, or `None` if the object doesn't exist.
    pub async fn get(&self, kind: &ServedKind, key: &ObjectKey) -> Result<Option<HealthFields>, GuestError> {
        let at = Request::new(kind.path(key.namespace.as_deref()));
        self.server.read_if_there(at.get(&key.name, &GetParams::default()), MAX_OBJECT).await
    }

    /// Returns a pending Pod with these labels and the reason why it doesn't start. Returns `None` if there is none, the API
    /// server refuses the request, or the label selector is too long.
    pub async fn pending_pod(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Option<PendingPod>, GuestError> {
        let selector: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let selector = selector.join(",");
        // Users of the workload cluster write these labels, which become part of a URL.
        if selector.len() > MAX_SELECTOR {
            return Ok(None);
        }
        let params = ListParams::default()
            .labels(&selector)
            .fields("status.phase=Pending")
            .limit(u32::try_from(MAX_PODS).unwrap_or(u32::MAX));
        let request = Request::new(Pod::url_path(&(), Some(namespace))).list(&params);
        match self.server.read::<PodList>(request, MAX_OBJECT).await {
            Ok(pods) => Ok(pods.first()),
            Err(GuestError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the keys and uids of the set's members of this kind, in all namespaces.
    pub async fn members(
        &self,
        kind: &ServedKind,
        set: &str,
    ) -> Result<Vec<(ObjectKey, Option<String>)>, GuestError> {
        let labels = format!("{PART_OF}={set}");
        let list: Vec<ObjectMetadata> = self.server.list(&kind.path_of_all(), &labels).await?;
        Ok(list.into_iter().map(|meta| (key_of(kind, &meta), meta.uid)).collect())
    }

    /// Deletes an object if it still has this uid. An object that is gone or has another uid isn't an error.
    pub async fn delete(
        &self,
        kind: &ServedKind,
        key: &ObjectKey,
        uid: Option<String>,
    ) -> Result<(), GuestError> {
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        let at = Request::new(kind.path(key.namespace.as_deref()));
        match self.server.send(at.delete(&key.name, &params)).await {
            Err(GuestError::Refused(refusal)) if matches!(refusal.code, 404 | 409) => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns the metadata of the parent for an add-on's set, if the parent exists.
    pub async fn parent(&self, slot: &str) -> Result<Option<ObjectMetadata>, GuestError> {
        self.metadata(&parents(), &apply_set::parent_name(slot)).await
    }

    /// Applies a set's parent.
    pub async fn apply_parent(&self, parent: &ConfigMap, manager: &str) -> Result<(), GuestError> {
        let name = parent.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply(manager).force();
        self.server.send(parents().patch_metadata(&name, &params, &Patch::Apply(parent))).await
    }

    /// Watches the metadata of the sets' members of this kind, until the receiver is dropped.
    pub fn watch(
        &self,
        kind: &ServedKind,
        sets: &[String],
        listener: mpsc::Sender<Sighting>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let labels = format!("{PART_OF} in ({})", sets.join(","));
        let (path, kind) = (kind.path_of_all(), kind.clone());
        self.server.clone().watch(path, labels, listener, move |event| sightings(&kind, event))
    }
}

/// Returns a request for the collection that contains the parents.
fn parents() -> Request {
    Request::new(ConfigMap::url_path(&(), Some(PARENT_NAMESPACE)))
}

fn sightings(kind: &ServedKind, event: Event<OurMarks>) -> Vec<Sighting> {
    let seen = |meta: &ObjectMetadata| Sighting::Seen(key_of(kind, meta), Written::of(meta));
    match event {
        Event::Listed(all) => {
            let keys = all.iter().map(|meta| key_of(kind, meta)).collect();
            let listed = Sighting::Listed(kind.group.clone(), kind.kind.clone(), keys);
            all.iter().map(seen).chain([listed]).collect()
        }
        Event::Changed(meta) => vec![seen(&meta)],
        Event::Gone(meta) => vec![Sighting::Gone(key_of(kind, &meta))],
    }
}

fn key_of(kind: &ServedKind, meta: &ObjectMetadata) -> ObjectKey {
    ObjectKey {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}
