//! Reconciles the guests of clusters: applies add-ons in a workload cluster, corrects drift, and reports.
//!
//! A reconcile is a *round* through all add-ons of one cluster. Rounds begin when the cluster's controller wants other add-ons, when
//! a watch in the workload cluster reports a change, and after a pause ([`super::progress`]). A guest that hangs holds only its own
//! round, and the slots for rounds are shared between namespaces.

use std::sync::{Arc, Weak};
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use bounds::Lane;
use clap::ValueEnum;
use futures::stream;
use k8s_openapi::api::core::v1::Secret;
use kit::apply::get;
use kit::guest::GuestError;
use kit::index::key;
use kit::watch::Cache;
use kit::{Controller, Disposition, Next, ReconcileError, Runtime};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::bundle::BundleMode;
use super::choice::{BundleSource, ChosenAddon};
use super::deployment::AddonIntent;
use super::guest::{Sighting, WorkloadClusterClient};
use super::guests::{KnownGuest, ReachableGuests, Wakes, WantedAddons, WantedState};
use super::manifest::Manifest;
use super::node_bound::bind;
use super::report::{AddonReport, AddonState};
use super::session::GuestSession;
use super::sources;
use super::survey::{GuestSurvey, required_tokens};

/// The maximum number of concurrent rounds. Most of their time, rounds wait for workload clusters.
const CONCURRENCY: usize = 1000;
/// The deadline for one round.
const ROUND: Duration = Duration::from_mins(3);
/// The delay between a change in the workload cluster and the next round, to batch further changes.
const GATHER: Duration = Duration::from_secs(1);
/// The maximum number of clusters per namespace whose bundles are read and applied concurrently.
const SHARE: usize = 2;

/// Determines if gcm reverts changes to add-ons that come from node images or are built in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ImageAddons {
    /// Changes that others make are reverted.
    #[default]
    Reconcile,
    /// They are applied once for each version. Changes that others make stay.
    Once,
}

/// The error of a round. Rounds with an error begin again with a new connection.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct RoundError(#[from] GuestError);

impl ReconcileError for RoundError {
    fn disposition(&self) -> Disposition {
        Disposition::Failed
    }

    fn label(&self) -> &'static str {
        match self.0 {
            GuestError::Unreachable(_) => "Unreachable",
            GuestError::Refused(_) => "Refused",
        }
    }
}

struct Context {
    management: Client,
    image_addons: ImageAddons,
    guests: ReachableGuests,
    /// The permits to hold a bundle in memory, by namespace.
    bundles: Lane,
}

impl Context {
    fn new(management: Client, image_addons: ImageAddons, guests: ReachableGuests) -> Arc<Self> {
        Arc::new(Self { management, image_addons, guests, bundles: Lane::per_share(SHARE) })
    }
}

/// Runs the controller. `needs_round` yields the guests that need a round.
pub async fn run(
    runtime: &Runtime,
    clusters: &Cache<TanzuKubernetesCluster>,
    image_addons: ImageAddons,
    guests: ReachableGuests,
    needs_round: Wakes,
) {
    let ctx = Context::new(runtime.client.clone(), image_addons, guests);
    let needs_round =
        stream::unfold(needs_round, |mut woken| async move { Some((woken.recv().await?, woken)) });
    Controller::new("guest", runtime, clusters)
        .concurrency(CONCURRENCY)
        .deadline(ROUND)
        .wakes_on(needs_round)
        .run(ctx, reconcile)
        .await;
}

/// Reconciles the guest of one cluster, if the cluster wants add-ons.
async fn reconcile(tkc: Arc<TanzuKubernetesCluster>, ctx: Arc<Context>) -> Result<Next, RoundError> {
    let guest = ctx.guests.get(&key(tkc.namespace().as_deref(), &tkc.name_any()));
    let Some(guest) = guest else { return Ok(Next::OnChange) };
    let round = Box::pin(reconcile_guest(&guest, &ctx));
    guest.forgotten.run_until_cancelled(round).await.unwrap_or(Ok(Next::OnChange))
}

async fn reconcile_guest(guest: &Arc<KnownGuest>, ctx: &Context) -> Result<Next, RoundError> {
    let mut progress = guest.progress.lock().await;
    let WantedState { addons: wanted, is_new } = guest.take_wanted();
    if is_new {
        progress.restart();
    }
    let report_failure = |error: &GuestError| {
        let state = AddonState::Pending(error.to_string());
        let reports = wanted.all().map(|addon| report(addon, None, state.clone())).collect();
        ctx.guests.publish(guest, reports, None, &wanted);
    };
    if progress.is_late() {
        let late = GuestError::Unreachable(format!("a round took longer than {} s", ROUND.as_secs()));
        if progress.end_failed(Instant::now()) {
            report_failure(&late);
        }
    }
    progress.begin();
    // The session is taken out, so that it ends with a round that fails or exceeds its deadline.
    let session = progress.session.take();
    match (Round { guest, ctx, wanted: &wanted }).run(session).await {
        Ok(Done { session, reports, survey, next_survey }) => {
            progress.session = Some(session);
            let pause = progress.end(&reports, survey.lacks_requested(&wanted.survey), Instant::now());
            ctx.guests.publish(guest, reports, Some(survey), &wanted);
            // kit shortens a delay by up to a fifth, and an earlier round wouldn't include a survey.
            Ok(Next::After(next_survey.map_or(pause, |next| pause.min(next + next / 4))))
        }
        Err(error) => {
            if progress.end_failed(Instant::now()) {
                report_failure(&error);
            }
            Err(error.into())
        }
    }
}

