//! One add-on in one guest: applied in stages, kept so, pruned, and asked how it is.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use kit::guest::{GuestError, Refusal, bounded};

use super::apply_set;
use super::bundle::{Bundle, Mode};
use super::choice::Source;
use super::drift::{Change, Written};
use super::guest::{Guest, Membership, ServedKind, Sighting};
use super::health::{self, Health, Live};
use super::manifest::{Manifest, ObjectKey, stage};
use super::render::Values;
use super::report::AddonState;
use super::survey::GuestSecret;

/// The status of a refusal because another field manager owns a field. It quotes no value.
const CONFLICT: u16 = 409;
/// How long definitions may take before what is of them is applied.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(250);

struct AppliedObject {
    kind: ServedKind,
    written: Written,
}

/// One add-on in one guest, as far as it is known since the guest was connected.
#[derive(Default)]
pub struct Deployment {
    /// The bundle that was applied last.
    pub source: Option<Source>,
    /// Its version.
    pub version: Option<String>,
    /// What must work before it.
    pub after: Vec<String>,
    /// How it is kept.
    pub mode: Mode,
    /// The Secrets with tokens that its objects refer to.
    pub required_tokens: BTreeSet<GuestSecret>,
    values: Values,
    hash: Option<u64>,
    objects: BTreeMap<ObjectKey, AppliedObject>,
    drifted: BTreeSet<ObjectKey>,
    /// Whether all of it was applied, and what it dropped is gone.
    complete: bool,
}

/// What an add-on is applied as.
pub struct Intent<'a> {
    /// What it is known by in the guest.
    pub slot: &'a str,
    /// Where its bundle comes from.
    pub source: &'a Source,
    /// Its bundle.
    pub bundle: &'a Bundle,
    /// Its objects.
    pub manifests: &'a [Manifest],
    /// What its templates were rendered with.
    pub values: &'a Values,
}

