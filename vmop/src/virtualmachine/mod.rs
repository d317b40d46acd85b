//! VirtualMachine: one machine in vCenter, from its object.
//!
//! The steps of a pass: prepare (finalizer and identity, persisted before anything exists outside),
//! gather, plan, act, status.

pub mod bootstrap;
pub mod carry_out;
pub mod clone;
pub mod delete;
mod events;
pub mod identity;
mod image;
#[cfg(test)]
mod life_tests;
pub mod needs;
pub mod nic;
pub mod observe;
mod patience;
pub mod placement;
pub mod plan;
mod power;
mod readiness;
pub mod size;
pub mod status;
pub mod step;
pub mod storage;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::conditions::{self, vmop as known};
use api::vmop::VirtualMachine;
use kit::apply::Api;
use kit::events::Events;
use kit::expectations::StaleCache;
use kit::retry::REQUEUE_SOON;
use kit::{Disposition, Next, ReconcileError};
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::caches::Caches;
use crate::data_sources::DataSourceWatches;
use crate::enqueue::Enqueue;
use crate::image::SyncRequests;
use crate::pause;
use crate::probe::Prober;
use crate::templates::TemplateCache;
use crate::vcenter::Provider;
use crate::virtualmachine::nic::requests;
use crate::virtualmachine::storage::{claims, promotion};
use vsphere::inventory::PowerState;

use plan::{Blocked, Facts, Found, Plan};
use status::Outcome;

/// What is not watched is looked at again after this.
const UNWATCHED: Duration = Duration::from_secs(30);
/// What vCenter still works on is asked for again after this, if the stream does not tell before.
const UNSETTLED: Duration = Duration::from_secs(15);

/// How many machines are put together at a time: what a guest is told is large, and vCenter takes no more calls at once.
pub const ROOM: usize = 64;

/// What reconciles of machines work with.
pub struct Context {
    /// Writes as this controller.
    pub api: Api,
    /// Events of this controller.
    pub events: Events,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// What is watched.
    pub caches: Caches,
    /// The readiness probes.
    pub prober: Prober<ObjectRef<VirtualMachine>>,
    /// Waits for Secrets and ConfigMaps that are not there yet.
    pub data_sources: DataSourceWatches,
    /// The guests that were asked to shut down or to stand by.
    pub asked: carry_out::guest::Asked,
    /// The promotions of linked disks that were begun.
    pub promotions: Arc<carry_out::promotion::Promotions>,
    /// Objects that were let go and are still in the cache, by UID.
    pub ended: Mutex<HashSet<String>>,
    /// Room for machines that are put together.
    pub room: Arc<Semaphore>,
    /// When a step that takes long was last told of early.
    pub told: Mutex<Option<Instant>>,
    /// Wakes resource policies whose folder or pool has vanished.
    pub policies: Enqueue<api::vmop::VirtualMachineSetResourcePolicy>,
    /// SyncRequests for images that are missing.
    pub sync_requests: Arc<SyncRequests>,
    /// The golden templates.
    pub templates: Arc<TemplateCache>,
}

