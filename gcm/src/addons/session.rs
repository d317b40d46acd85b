//! The state of a workload cluster while it responds: its add-ons, and the watches on their objects.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kit::guest::GuestError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::apply_set;
use super::bundle::BundleMode;
use super::choice::ChosenAddon;
use super::deployment::{AddonDeployment, AddonIntent};
use super::guest::{Sighting, WorkloadClusterClient};
use super::kubeadm::KubeadmAddons;
use super::manifest::ObjectKey;
use super::report::AddonState;
use super::survey::{GuestSecret, GuestSurvey, SurveyPlan};

/// The maximum number of unprocessed watch events. Watches pause while the backlog is full.
const BACKLOG: usize = 64;
/// The minimum interval between surveys if the last survey found everything that the cluster needs.
const SURVEY_INTERVAL: Duration = Duration::from_secs(30);

/// The connection to a workload cluster, and the state of the cluster's add-ons.
pub struct GuestSession {
    /// The API server URL.
    pub server: String,
    guest: WorkloadClusterClient,
    deployments: HashMap<String, AddonDeployment>,
    watches: HashMap<(ObjectKey, Vec<String>), AbortOnDropHandle<()>>,
    sightings: mpsc::Sender<Sighting>,
    /// The task that receives the watch events.
    pub listener: Option<AbortOnDropHandle<()>>,
    /// The kube-proxy image that was set for new nodes.
    kube_proxy: Option<String>,
    surveyed: Option<Surveyed>,
}

/// The last survey, with its input and time.
struct Surveyed {
    plan: SurveyPlan,
    required: BTreeSet<GuestSecret>,
    survey: GuestSurvey,
    at: Instant,
}

impl GuestSession {
    /// Returns a session that doesn't know the state of any add-on yet, and its watch events.
    pub fn new(guest: WorkloadClusterClient, server: &str) -> (Self, mpsc::Receiver<Sighting>) {
        let (sightings, received) = mpsc::channel(BACKLOG);
        let session = Self {
            server: server.to_owned(),
            guest,
            deployments: HashMap::new(),
            watches: HashMap::new(),
            sightings,
            listener: None,
            kube_proxy: None,
            surveyed: None,
        };
        (session, received)
    }

    /// Returns the state of the add-on in this slot.
    pub fn deployment(&mut self, slot: &str) -> &mut AddonDeployment {
        self.deployments.entry(slot.to_owned()).or_default()
    }

    /// Forgets the add-ons that the cluster should no longer have. Their objects are kept.
    pub fn keep_only<'a>(&mut self, addons: impl Iterator<Item = &'a ChosenAddon>) {
        let slots: BTreeSet<&str> = addons.map(ChosenAddon::slot).collect();
        self.deployments.retain(|slot, _| slots.contains(slot.as_str()));
    }

    /// Binds kubeadm's add-ons to nodes that contain their images. If the API server refuses a request, the next round tries
    /// again.
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

    /// Surveys the workload cluster, or returns the last survey again. In the second case, also returns the time until the next
    /// survey.
    ///
    /// Watch events trigger rounds, and not every round should list objects. The last survey is therefore reused for
    /// `SURVEY_INTERVAL` if its input is unchanged and it found everything that the cluster needs.
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

    /// Stops managing an add-on. Its objects are kept.
    pub fn release(&mut self, slot: &str) {
        self.deployments.remove(slot);
    }

    /// Applies an add-on. Returns its state if the add-on couldn't be applied completely.
    pub async fn apply(&mut self, intent: &AddonIntent<'_>) -> Result<Option<AddonState>, GuestError> {
        let deployment = self.deployments.entry(intent.slot.to_owned()).or_default();
        deployment.apply(&mut self.guest, intent).await
    }

    /// Checks if an add-on works.
    pub async fn health(&mut self, slot: &str) -> Result<AddonState, GuestError> {
        let deployment = self.deployments.entry(slot.to_owned()).or_default();
        deployment.health(&self.guest).await
    }

    /// Records a watch event. Returns true if it requires a round.
    pub fn note(&mut self, sighting: &Sighting) -> bool {
        // Notify every deployment, because an object can belong to two of them.
        let mut noticed = false;
        for deployment in self.deployments.values_mut() {
            noticed |= deployment.notice(sighting);
        }
        noticed
    }

    /// Watches the kinds of all objects in add-ons with mode Reconcile, and stops all other watches.
    pub fn watch(&mut self) {
        let kept = self.deployments.iter().filter(|(_, deployment)| deployment.mode == BundleMode::Reconcile);
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
            let task = tokio::spawn(self.guest.watch(&served, &sets, self.sightings.clone()));
            self.watches.insert(key, AbortOnDropHandle::new(task));
        }
    }
}
