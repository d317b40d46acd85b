//! Manages the add-ons of all clusters. Each cluster has its own task and connection, so a cluster that hangs doesn't delay other
//! clusters. A task works in *rounds*: each round applies the cluster's add-ons, checks their health and publishes a report.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use bounds::Lane;
use clap::ValueEnum;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::apply::get;
use kit::bounded::compute;
use kit::guest::GuestError;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::builtin::BuiltIn;
use super::bundle::{Bundle, BundleError, LIMITS, Mode};
use super::choice::{ChosenAddon, Source};
use super::deployment::Intent;
use super::guest::Guest;
use super::kubeadm::KubeadmAddons;
use super::manifest::Manifest;
use super::node_bound::bind;
use super::render::Values;
use super::report::{AddonReport, AddonState};
use super::rhythm::Rhythm;
use super::session::Session;
use super::survey::{GuestSurvey, SurveyPlan, required_tokens};
use super::{config_map, image, manifest};

/// The timeout of one round for one cluster.
const ROUND: Duration = Duration::from_mins(3);
/// The delay between a change in the workload cluster and the next round, to batch further changes.
const GATHER: Duration = Duration::from_secs(1);
/// The maximum number of clusters per namespace whose bundles are read and applied concurrently.
const SHARE: usize = 2;

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
    /// The desired state of kubeadm's add-ons.
    pub kubeadm: KubeadmAddons,
    /// The input for the survey, which looks for programs in the workload cluster.
    pub survey: SurveyPlan,
}

impl WantedAddons {
    fn all(&self) -> impl Iterator<Item = &ChosenAddon> {
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

/// Manages the add-ons of all clusters. Clones share state.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// The treatment of add-ons from node images, and of built-in add-ons, after gcm has applied them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ImageAddons {
    /// Changes by other clients are reverted.
    #[default]
    Reconcile,
    /// Each version is applied once. Changes by other clients are kept.
    Once,
}

struct Shared {
    management: Client,
    image_addons: ImageAddons,
    clusters: Mutex<HashMap<String, ClusterTask>>,
    bundles: Lane,
    wake: mpsc::UnboundedSender<ObjectRef<TanzuKubernetesCluster>>,
    shutdown: CancellationToken,
}

/// The latest reports, or `None` before the first round. Until then, the caller keeps the earlier status.
type Reports = Arc<Mutex<Option<GuestReports>>>;

struct ClusterTask {
    wanted: watch::Sender<Arc<WantedAddons>>,
    reports: Reports,
    _task: AbortOnDropHandle<()>,
}

impl Engine {
    /// Returns an engine without clusters. `wake` receives each cluster whose report changed.
    pub fn new(
        management: Client,
        image_addons: ImageAddons,
        wake: mpsc::UnboundedSender<ObjectRef<TanzuKubernetesCluster>>,
        shutdown: CancellationToken,
    ) -> Self {
        let (clusters, bundles) = (Mutex::default(), Lane::per_share(SHARE));
        Self(Arc::new(Shared { management, image_addons, clusters, bundles, wake, shutdown }))
    }

    /// Sets the add-ons that a cluster should have, and replaces any earlier choice.
    pub fn want(&self, namespace: &str, name: &str, wanted: WantedAddons) {
        let key = kit::index::key(Some(namespace), name);
        let mut clusters = self.0.clusters.lock();
        if let Some(cluster) = clusters.get(&key) {
            cluster.wanted.send_if_modified(|before| {
                let differs = **before != wanted;
                if differs {
                    *before = Arc::new(wanted);
                }
                differs
            });
            return;
        }
        let reports = Reports::default();
        let (sender, receiver) = watch::channel(Arc::new(wanted));
        let cluster = Cluster {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            shared: Arc::clone(&self.0),
            reports: Arc::clone(&reports),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(cluster.keep(receiver)));
        clusters.insert(key, ClusterTask { wanted: sender, reports, _task: task });
    }

    /// Stops managing a cluster that is being deleted or that another controller manages.
    pub fn forget(&self, key: &str) {
        self.0.clusters.lock().remove(key);
    }

