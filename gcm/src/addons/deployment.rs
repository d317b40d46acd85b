//! Manages one add-on in one workload cluster: applies it in stages, corrects drift, prunes objects and checks health.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use kit::guest::{ApiRejection, GuestError, bounded};

use super::apply_set;
use super::bundle::{Bundle, BundleMode, BundleSecret};
use super::choice::BundleSource;
use super::drift::{RequiredAction, Written};
use super::guest::{Membership, ServedKind, Sighting, WorkloadClusterClient};
use super::health::{self, Health, HealthFields};
use super::manifest::{Manifest, ObjectKey, stage};
use super::render::Values;
use super::report::AddonState;
use super::survey::GuestSecret;

/// The HTTP status of a field manager conflict. The message of a conflict doesn't quote values.
const CONFLICT: u16 = 409;
/// The maximum time to wait for CustomResourceDefinitions before applying their custom resources.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(250);

struct AppliedObject {
    kind: ServedKind,
    written: Written,
}

/// The state of one add-on in one workload cluster since the connection was established.
#[derive(Default)]
pub struct AddonDeployment {
    /// The source of the last applied bundle.
    pub source: Option<BundleSource>,
    /// The version of the last applied bundle.
    pub version: Option<String>,
    /// The names of the add-ons that must work before this add-on is applied.
    pub after: Vec<String>,
    pub mode: BundleMode,
    /// The Secret that the bundle was read from. If it changes, the bundle must be read again. `None` for a bundle that isn't
    /// applied again.
    pub secret: Option<BundleSecret>,
    /// The token Secrets that the bundle's objects refer to.
    pub required_tokens: BTreeSet<GuestSecret>,
    values: Values,
    hash: Option<u64>,
    objects: BTreeMap<ObjectKey, AppliedObject>,
    drifted: BTreeSet<ObjectKey>,
    /// True if all objects are applied, and the objects that the bundle no longer contains are deleted.
    complete: bool,
}

/// An add-on's desired state.
pub struct AddonIntent<'a> {
    /// The add-on's slot in the workload cluster.
    pub slot: &'a str,
    /// The bundle source.
    pub source: &'a BundleSource,
    pub bundle: &'a Bundle,
    /// The bundle's objects.
    pub manifests: &'a [Manifest],
    /// The values with which templates were rendered.
    pub values: &'a Values,
}