fn report(addon: &ChosenAddon, version: Option<String>, state: AddonState) -> AddonReport {
    AddonReport { name: addon.name.clone(), type_: addon.type_, version, state }
}

/// The input of one round.
struct Round<'a> {
    guest: &'a Arc<KnownGuest>,
    ctx: &'a Context,
    wanted: &'a WantedAddons,
}

/// The result of one round.
struct Done {
    session: GuestSession,
    reports: Vec<AddonReport>,
    survey: GuestSurvey,
    /// The time until the next survey, if this round reused the last survey.
    next_survey: Option<Duration>,
}

impl Round<'_> {
    /// Runs the round for all add-ons. Returns an error if the workload cluster doesn't respond.
    async fn run(&self, session: Option<GuestSession>) -> Result<Done, GuestError> {
        let wanted = self.wanted;
        let mut session = match session.filter(|session| session.server == wanted.server) {
            Some(session) => session,
            None => self.open_session().await?,
        };
        session.keep_only(wanted.all());
        let mut reports: Vec<AddonReport> = Vec::with_capacity(wanted.addons.len() + wanted.synced.len());
        for addon in wanted.all() {
            let state = self.look_after(addon, &mut session, &reports).await?;
            let version = session.deployment(addon.slot()).version.clone();
            reports.push(report(addon, version, state));
        }
        session.bind_to_nodes(&wanted.kubeadm).await?;
        session.watch();
        let (survey, next_survey) = session.survey(&wanted.survey).await?;
        Ok(Done { session, reports, survey, next_survey })
    }

    /// Connects to the workload cluster, and starts to listen to the session's watches.
    async fn open_session(&self) -> Result<GuestSession, GuestError> {
        let server = &self.wanted.server;
        let (mut session, sightings) = GuestSession::new(self.connect(server).await?, server);
        let listener = listen(Arc::downgrade(self.guest), sightings, self.ctx.guests.clone());
        session.listener = Some(AbortOnDropHandle::new(tokio::spawn(listener)));
        Ok(session)
    }

    /// Prepares a connection to the workload cluster at URL `server` with Cluster API's kubeconfig.
    async fn connect(&self, server: &str) -> Result<WorkloadClusterClient, GuestError> {
        let KnownGuest { namespace, name: cluster, .. } = &**self.guest;
        let name = api::names::kubeconfig_secret(cluster);
        let unusable = |what: String| GuestError::Unreachable(format!("Secret {name}: {what}"));
        let secret = get::<Secret>(&self.ctx.management, Some(namespace), &name).await;
        let secret = secret.map_err(|error| unusable(format!("it can't be read: {error}")))?;
        let secret = secret.ok_or_else(|| unusable("it does not exist yet".to_owned()))?;
        WorkloadClusterClient::connect(namespace, cluster, &secret, server).await.map_err(unusable)
    }

    async fn look_after(
        &self,
        addon: &ChosenAddon,
        session: &mut GuestSession,
        before: &[AddonReport],
    ) -> Result<AddonState, GuestError> {
        if let BundleSource::Nowhere { known } = &addon.source {
            return Ok(AddonState::Unprovided(describe_unprovided(&addon.name, known)));
        }
        if self.wants_bundle(addon, session).await {
            // Bundles need memory while they are applied, so limit how many clusters in a namespace apply bundles at a time.
            let _turn = self.ctx.bundles.enter(&self.guest.namespace).await;
            if let Some(state) = self.apply(addon, session, before).await? {
                return Ok(state);
            }
        }
        session.health(addon.slot()).await
    }

    /// Returns true if an add-on's bundle must be read again.
    async fn wants_bundle(&self, addon: &ChosenAddon, session: &mut GuestSession) -> bool {
        let deployment = session.deployment(addon.slot());
        if deployment.wants_bundle(&addon.source, &self.wanted.values) {
            return true;
        }
        match &deployment.secret {
            Some(read) => sources::is_secret_changed(&self.ctx.management, &self.guest.namespace, read).await,
            None => false,
        }
    }

    /// Reads and applies an add-on's bundle. Returns the add-on's state if the bundle couldn't be applied completely.
    async fn apply(
        &self,
        addon: &ChosenAddon,
        session: &mut GuestSession,
        before: &[AddonReport],
    ) -> Result<Option<AddonState>, GuestError> {
        let (namespace, values) = (&self.guest.namespace, &self.wanted.values);
        let failed = |reason: String| Ok(Some(AddonState::Failed(format!("{}: {reason}", addon.origin()))));
        let mut bundle = match sources::read(&self.ctx.management, namespace, addon).await {
            Ok(bundle) => bundle,
            Err(reason) => return failed(reason),
        };
        let is_ours = matches!(addon.source, BundleSource::BuiltIn(_) | BundleSource::Image(_));
        if is_ours && self.ctx.image_addons == ImageAddons::Once {
            bundle.mode = BundleMode::OncePerVersion;
        }
        if bundle.mode == BundleMode::Unmanaged {
            session.release(addon.slot());
            return Ok(Some(AddonState::Unmanaged));
        }
        let unsettled =
            |name: &&String| before.iter().find(|r| r.name == **name).is_none_or(|r| !r.is_settled());
        if let Some(other) = bundle.after.iter().find(unsettled) {
            return Ok(Some(AddonState::Pending(format!("it waits for add-on {other}"))));
        }
        let manifests = match &addon.source {
            BundleSource::Generated(generated) => Ok(generated.manifests().to_vec()),
            _ => sources::parse(namespace, &bundle, values).await,
        };
        let is_in_image = matches!(addon.source, BundleSource::Image(_));
        let bound = |manifests: Vec<Manifest>| {
            manifests.into_iter().map(|manifest| bind(manifest, &values.node_release)).collect()
        };
        let manifests = if is_in_image { manifests.map(bound) } else { manifests };
        let manifests = match manifests {
            Ok(manifests) => manifests,
            Err(error) => return failed(error.to_string()),
        };
        let slot = addon.slot();
        session.deployment(slot).required_tokens = required_tokens(&manifests, &self.wanted.survey.tokens);
        let intent =
            AddonIntent { slot, source: &addon.source, bundle: &bundle, manifests: &manifests, values };
        session.apply(&intent).await
    }
}

