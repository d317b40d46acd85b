//! Connects the two controllers of a cluster: the cluster's controller sets which add-ons the guest should have, and the guest's
//! controller ([`super::controller`]) reports their state. Each wakes the other after a change.

use std::collections::HashMap;
use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use kit::index::key;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::choice::ChosenAddon;
use super::kubeadm::KubeadmAddons;
use super::progress::RoundState;
use super::render::Values;
use super::report::AddonReport;
use super::survey::{GuestSurvey, SurveyPlan};

/// A cluster's desired state.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedAddons {
    /// The workload cluster's API server URL, `https://HOST:PORT`.
    pub server: String,
    pub addons: Vec<ChosenAddon>,
    /// Objects that gcm generates from the cluster's namespace. They are applied last, because nodes wait for the container
    /// network.
    pub synced: Vec<ChosenAddon>,
    /// The values for templates.
    pub values: Values,
    /// The image and the node selection for kubeadm's add-ons.
    pub kubeadm: KubeadmAddons,
    /// The input of the survey for programs in the workload cluster.
    pub survey: SurveyPlan,
}

impl WantedAddons {
    /// Returns all add-ons in the order in which they are applied.
    pub fn all(&self) -> impl Iterator<Item = &ChosenAddon> {
        self.addons.iter().chain(&self.synced)
    }
}

/// The latest reports about a cluster's add-ons and synchronized objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuestReports {
    pub addons: Arc<Vec<AddonReport>>,
    /// The state of the objects that gcm generates from the cluster's namespace.
    pub synced: Arc<Vec<AddonReport>>,
    /// The result of the last survey of the workload cluster.
    pub survey: Option<Arc<GuestSurvey>>,
    /// The Kubernetes version that the cluster should have.
    pub kubernetes: String,
}

/// References to clusters that a controller must reconcile.
pub type Wakes = mpsc::UnboundedReceiver<ObjectRef<TanzuKubernetesCluster>>;

/// The guests of all clusters whose API server has answered. Clones share them.
#[derive(Clone)]
pub struct ReachableGuests(Arc<Shared>);

struct Shared {
    known: Mutex<HashMap<String, Arc<KnownGuest>>>,
    changed: mpsc::UnboundedSender<ObjectRef<TanzuKubernetesCluster>>,
    reported: mpsc::UnboundedSender<ObjectRef<TanzuKubernetesCluster>>,
    shutdown: CancellationToken,
}

/// One cluster's guest.
pub struct KnownGuest {
    pub namespace: String,
    /// The cluster's name.
    pub name: String,
    wanted: Mutex<WantedState>,
    /// The reports, or `None` before the first round. In this case, the cluster keeps its earlier status.
    reports: Mutex<Option<GuestReports>>,
    /// The state that the guest's controller keeps between rounds.
    pub progress: AsyncMutex<RoundState>,
    /// Cancelled when the guest is forgotten, or when the program shuts down.
    pub forgotten: CancellationToken,
}

/// The desired state.
#[derive(Clone)]
pub struct WantedState {
    pub addons: Arc<WantedAddons>,
    /// True until a round begins with this state.
    pub is_new: bool,
}

impl ReachableGuests {
    /// Returns an empty set, the guests that need a round, and the clusters with new reports.
    pub fn new(shutdown: CancellationToken) -> (Self, Wakes, Wakes) {
        let (changed, needs_round) = mpsc::unbounded_channel();
        let (reported, has_report) = mpsc::unbounded_channel();
        let shared = Shared { known: Mutex::default(), changed, reported, shutdown };
        (Self(Arc::new(shared)), needs_round, has_report)
    }

    /// Sets the add-ons that a cluster should have, and replaces any earlier choice.
    pub fn want(&self, namespace: &str, name: &str, addons: WantedAddons) {
        let mut known = self.0.known.lock();
        let guest = known.get(&key(Some(namespace), name));
        if let Some(mut wanted) = guest.map(|guest| guest.wanted.lock()) {
            if *wanted.addons == addons {
                return;
            }
            *wanted = WantedState { addons: Arc::new(addons), is_new: true };
        } else {
            let guest = KnownGuest {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                wanted: Mutex::new(WantedState { addons: Arc::new(addons), is_new: true }),
                reports: Mutex::default(),
                progress: AsyncMutex::default(),
                forgotten: self.0.shutdown.child_token(),
            };
            known.insert(key(Some(namespace), name), Arc::new(guest));
        }
        // Sending only fails if the controller has stopped.
        let _ = self.0.changed.send(ObjectRef::new(name).within(namespace));
    }