    /// Returns the last reports about a cluster, or `None` before the cluster's first round.
    pub fn reports(&self, key: &str) -> Option<GuestReports> {
        self.0.clusters.lock().get(key)?.reports.lock().clone()
    }
}

fn report(addon: &ChosenAddon, version: Option<String>, state: AddonState) -> AddonReport {
    AddonReport { name: addon.name.clone(), type_: addon.type_, version, state }
}

struct Round {
    reports: Vec<AddonReport>,
    survey: GuestSurvey,
    /// The time until the next survey, if this round reused the last survey.
    next_survey: Option<Duration>,
}

/// A cluster task's state.
struct Cluster {
    namespace: String,
    name: String,
    shared: Arc<Shared>,
    reports: Reports,
}

impl Cluster {
    /// Reconciles the cluster's add-ons until the engine forgets the cluster or shuts down.
    async fn keep(self, mut wanted: watch::Receiver<Arc<WantedAddons>>) {
        let mut session: Option<Session> = None;
        let rhythm = Rhythm::default();
        loop {
            let now = Arc::clone(&wanted.borrow_and_update());
            let round = tokio::time::timeout(ROUND, self.round(&now, &mut session)).await;
            let late =
                || Err(GuestError::Unreachable(format!("a round took longer than {} s", ROUND.as_secs())));
            let delay = match round.unwrap_or_else(|_| late()) {
                Ok(Round { reports, survey, next_survey }) => {
                    let delay = rhythm.after_round(&reports, survey.lacks_requested(&now.survey));
                    let delay = next_survey.map_or(delay, |next| delay.min(next));
                    self.publish(reports, Some(survey), &now);
                    delay
                }
                Err(error) => {
                    session = None;
                    // Ignore a single failure. Report the cluster as unreachable from the second failure on.
                    if rhythm.has_failed() {
                        let state = AddonState::Pending(error.to_string());
                        let reports = now.all().map(|addon| report(addon, None, state.clone())).collect();
                        self.publish(reports, None, &now);
                    }
                    rhythm.after_failure()
                }
            };
            tokio::select! {
                () = self.shared.shutdown.cancelled() => return,
                changed = wanted.changed() => match changed {
                    Ok(()) => rhythm.reset(),
                    Err(_) => return,
                },
                () = tokio::time::sleep(delay) => {}
                () = noticed(&mut session) => tokio::time::sleep(GATHER).await,
            }
        }
    }

    /// Publishes the reports, which must be in the order of `wanted`. Keeps the last survey if `survey` is `None`.
    fn publish(&self, mut reports: Vec<AddonReport>, survey: Option<GuestSurvey>, wanted: &WantedAddons) {
        let synced = Arc::new(reports.split_off(wanted.addons.len().min(reports.len())));
        let kubernetes = wanted.values.kubernetes_version.clone();
        {
            let mut shown = self.reports.lock();
            let before = || shown.as_ref().and_then(|shown| shown.survey.clone());
            let survey = survey.map(Arc::new).or_else(before);
            let reports = GuestReports { addons: Arc::new(reports), synced, survey, kubernetes };
            if shown.as_ref() == Some(&reports) {
                return;
            }
            *shown = Some(reports);
        }
        // Sending only fails if the controller has stopped.
        let _ = self.shared.wake.send(ObjectRef::new(&self.name).within(&self.namespace));
    }

    /// Runs one round for all add-ons. Returns an error if the workload cluster doesn't respond.
    async fn round(&self, wanted: &WantedAddons, session: &mut Option<Session>) -> Result<Round, GuestError> {
        if session.as_ref().is_none_or(|session| session.server != wanted.server) {
            *session = None;
            *session = Some(Session::new(self.connect(&wanted.server).await?, &wanted.server));
        }
        // This can't happen: the session was just set.
        let Some(session) = session else { return Err(GuestError::Unreachable(String::new())) };
        session.keep_only(wanted.all());
        session.notice();
        let mut reports: Vec<AddonReport> = Vec::with_capacity(wanted.addons.len() + wanted.synced.len());
        for addon in wanted.all() {
            let state = self.look_after(addon, wanted, session, &reports).await?;
            let version = session.deployment(addon.slot()).version.clone();
            reports.push(report(addon, version, state));
        }
        session.bind_to_nodes(&wanted.kubeadm).await?;
        session.watch();
        let (survey, next_survey) = session.survey(&wanted.survey).await?;
        Ok(Round { reports, survey, next_survey })
    }

    async fn look_after(
        &self,
        addon: &ChosenAddon,
        wanted: &WantedAddons,
        session: &mut Session,
        before: &[AddonReport],
    ) -> Result<AddonState, GuestError> {
        let values = &wanted.values;
        if let Source::Nowhere { known } = &addon.source {
            return Ok(AddonState::Unprovided(describe_unprovided(&addon.name, known)));
        }
        if session.deployment(addon.slot()).wants_bundle(&addon.source, values) {
            // Bundles need memory while they are applied, so limit how many clusters in a namespace apply bundles at a time.
            let _turn = self.shared.bundles.enter(&self.namespace).await;
            let failed = |reason: String| Ok(AddonState::Failed(format!("{}: {reason}", addon.origin())));
            let mut bundle = match self.load(addon).await {
                Ok(bundle) => bundle,
                Err(reason) => return failed(reason),
            };
            let is_ours = matches!(addon.source, Source::BuiltIn(_) | Source::Image(_));
            if is_ours && self.shared.image_addons == ImageAddons::Once {
                bundle.mode = Mode::OncePerVersion;
            }
            if bundle.mode == Mode::Unmanaged {
                session.release(addon.slot());
                return Ok(AddonState::Unmanaged);
            }
            let unsettled =
                |name: &&String| before.iter().find(|r| r.name == **name).is_none_or(|r| !r.is_settled());
            if let Some(other) = bundle.after.iter().find(unsettled) {
                return Ok(AddonState::Pending(format!("it waits for add-on {other}")));
            }
            let manifests = match &addon.source {
                Source::Generated(generated) => Ok(generated.manifests().to_vec()),
                _ => self.parse(&bundle, values).await,
            };
            let is_in_image = matches!(addon.source, Source::Image(_));
            let bound = |manifests: Vec<Manifest>| {
                manifests.into_iter().map(|manifest| bind(manifest, &values.node_release)).collect()
            };
            let manifests = if is_in_image { manifests.map(bound) } else { manifests };
            let manifests = match manifests {
                Ok(manifests) => manifests,
                Err(error) => return failed(error.to_string()),
            };
            let slot = addon.slot();
            session.deployment(slot).required_tokens = required_tokens(&manifests, &wanted.survey.tokens);
            let intent =
                Intent { slot, source: &addon.source, bundle: &bundle, manifests: &manifests, values };
            if let Some(state) = session.apply(&intent).await? {
                return Ok(state);
            }
        }
        session.health(addon.slot()).await
    }