fn describe_unprovided(name: &str, known: &[String]) -> String {
    let known = known.join(", ");
    format!(
        "no bundle provides the container network {name}. Available: {known}. Provide its manifests in a ConfigMap with the label {}={name}",
        api::names::label::ADDON_NAME
    )
}

/// Records watch events, and requests a round after those that require one, until the session ends. While a round runs, events
/// wait, because the round changes the state that they are compared with.
async fn listen(guest: Weak<KnownGuest>, mut sightings: mpsc::Receiver<Sighting>, guests: ReachableGuests) {
    while let Some(sighting) = sightings.recv().await {
        if !note(&guest, &sighting).await {
            continue;
        }
        tokio::time::sleep(GATHER).await;
        while let Ok(sighting) = sightings.try_recv() {
            note(&guest, &sighting).await;
        }
        let Some(guest) = guest.upgrade() else { return };
        guests.wake(&guest);
    }
}

/// Records a watch event. Returns true if it requires a round.
async fn note(guest: &Weak<KnownGuest>, sighting: &Sighting) -> bool {
    let Some(guest) = guest.upgrade() else { return false };
    let mut progress = guest.progress.lock().await;
    progress.session.as_mut().is_some_and(|session| session.note(sighting))
}

#[cfg(test)]
mod tests {
    use support::api_server::{refusal, server};

    use super::*;
    use crate::addons::guests::tests::wanted;
    use crate::testing::sound;

    #[tokio::test]
    async fn a_guest_that_stays_unreachable_is_tried_again_and_reported_until_it_is_forgotten() {
        let runtime = Runtime::detached(server(|_| refusal(404, "NotFound")).0);
        let (guests, needs_round, mut has_report) = ReachableGuests::new(runtime.shutdown.clone());
        let source = BundleSource::ConfigMap { name: "web".to_owned(), version: "1".to_owned() };
        let addon = ChosenAddon { name: "web".to_owned(), type_: None, source };
        guests.want("ns", "c", WantedAddons { addons: vec![addon], ..wanted("https://10.0.0.1:6443") });
        let (started, controlled) = (runtime.clone(), guests.clone());
        let running = tokio::spawn(async move {
            let clusters = Cache::filled([sound()]);
            run(&started, &clusters, ImageAddons::default(), controlled, needs_round).await;
        });
        let reported = tokio::time::timeout(Duration::from_secs(20), has_report.recv()).await;
        assert_eq!(reported.expect("a report").unwrap().name, "c");
        let reports = guests.reports("ns/c").unwrap();
        let AddonState::Pending(why) = &reports.addons[0].state else { panic!("{reports:?}") };
        assert!(why.contains("Secret c-kubeconfig: it does not exist yet"), "{why}");
        let text = runtime.metrics.text();
        assert!(text.contains(r#"controller="guest",outcome="Unreachable""#), "{text}");
        guests.forget("ns/c");
        assert_eq!(guests.reports("ns/c"), None);
        runtime.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(20), running).await.expect("the end").unwrap();
    }
}