/// Why a pass did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can be done before something changes.
    #[error("{0}")]
    Blocked(#[from] Blocked),
    /// vCenter did not do it.
    #[error("{0}")]
    Vcenter(#[from] vsphere::Error),
    /// vCenter has not told the end of it yet.
    #[error("{0}")]
    Unsettled(String),
    /// The guest is asked, and takes its time; after that long it is looked at again.
    #[error("{0}")]
    Guest(String, Option<Duration>),
    /// The cache is older than our own last write.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The API server did not do it.
    #[error("API server: {0}")]
    Api(#[from] kube::Error),
}

impl Error {
    /// The condition's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Blocked(Blocked::Spec(_)) => "InvalidSpec",
            Self::Blocked(Blocked::Unmet(unmet)) => unmet.reason,
            Self::Blocked(Blocked::Provider(_)) => known::PROVIDER_NOT_READY,
            Self::Blocked(Blocked::Claimed(_)) => known::IDENTITY_CONFLICT,
            Self::Blocked(Blocked::Lost(_)) => known::VIRTUAL_MACHINE_LOST,
            Self::Blocked(Blocked::Moved(_)) => "FolderMismatch",
            Self::Blocked(Blocked::Held(_)) => "HeldBack",
            Self::Guest(..) => "WaitingForGuest",
            Self::Vcenter(error) => error.category(),
            Self::Unsettled(_) => "WaitingForVCenter",
            Self::Behind(_) | Self::Api(_) => "ApiServer",
        }
    }

    /// What happened, and what to do about it.
    pub fn advised(&self) -> String {
        match self {
            Self::Vcenter(error) => format!("{error}. {}", error.advice()),
            other => other.to_string(),
        }
    }

    /// Whether it is worth a word in the status: what is only tried again, or over in a moment, is not.
    fn concerns_status(&self) -> bool {
        match self {
            Self::Behind(_) | Self::Api(_) => false,
            Self::Blocked(Blocked::Provider(problem)) => !problem.is_transient(),
            Self::Blocked(_) | Self::Vcenter(_) | Self::Unsettled(_) | Self::Guest(..) => true,
        }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Blocked(Blocked::Unmet(unmet)) => {
                Disposition::Waiting(unmet.unwatched.then_some(UNWATCHED))
            }
            Self::Blocked(Blocked::Provider(_)) => Disposition::Waiting(None),
            Self::Blocked(_) => Disposition::Invalid,
            Self::Unsettled(_) => Disposition::Waiting(Some(UNSETTLED)),
            Self::Guest(_, until) => Disposition::Waiting(*until),
            Self::Behind(_) => Disposition::Waiting(Some(REQUEUE_SOON)),
            Self::Api(error) => Disposition::from_api_error(error),
            Self::Vcenter(_) => Disposition::Failed,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Blocked(Blocked::Spec(_)) => "Spec",
            Self::Blocked(Blocked::Unmet(_)) => "Unmet",
            Self::Blocked(Blocked::Provider(_)) => "Provider",
            Self::Blocked(Blocked::Claimed(_)) => "Claimed",
            Self::Blocked(Blocked::Lost(_)) => "Lost",
            Self::Blocked(Blocked::Moved(_)) => "Moved",
            Self::Blocked(Blocked::Held(_)) => "Held",
            Self::Guest(..) => "Guest",
            Self::Vcenter(_) => "Vcenter",
            Self::Unsettled(_) => "Unsettled",
            Self::Behind(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}

/// Brings one machine from what it is to what its object says.
///
/// Each part has its own place in memory while it runs: hundreds of passes wait for vCenter at the same time.
pub async fn reconcile(vm: Arc<VirtualMachine>, ctx: Arc<Context>) -> Result<Next, Error> {
    if pause::paused(&*vm) {
        return Box::pin(paused(&vm, &ctx)).await;
    }
    if vm.metadata.deletion_timestamp.is_some() {
        return Box::pin(delete::delete(&vm, &ctx)).await;
    }
    let (room, waited) = if plan::existed(&vm) { (None, false) } else { Box::pin(turn(&vm, &ctx)).await? };
    let cached = Arc::clone(&vm);
    let (vm, identity) = match Box::pin(carry_out::prepared(&vm, &ctx)).await {
        Ok(prepared) => prepared,
        Err(error) => {
            report(&vm, None, &Outcome::Stopped(&error), &ctx).await?;
            return Err(error);
        }
    };
    let mut facts = Box::pin(observe::facts(&vm, identity, &ctx)).await?;
    if let (Found::Ours(machine), Some(volumes)) = (&facts.found, &facts.volumes)
        && !pause::by_admin(machine)
    {
        let off = machine.power_state == Some(PowerState::Off);
        let node = (machine.uuid.unwrap_or(identity.bios), facts.zone.as_deref());
        Box::pin(claims::kept(&vm, volumes, node, off, &ctx)).await?;
    }
    let asks = if let Found::Nothing(nothing) = &facts.found { &nothing.asks } else { &facts.asks };
    Box::pin(requests::asked(asks, &ctx)).await?;
    let planned = match plan::plan(&vm, &facts).map_err(Error::from) {
        // What was written just now was written on condition that it was current.
        Ok(plan @ (Plan::Make { .. } | Plan::Change { .. })) if Arc::ptr_eq(&cached, &vm) => {
            Box::pin(carry_out::current(&vm, &ctx)).await.map(|()| plan)
        }
        planned => planned,
    };
    let (result, told) = match planned {
        Ok(plan) => {
            // The plan has it, and lets it go when vCenter has it.
            facts.forget_bootstrap();
            let mut act = Box::pin(carry_out::carry_out(plan, room, &vm, &facts, &ctx));
            patient(&mut act, &vm, (Some(&facts), &Outcome::Underway), &ctx).await?
        }
        Err(error) => (Err(error), false),
    };
    let rewired = facts.rewired.as_ref().ok().and_then(Option::as_ref);
    let rewiring = rewired.is_some_and(|rewired| rewired.change().is_some());
    if rewired.is_some() && !rewiring && result.is_ok() {
        Box::pin(requests::outdated(&vm, &ctx)).await?;
    }
    let told = told || waited || rewiring;
    if let (Some((machine, disks)), Ok(vcenter)) = (promotion::due(&vm, &facts), ctx.provider.vcenter()) {
        ctx.promotions.begin(&vm, &machine.moref, disks, &vcenter);
    }
    let vm = Box::pin(carry_out::remembered(vm, &facts, &outcome(&result), &ctx)).await?;
    // The stream goes on while the object is written: the status tells of the machine as it is now, not once more.
    let result = result.map(|machine| machine.map(|machine| ctx.provider.latest(machine)));
    if let (Ok(Some(changed)), Ok(vcenter)) = (&result, ctx.provider.vcenter()) {
        Box::pin(observe::told_of(&mut facts, &vm, changed, &vcenter, &ctx)).await;
    }
    let outcome = outcome(&result);
    let silent = match &result {
        Err(error) => patience::silent(&vm, error, facts.now).map(|wait| wait.min(UNSETTLED)),
        Ok(machine) => patience::booting(&vm, machine.as_deref(), &facts).filter(|_| !told),
    };
    if let Some(wait) = silent
        && !patience::early(&ctx.told, Instant::now())
    {
        return Ok(Next::After(wait));
    }
    report(&vm, Some(&facts), &outcome, &ctx).await?;
    let machine = result?;
    // What was told meanwhile is not in the object at hand: look once more whether it still holds.
    Ok(if told { Next::After(REQUEUE_SOON) } else { patience::next(&vm, machine.as_deref(), &facts) })
}

/// An object that is left alone says so, where it was a user of ours who asked and not Cluster API.
async fn paused(vm: &VirtualMachine, ctx: &Context) -> Result<Next, Error> {
    if pause::by_devops(vm) && vm.metadata.deletion_timestamp.is_none() {
        carry_out::left_alone(vm, ctx).await?;
        let mut status = status::left_alone(vm);
        let old = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        status.conditions = kit::status::settle(old, status.conditions, jiff::Timestamp::now());
        ctx.api.patch_status(vm, &status).await?;
    }
    Ok(Next::OnChange)
}

fn outcome(result: &Result<Option<Arc<vsphere::Vm>>, Error>) -> Outcome<'_> {
    match result {
        Ok(machine) => Outcome::Done(machine.as_deref()),
        Err(error) => Outcome::Stopped(error),
    }
}

/// Waits until there is room for one more machine to be put together; whether its object has been told to wait.
async fn turn(vm: &VirtualMachine, ctx: &Context) -> Result<(Option<OwnedSemaphorePermit>, bool), Error> {
    let waits =
        Error::Unsettled(format!("The machine waits for its turn: {ROOM} are put together at a time"));
    let mut turn = Box::pin(Arc::clone(&ctx.room).acquire_owned());
    let (room, told) = patient(&mut turn, vm, (None, &Outcome::Stopped(&waits)), ctx).await?;
    Ok((room.ok(), told))
}

/// What `step` comes to; one that takes a while is told of in the status meanwhile, and then that is true as well.
async fn patient<T>(
    step: &mut (impl Future<Output = T> + Unpin),
    vm: &VirtualMachine,
    (facts, meanwhile): (Option<&Facts>, &Outcome<'_>),
    ctx: &Context,
) -> Result<(T, bool), Error> {
    for (wait, all) in patience::WAITS {
        if let Ok(result) = tokio::time::timeout(wait, &mut *step).await {
            return Ok((result, false));
        }
        if all || patience::early(&ctx.told, Instant::now()) {
            break;
        }
    }
    report(vm, facts, meanwhile, ctx).await?;
    Ok((step.await, true))
}

/// Writes the status, if it is another, and tells of it in an event, if `Ready` is.
async fn report(
    vm: &VirtualMachine,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
    ctx: &Context,
) -> Result<(), Error> {
    if let Outcome::Stopped(error) = outcome
        && !error.concerns_status()
    {
        return Ok(());
    }
    let old = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut status = status::status(vm, facts, outcome);
    status.conditions = kit::status::settle(old, status.conditions, jiff::Timestamp::now());
    if Box::pin(ctx.api.patch_status(vm, &status)).await? {
        let warns = |severity: &str| severity != conditions::INFO;
        events::tell(vm, old, &status.conditions, warns, &ctx.events);
    }
    Ok(())
}
