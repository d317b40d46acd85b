//! What is known of one guest for as long as it answers: its add-ons, and the watches of their objects.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kit::guest::GuestError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::apply_set;
use super::bundle::Mode;
use super::choice::ChosenAddon;
use super::deployment::{Deployment, Intent};
use super::guest::{Guest, Sighting};
use super::kubeadm::KubeadmAddons;
use super::manifest::ObjectKey;
use super::report::AddonState;
use super::survey::{GuestSecret, GuestSurvey, SurveyPlan};

/// Changes that a guest shows and nobody has looked at yet: more wait at the guest.
const BACKLOG: usize = 64;
/// A survey that lacks nothing that is asked for stands for this time, whatever else happens in the guest.
const SURVEY_INTERVAL: Duration = Duration::from_secs(30);

/// A connected guest.
pub struct Session {
    /// Where its API server is.
    pub server: String,
    guest: Guest,
    deployments: HashMap<String, Deployment>,
    watches: HashMap<(ObjectKey, Vec<String>), AbortOnDropHandle<()>>,
    sightings: (mpsc::Sender<Sighting>, mpsc::Receiver<Sighting>),
    /// The image of kube-proxy that new nodes get.
    kube_proxy: Option<String>,
    surveyed: Option<Surveyed>,
}

/// The last survey, its subject and its time.
struct Surveyed {
    plan: SurveyPlan,
    required: BTreeSet<GuestSecret>,
    survey: GuestSurvey,
    at: Instant,
}

impl Session {
    /// A guest of which nothing is known yet.
    pub fn new(guest: Guest, server: &str) -> Self {
        Self {
            server: server.to_owned(),
            guest,
            deployments: HashMap::new(),
            watches: HashMap::new(),
            sightings: mpsc::channel(BACKLOG),
            kube_proxy: None,
            surveyed: None,
        }
    }

    /// What is known of an add-on.
    pub fn deployment(&mut self, slot: &str) -> &mut Deployment {
        self.deployments.entry(slot.to_owned()).or_default()
    }

    /// Forgets add-ons that the cluster is not to have any more; their objects stay.
    pub fn keep_only<'a>(&mut self, addons: impl Iterator<Item = &'a ChosenAddon>) {
        let slots: BTreeSet<&str> = addons.map(ChosenAddon::slot).collect();
        self.deployments.retain(|slot, _| slots.contains(slot.as_str()));
    }

    /// Binds the add-ons of kubeadm to nodes that contain their images. A guest that refuses it is asked again in the next round.
    pub async fn bind_to_nodes(&mut self, addons: &KubeadmAddons) -> Result<(), GuestError> {
        let unless_refused = |bound: Result<bool, GuestError>| match bound {
            Err(GuestError::Refused(refusal)) => {
                tracing::warn!(%refusal, "the guest refuses to bind the add-ons of kubeadm to its nodes");
                Ok(false)
            }
            bound => bound,
        };
        let KubeadmAddons { kube_proxy, dns } = addons;
        if self.kube_proxy.as_ref() != Some(kube_proxy) {
            let bound = unless_refused(self.guest.bind_kube_proxy(kube_proxy).await)?;
            self.kube_proxy = bound.then(|| kube_proxy.clone());
        }
        if let Some(nodes) = dns {
            unless_refused(self.guest.bind_coredns(nodes).await.map(|()| true))?;
        }
        Ok(())
    }

    /// Returns a survey of the guest, and the time until the next one if this one is not new.
    ///
    /// Events in the guest begin rounds. So that they do not cause a list each, a survey is repeated for a while if its subject is the same
    /// and it lacks nothing that is asked for.
    pub async fn survey(&mut self, plan: &SurveyPlan) -> Result<(GuestSurvey, Option<Duration>), GuestError> {
        let required: BTreeSet<GuestSecret> =
            self.deployments.values().flat_map(|deployment| &deployment.required_tokens).cloned().collect();
        if let Some(last) = &self.surveyed
            && (&last.plan, &last.required) == (plan, &required)
            && !last.survey.lacks_requested(plan)
            && let Some(left) = SURVEY_INTERVAL.checked_sub(last.at.elapsed())
        {
            return Ok((last.survey.clone(), Some(left)));
        }
        let survey = self.guest.survey(plan, &required).await?;
        let (plan, at) = (plan.clone(), Instant::now());
        self.surveyed = Some(Surveyed { plan, required, survey: survey.clone(), at });
        Ok((survey, None))
    }

    /// Looks after an add-on no more.
    pub fn release(&mut self, slot: &str) {
        self.deployments.remove(slot);
    }

    /// Applies an add-on; what keeps it from being applied.
    pub async fn apply(&mut self, intent: &Intent<'_>) -> Result<Option<AddonState>, GuestError> {
        let deployment = self.deployments.entry(intent.slot.to_owned()).or_default();
        deployment.apply(&mut self.guest, intent).await
    }

    /// How an add-on works.
    pub async fn health(&mut self, slot: &str) -> Result<AddonState, GuestError> {
        let deployment = self.deployments.entry(slot.to_owned()).or_default();
        deployment.health(&self.guest).await
    }

    /// Takes note of everything that the watches have shown.
    pub fn notice(&mut self) -> bool {
        let mut any = false;
        while let Ok(sighting) = self.sightings.1.try_recv() {
            any |= take_note(&mut self.deployments, &sighting);
        }
        any
    }

    /// Resolves when a watch has shown something that is to be acted on.
    pub async fn noticed(&mut self) {
        // The session holds a sender itself.
        while let Some(sighting) = self.sightings.1.recv().await {
            if take_note(&mut self.deployments, &sighting) {
                return;
            }
        }
    }

    /// Watches the kinds that the add-ons have, each once.
    pub fn watch(&mut self) {
        let kept = self.deployments.iter().filter(|(_, deployment)| deployment.mode == Mode::Reconcile);
        let mut sets: Vec<String> = kept.clone().map(|(slot, _)| apply_set::id(slot)).collect();
        sets.sort();
        let mut wanted = BTreeSet::new();
        let mut missing = Vec::new();
        for (kind, served) in kept.flat_map(|(_, deployment)| deployment.kinds()) {
            let key = (kind, sets.clone());
            if wanted.insert(key.clone()) && !self.watches.contains_key(&key) {
                missing.push((key, served.clone()));
            }
        }
        self.watches.retain(|key, task| wanted.contains(key) && !task.is_finished());
        for (key, served) in missing {
            let task = tokio::spawn(self.guest.watch(&served, &sets, self.sightings.0.clone()));
            self.watches.insert(key, AbortOnDropHandle::new(task));
        }
    }
}

fn take_note(deployments: &mut HashMap<String, Deployment>, sighting: &Sighting) -> bool {
    // Every deployment takes note: an object may be of two.
    let mut noticed = false;
    for deployment in deployments.values_mut() {
        noticed |= deployment.notice(sighting);
    }
    noticed
}