impl Intent<'_> {
    fn manager(&self) -> String {
        format!("gcm/addon/{}", self.slot)
    }

    /// What else to do than to delete an object of others that is in the place of one.
    fn remedy(&self) -> &'static str {
        if matches!(self.source, Source::Generated(_)) { "" } else { ", or remove it from the bundle" }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for manifest in self.manifests {
            manifest.json.hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl Deployment {
    /// Whether the bundle must be read again to go on.
    pub fn wants_bundle(&self, source: &Source, values: &Values) -> bool {
        let is_same = self.source.as_ref() == Some(source) && self.values == *values;
        !is_same || !self.complete || !self.drifted.is_empty()
    }

    /// The kinds to be watched.
    pub fn kinds(&self) -> impl Iterator<Item = (ObjectKey, &ServedKind)> {
        let of_kind = |key: &ObjectKey| ObjectKey { namespace: None, name: String::new(), ..key.clone() };
        self.objects.iter().map(move |(key, object)| (of_kind(key), &object.kind))
    }

    /// Takes note of what a watch shows; whether anything is to be done.
    pub fn notice(&mut self, sighting: &Sighting) -> bool {
        match sighting {
            Sighting::Seen(key, now) => {
                match self.objects.get(key).map(|object| object.written.change(now)) {
                    Some(Change::Drift) => self.drifted.insert(key.clone()),
                    Some(Change::Status) => health::has_health(key),
                    Some(Change::None) | None => false,
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

    /// Applies what is not as the intent; only a guest that does not answer is an error.
    pub async fn apply(
        &mut self,
        guest: &mut Guest,
        intent: &Intent<'_>,
    ) -> Result<Option<AddonState>, GuestError> {
        let hash = intent.hash();
        let is_kept = !intent.bundle.mode.is_once();
        let is_same = is_kept && self.hash == Some(hash) && self.complete;
        self.source = Some(intent.source.clone());
        self.values = intent.values.clone();
        self.version.clone_from(&intent.bundle.version);
        self.after.clone_from(&intent.bundle.after);
        self.mode = intent.bundle.mode;
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
        // First the parent, with the kinds of what is and of what will be: whatever comes between, all is found again.
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
        guest: &Guest,
        intent: &Intent<'_>,
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

    /// Applies every object; one that is refused keeps no other from being applied.
    async fn apply_all(
        &mut self,
        guest: &mut Guest,
        intent: &Intent<'_>,
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

    /// The refusal, if the object was refused.
    async fn apply_one(
        &mut self,
        guest: &mut Guest,
        intent: &Intent<'_>,
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
                let key = Guest::key(&kind, key);
                self.drifted.remove(&key);
                self.objects.insert(key, AppliedObject { kind, written });
                Ok(None)
            }
            Err(GuestError::Refused(reason)) => Ok(Some(describe_refusal(manifest, &reason))),
            Err(error) => Err(error),
        }
    }

    /// The keys of the bundle's objects as the guest has them.
    async fn wanted(
        &self,
        guest: &mut Guest,
        intent: &Intent<'_>,
    ) -> Result<BTreeSet<ObjectKey>, GuestError> {
        let mut wanted = BTreeSet::new();
        for Manifest { key, version, .. } in intent.manifests {
            match guest.served(&key.group, version, &key.kind).await {
                Ok(kind) => drop(wanted.insert(Guest::key(&kind, key))),
                Err(GuestError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(wanted)
    }

    /// Waits for definitions: what is of them is not served before.
    async fn wait_until_established(&self, guest: &Guest) -> Result<(), GuestError> {
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

    /// Deletes what the bundle dropped.
    async fn prune(
        &self,
        guest: &mut Guest,
        intent: &Intent<'_>,
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

    /// Applies the objects again that others changed, and no others.
    async fn repair(
        &mut self,
        guest: &mut Guest,
        intent: &Intent<'_>,
    ) -> Result<Option<AddonState>, GuestError> {
        let mut refused = Vec::new();
        for key in std::mem::take(&mut self.drifted) {
            let Some(kind) = self.objects.get(&key).map(|object| object.kind.clone()) else { continue };
            let of_key = |manifest: &&Manifest| Guest::key(&kind, &manifest.key) == key;
            let Some(manifest) = intent.manifests.iter().find(of_key) else { continue };
            tracing::info!(addon = intent.slot, object = %key, "the object was changed by another client; applying it again");
            if let Some(reason) = self.apply_one(guest, intent, manifest).await? {
                self.drifted.insert(key);
                refused.push(reason);
            }
        }
        Ok(summary(&refused))
    }

    /// How what is applied works.
    pub async fn health(&self, guest: &Guest) -> Result<AddonState, GuestError> {
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

/// Returns why the guest's API server refuses an object. Its own words quote values, so those about an object from a Secret are
/// left out; a conflict names only fields and their managers.
fn describe_refusal(manifest: &Manifest, refusal: &Refusal) -> String {
    let key = &manifest.key;
    if manifest.secret && refusal.code != CONFLICT {
        let code = refusal.code;
        return format!(
            "{key}: the cluster's API server refuses it with status {code}; its reason isn't shown, because the object comes from a Secret. Apply the object with kubectl to see the reason"
        );
    }
    format!("{key}: {refusal}")
}

/// How an object works. If its Pods do not start, one of them may say why.
async fn with_pods(guest: &Guest, key: &ObjectKey, live: &Live) -> Result<Health, GuestError> {
    let found = health::health(key, live);
    let (Health::InProgress(why), Some(labels), Some(namespace)) =
        (&found, live.pod_labels(), &key.namespace)
    else {
        return Ok(found);
    };
    // PersistentVolumeClaims have a selector, too.
    if key.group != "apps" {
        return Ok(found);
    }
    Ok(match guest.pending_pod(namespace, labels).await? {
        Some(pod) if pod.is_stuck => Health::Failed(format!("{why}: {}", pod.why)),
        Some(pod) => Health::InProgress(format!("{why}: {}", pod.why)),
        None => found,
    })
}

/// The first refusal, and how many more there are.
fn summary(refused: &[String]) -> Option<AddonState> {
    let first = refused.first()?;
    let more = match refused.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more objects were refused)"),
    };
    Some(AddonState::Failed(format!("{first}{more}")))
}