    /// Forgets a cluster that is being deleted or that another controller manages, and stops its round.
    pub fn forget(&self, key: &str) {
        if let Some(guest) = self.0.known.lock().remove(key) {
            guest.forgotten.cancel();
        }
    }

    /// Returns a cluster's guest, if the cluster wants add-ons.
    pub fn get(&self, key: &str) -> Option<Arc<KnownGuest>> {
        self.0.known.lock().get(key).cloned()
    }

    /// Returns the last reports about a cluster, or `None` before the first round.
    pub fn reports(&self, key: &str) -> Option<GuestReports> {
        self.get(key)?.reports.lock().clone()
    }

    /// Requests a round.
    pub fn wake(&self, guest: &KnownGuest) {
        let _ = self.0.changed.send(guest.reference());
    }

    /// Publishes the reports, which must be in the order of `wanted`, and wakes the cluster if they changed. Keeps the last survey
    /// if `survey` is `None`.
    pub fn publish(
        &self,
        guest: &KnownGuest,
        mut reports: Vec<AddonReport>,
        survey: Option<GuestSurvey>,
        wanted: &WantedAddons,
    ) {
        let synced = Arc::new(reports.split_off(wanted.addons.len().min(reports.len())));
        let kubernetes = wanted.values.kubernetes_version.clone();
        {
            let mut shown = guest.reports.lock();
            let before = || shown.as_ref().and_then(|shown| shown.survey.clone());
            let survey = survey.map(Arc::new).or_else(before);
            let reports = GuestReports { addons: Arc::new(reports), synced, survey, kubernetes };
            if shown.as_ref() == Some(&reports) {
                return;
            }
            *shown = Some(reports);
        }
        let _ = self.0.reported.send(guest.reference());
    }
}

impl KnownGuest {
    /// Returns the desired state for a round.
    pub fn take_wanted(&self) -> WantedState {
        let mut wanted = self.wanted.lock();
        let taken = wanted.clone();
        wanted.is_new = false;
        taken
    }

    fn reference(&self) -> ObjectRef<TanzuKubernetesCluster> {
        ObjectRef::new(&self.name).within(&self.namespace)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::addons::report::AddonState;

    pub(in crate::addons) fn wanted(server: &str) -> WantedAddons {
        WantedAddons {
            server: server.to_owned(),
            addons: Vec::new(),
            synced: Vec::new(),
            values: Values::default(),
            kubeadm: KubeadmAddons::default(),
            survey: SurveyPlan::default(),
        }
    }

    #[test]
    fn each_controller_wakes_the_other_after_a_change_only() {
        let (guests, mut changed, mut reported) = ReachableGuests::new(CancellationToken::new());
        let cluster = ObjectRef::new("c").within("ns");
        guests.want("ns", "c", wanted("a"));
        guests.want("ns", "c", wanted("a"));
        assert_eq!((changed.try_recv().ok(), changed.try_recv().ok()), (Some(cluster.clone()), None));
        guests.want("ns", "c", wanted("b"));
        assert_eq!(changed.try_recv().ok(), Some(cluster.clone()));
        let guest = guests.get("ns/c").unwrap();
        let taken = guest.take_wanted();
        assert!(taken.addons.server == "b" && taken.is_new && !guest.take_wanted().is_new);
        assert_eq!(guests.reports("ns/c"), None, "before the first round");
        let state = AddonState::Applied;
        let report = AddonReport { name: "a".to_owned(), type_: None, version: None, state };
        for _ in 0..2 {
            guests.publish(&guest, vec![report.clone()], None, &taken.addons);
        }
        assert_eq!((reported.try_recv().ok(), reported.try_recv().ok()), (Some(cluster), None));
        assert_eq!(*guests.reports("ns/c").unwrap().synced, [report]);
    }

    #[test]
    fn a_forgotten_guest_ends_its_round_and_begins_anew() {
        let (guests, mut changed, _reported) = ReachableGuests::new(CancellationToken::new());
        guests.want("ns", "c", wanted("a"));
        let guest = guests.get("ns/c").unwrap();
        guests.forget("ns/c");
        assert!(guest.forgotten.is_cancelled() && guests.get("ns/c").is_none());
        guests.want("ns", "c", wanted("a"));
        assert!(!guests.get("ns/c").unwrap().forgotten.is_cancelled());
        assert!(changed.try_recv().is_ok() && changed.try_recv().is_ok());
    }
}