    /// Parses a bundle's objects.
    async fn parse(&self, bundle: &Bundle, values: &Values) -> Result<Vec<Manifest>, BundleError> {
        let (files, values) = (bundle.files.clone(), values.clone());
        compute(&self.namespace, LIMITS, move |budget| manifest::parse(&files, &values, budget)).await
    }

    /// Loads an add-on's bundle from its source. If this fails, returns the reason for the add-on's status.
    async fn load(&self, addon: &ChosenAddon) -> Result<Bundle, String> {
        let built_in = || BuiltIn::named(&addon.name).map(BuiltIn::bundle);
        match &addon.source {
            Source::BuiltIn(bundle) => Ok(bundle.bundle()),
            Source::Generated(generated) => {
                Ok(Bundle { version: Some(generated.version().to_owned()), ..Bundle::default() })
            }
            Source::Image(node_image) => {
                let property = image::property(node_image, &addon.name)
                    .ok_or("the node image no longer contains this add-on")?;
                let property = property.to_owned();
                let read =
                    compute(&self.namespace, LIMITS, move |budget| image::read(&property, budget)).await;
                read.map_err(|error| error.to_string())
            }
            Source::Nowhere { .. } => Err("no source provides this add-on".to_owned()),
            Source::ConfigMap { name, .. } => {
                let namespace = Some(self.namespace.as_str());
                let map = get::<ConfigMap>(&self.shared.management, namespace, name).await;
                let map = map.map_err(|error| format!("it can't be read: {error}"))?;
                let mut bundle =
                    config_map::read(&map.ok_or("the ConfigMap no longer exists")?.data.unwrap_or_default())?;
                if let Some(secret) = bundle.secret.clone() {
                    let read = get::<Secret>(&self.shared.management, namespace, &secret).await;
                    let read = read.map_err(|error| format!("Secret {secret} can't be read: {error}"))?;
                    let read = read.ok_or_else(|| format!("Secret {secret} does not exist"))?;
                    config_map::add_secret(&mut bundle, &secret, read)?;
                }
                // A ConfigMap without manifests configures the built-in bundle.
                if bundle.files.is_empty() && bundle.mode != Mode::Unmanaged {
                    let there = built_in()
                        .ok_or("the ConfigMap has no manifests, and no built-in bundle has this name")?;
                    bundle.version = bundle.version.or(there.version);
                    bundle.files = there.files;
                }
                Ok(bundle)
            }
        }
    }

    /// Connects to the workload cluster at URL `server` with Cluster API's kubeconfig.
    async fn connect(&self, server: &str) -> Result<Guest, GuestError> {
        let name = api::names::kubeconfig_secret(&self.name);
        let unusable = |what: String| GuestError::Unreachable(format!("Secret {name}: {what}"));
        let secret = get::<Secret>(&self.shared.management, Some(&self.namespace), &name).await;
        let secret = secret.map_err(|error| unusable(format!("it can't be read: {error}")))?;
        let secret = secret.ok_or_else(|| unusable("it does not exist yet".to_owned()))?;
        Guest::connect(&self.namespace, &self.name, &secret, server).await.map_err(unusable)
    }
}

fn describe_unprovided(name: &str, known: &[String]) -> String {
    let known = known.join(", ");
    format!(
        "no bundle provides the container network {name}. Available: {known}. Provide its manifests in a ConfigMap with the label {}={name}",
        api::names::label::ADDON_NAME
    )
}

/// Resolves when the workload cluster reports a change that requires a round. Never resolves without a session.
async fn noticed(session: &mut Option<Session>) {
    match session {
        Some(session) => session.noticed().await,
        None => std::future::pending().await,
    }
}