impl AddonIntent<'_> {
    fn manager(&self) -> String {
        format!("gcm/addon/{}", self.slot)
    }

    /// Returns the end of the remedy for a conflict with a foreign object: an alternative to deleting the object, or an empty
    /// string.
    fn remedy(&self) -> &'static str {
        if matches!(self.source, BundleSource::Generated(_)) { "" } else { ", or remove it from the bundle" }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for manifest in self.manifests {
            manifest.json.hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl AddonDeployment {
    /// Returns true if the bundle must be read again: the source or the values changed, the bundle isn't applied completely, or
    /// objects drifted.
    pub fn wants_bundle(&self, source: &BundleSource, values: &Values) -> bool {
        let is_same = self.source.as_ref() == Some(source) && self.values == *values;
        !is_same || !self.complete || !self.drifted.is_empty()
    }

    /// Returns the kinds to watch, as keys without namespace and name.
    pub fn kinds(&self) -> impl Iterator<Item = (ObjectKey, &ServedKind)> {
        let of_kind = |key: &ObjectKey| ObjectKey { namespace: None, name: String::new(), ..key.clone() };
        self.objects.iter().map(move |(key, object)| (of_kind(key), &object.kind))
    }

    /// Records a watch event. Returns true if the engine must run another round because of the event.
    pub fn notice(&mut self, sighting: &Sighting) -> bool {
        match sighting {
            Sighting::Seen(key, now) => {
                match self.objects.get(key).map(|object| object.written.change(now)) {
                    Some(RequiredAction::Drift) => self.drifted.insert(key.clone()),
                    Some(RequiredAction::Status) => health::has_health(key),
                    Some(RequiredAction::None) | None => false,
                }
            }
            Sighting::Gone(key) => self.objects.contains_key(key) && self.drifted.insert(key.clone()),
            Sighting::Listed(group, kind, keys) => {
                let of_kind = |key: &&ObjectKey| key.group == *group && key.kind == *kind;
                let missing: Vec<_> =
                    self.objects.keys().filter(of_kind).filter(|key| !keys.contains(key)).cloned().collect();
                let any = !missing.is_empty();
                self.drifted.extend(missing);
                any
            }
        }
    }

    /// Applies the bundle and prunes objects. With an unchanged intent, applies only the objects that drifted. Returns a state
    /// if the API server refused an object, and an error only if the workload cluster doesn't respond.
    pub async fn apply(
        &mut self,
        guest: &mut WorkloadClusterClient,
        intent: &AddonIntent<'_>,
    ) -> Result<Option<AddonState>, GuestError> {
        let hash = intent.hash();
        let is_kept = !intent.bundle.mode.is_once();
        let is_same = is_kept && self.hash == Some(hash) && self.complete;
        self.source = Some(intent.source.clone());
        self.values = intent.values.clone();
        self.version.clone_from(&intent.bundle.version);
        self.after.clone_from(&intent.bundle.after);
        self.mode = intent.bundle.mode;
        self.secret = intent.bundle.secret.clone().filter(|_| is_kept);
        if is_same {
            return self.repair(guest, intent).await;
        }
        self.complete = false;
        let parent = guest.parent(intent.slot).await?;
        if let Some(version) = parent.as_ref().and_then(apply_set::applied_version)
            && intent.bundle.mode.leaves(version, intent.bundle.version.as_deref())
        {
            self.version = Some(bounded(version)).filter(|version| !version.is_empty());
            self.objects.clear();
            self.drifted.clear();
            (self.hash, self.complete) = (Some(hash), true);
            return Ok(None);
        }
        let before: BTreeSet<_> = parent.iter().flat_map(apply_set::kinds_of).collect();
        // Write the parent first, with both old and new kinds, so that gcm finds all objects after an interruption.
        self.write_parent(guest, intent, &before, None).await?;
        if let Some(failure) = self.apply_all(guest, intent).await? {
            return Ok(Some(failure));
        }
        if let Some(failure) = self.prune(guest, intent, &before).await? {
            return Ok(Some(failure));
        }
        let version = intent.bundle.version.as_deref().unwrap_or_default();
        self.write_parent(guest, intent, &BTreeSet::new(), Some(version)).await?;
        if intent.bundle.mode.is_once() {
            self.objects.clear();
        }
        self.drifted.clear();
        (self.hash, self.complete) = (Some(hash), true);
        Ok(None)
    }

    async fn write_parent(
        &self,
        guest: &WorkloadClusterClient,
        intent: &AddonIntent<'_>,
        before: &BTreeSet<(String, String)>,
        applied: Option<&str>,
    ) -> Result<(), GuestError> {
        let mut kinds: BTreeSet<_> =
            intent.manifests.iter().map(|manifest| apply_set::group_kind(&manifest.key)).collect();
        kinds.extend(before.iter().map(|(group, kind)| {
            let (group, kind) = (group.clone(), kind.clone());
            apply_set::group_kind(&ObjectKey { group, kind, namespace: None, name: String::new() })
        }));
        let namespaces =
            intent.manifests.iter().filter_map(|manifest| manifest.key.namespace.clone()).collect();
        let parent = apply_set::parent(intent.slot, &kinds, &namespaces, applied);
        guest.apply_parent(&parent, &intent.manager()).await
    }

    /// Applies every object, in stages. Continues after a refused object, and returns a summary of the refusals.
    async fn apply_all(
        &mut self,
        guest: &mut WorkloadClusterClient,
        intent: &AddonIntent<'_>,
    ) -> Result<Option<AddonState>, GuestError> {
        let mut refused = Vec::new();
        let mut last_stage = 0;
        for manifest in intent.manifests {
            if stage(&manifest.key) != last_stage {
                last_stage = stage(&manifest.key);
                self.wait_until_established(guest).await?;
            }
            refused.extend(self.apply_one(guest, intent, manifest).await?);
        }
        let wanted: BTreeSet<_> = self.wanted(guest, intent).await?;
        self.objects.retain(|key, _| wanted.contains(key));
        Ok(summary(&refused))
    }

    /// Applies one object. Returns a message if the API server refused it.
    async fn apply_one(
        &mut self,
        guest: &mut WorkloadClusterClient,
        intent: &AddonIntent<'_>,
        manifest: &Manifest,
    ) -> Result<Option<String>, GuestError> {
        let set = apply_set::id(intent.slot);
        let key = &manifest.key;
        let kind = match guest.served(&key.group, &manifest.version, &key.kind).await {
            Ok(kind) => kind,
            Err(GuestError::Refused(reason)) => return Ok(Some(format!("{key}: {reason}"))),
            Err(error) => return Err(error),
        };
        let of = Membership { set: &set, manager: &intent.manager(), remedy: intent.remedy() };
        match guest.apply(&kind, manifest, &of).await {
            Ok(metadata) => {
                let written = Written::of(&metadata);
                let key = WorkloadClusterClient::key(&kind, key);
                self.drifted.remove(&key);
                self.objects.insert(key, AppliedObject { kind, written });
                Ok(None)
            }
            Err(GuestError::Refused(reason)) => Ok(Some(describe_refusal(manifest, &reason))),
            Err(error) => Err(error),
        }
    }

    /// Returns the keys of the bundle's objects as the workload cluster serves them. Kinds that aren't served are left out.
    async fn wanted(
        &self,
        guest: &mut WorkloadClusterClient,
        intent: &AddonIntent<'_>,
    ) -> Result<BTreeSet<ObjectKey>, GuestError> {
        let mut wanted = BTreeSet::new();
        for Manifest { key, version, .. } in intent.manifests {
            match guest.served(&key.group, version, &key.kind).await {
                Ok(kind) => drop(wanted.insert(WorkloadClusterClient::key(&kind, key))),
                Err(GuestError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(wanted)
    }

    /// Waits until the applied CustomResourceDefinitions are established, for at most [`ESTABLISHED_WITHIN`]. Their kinds aren't
    /// served before that.
    async fn wait_until_established(&self, guest: &WorkloadClusterClient) -> Result<(), GuestError> {
        let definitions = self.objects.iter().filter(|(key, _)| key.kind == "CustomResourceDefinition");
        let end = tokio::time::Instant::now() + ESTABLISHED_WITHIN;
        for (key, object) in definitions {
            loop {
                let live = guest.get(&object.kind, key).await?.unwrap_or_default();
                if health::health(key, &live) == Health::Current || tokio::time::Instant::now() >= end {
                    break;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        Ok(())
    }

    /// Deletes the objects that the bundle no longer contains. `before` contains the parent's kinds as pairs of group and kind.
    async fn prune(
        &self,
        guest: &mut WorkloadClusterClient,
        intent: &AddonIntent<'_>,
        before: &BTreeSet<(String, String)>,
    ) -> Result<Option<AddonState>, GuestError> {
        let set = apply_set::id(intent.slot);
        let wanted = self.wanted(guest, intent).await?;
        let mut refused = Vec::new();
        for (group, kind) in before {
            let Some(served) = guest.server.served_anyhow(group, kind).await? else { continue };
            let found = match guest.members(&served, &set).await {
                Err(GuestError::Refused(reason)) => {
                    refused.push(format!("{kind}: {reason}"));
                    continue;
                }
                found => found?,
            };
            for (key, uid) in apply_set::dropped(&found, &wanted) {
                match guest.delete(&served, key, uid.clone()).await {
                    Err(GuestError::Refused(reason)) => refused.push(format!("{key}: {reason}")),
                    other => other?,
                }
            }
        }
        Ok(summary(&refused))
    }

    /// Applies only the objects that other clients changed or deleted.
    async fn repair(
        &mut self,
        guest: &mut WorkloadClusterClient,
        intent: &AddonIntent<'_>,
    ) -> Result<Option<AddonState>, GuestError> {
        let mut refused = Vec::new();
        for key in std::mem::take(&mut self.drifted) {
            let Some(kind) = self.objects.get(&key).map(|object| object.kind.clone()) else { continue };
            let of_key = |manifest: &&Manifest| WorkloadClusterClient::key(&kind, &manifest.key) == key;
            let Some(manifest) = intent.manifests.iter().find(of_key) else { continue };
            tracing::info!(addon = intent.slot, object = %key, "the object was changed by another client; applying it again");
            if let Some(reason) = self.apply_one(guest, intent, manifest).await? {
                self.drifted.insert(key);
                refused.push(reason);
            }
        }
        Ok(summary(&refused))
    }

    /// Checks if the applied objects work. Returns the first failure, or otherwise the first object that isn't ready.
    pub async fn health(&self, guest: &WorkloadClusterClient) -> Result<AddonState, GuestError> {
        let mut waiting = None;
        for (key, object) in self.objects.iter().filter(|(key, _)| health::has_health(key)) {
            let found = match guest.get(&object.kind, key).await? {
                None => Health::InProgress("it does not exist".to_owned()),
                Some(live) => with_pods(guest, key, &live).await?,
            };
            match found {
                Health::Current => {}
                Health::InProgress(why) => {
                    waiting.get_or_insert_with(|| AddonState::InProgress(format!("{key}: {why}")));
                }
                Health::Failed(why) => return Ok(AddonState::Failed(format!("{key}: {why}"))),
            }
        }
        Ok(waiting.unwrap_or(AddonState::Applied))
    }
}

/// Describes why the API server refused an object. The API server's messages quote values, so they are omitted for objects from
/// a Secret, except for conflicts: a conflict's message only names fields and managers.
fn describe_refusal(manifest: &Manifest, refusal: &ApiRejection) -> String {
    let key = &manifest.key;
    if manifest.secret && refusal.code != CONFLICT {
        let code = refusal.code;
        return format!(
            "{key}: the cluster's API server refuses it with status {code}; its reason isn't shown, because the object comes from a Secret. Apply the object with kubectl to see the reason"
        );
    }
    format!("{key}: {refusal}")
}

/// Checks if an object works. If the Pods of a workload (API group `apps`) don't start, includes the reason of one Pod.
async fn with_pods(
    guest: &WorkloadClusterClient,
    key: &ObjectKey,
    live: &HealthFields,
) -> Result<Health, GuestError> {
    let found = health::health(key, live);
    let (Health::InProgress(why), Some(labels), Some(namespace)) =
        (&found, live.pod_labels(), &key.namespace)
    else {
        return Ok(found);
    };
    // PersistentVolumeClaims also have a selector.
    if key.group != "apps" {
        return Ok(found);
    }
    Ok(match guest.pending_pod(namespace, labels).await? {
        Some(pod) if pod.is_stuck => Health::Failed(format!("{why}: {}", pod.why)),
        Some(pod) => Health::InProgress(format!("{why}: {}", pod.why)),
        None => found,
    })
}

/// Returns the first refusal and the number of the others, or `None` if `refused` is empty.
fn summary(refused: &[String]) -> Option<AddonState> {
    let first = refused.first()?;
    let more = match refused.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more objects were refused)"),
    };
    Some(AddonState::Failed(format!("{first}{more}")))
}
