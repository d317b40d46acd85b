//! VirtualMachineSetResourcePolicy: a folder, a resource pool and cluster modules for a set of machines.
//!
//! Folder and pool are made below the namespace's own, under the names that the spec gives: a lost
//! answer is found again by name. Cluster modules have no names; [`ledger`] says how they are found.

mod act;
mod delete;
pub mod ledger;
pub mod modules;
mod pool;
pub mod status;
#[cfg(test)]
mod vcsim_tests;

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, READY};
use api::names::finalizer;
use api::vmop::{VirtualMachine, VirtualMachineSetResourcePolicy};
use kit::apply::Api;
use kit::events::Events;
use kit::index::key;
use kit::retry::SOON;
use kit::writes::{Behind, behind};
use kit::{Family, Next, Outcome};
use kube::ResourceExt;

use crate::caches::Caches;
use crate::enqueue::Enqueue;
use crate::pause;
use crate::unmet::{Need, Unmet};
use crate::vcenter::{Placement, Problem, Provider, RealizedPolicy, VCenter};
use crate::virtualmachine::placement;

/// While machines are in the way of a deletion, vCenter is asked again this often.
const OCCUPIED: Duration = Duration::from_secs(5);

/// What reconciles of policies work with.
pub struct Context {
    /// Writes as this controller.
    pub api: Api,
    /// Events of this controller.
    pub events: Events,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// What is watched.
    pub caches: Caches,
    /// Wakes the machines of a policy that was realised.
    pub machines: Enqueue<VirtualMachine>,
}

/// Why a pass did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// vCenter can't be used now.
    #[error("{0}")]
    Provider(Problem),
    /// Something is missing or wrong, and somebody must act.
    #[error("{}", .0.message)]
    Unmet(Unmet),
    /// Machines are still in it.
    #[error("{0}")]
    Occupied(String),
    /// vCenter did not do it.
    #[error("{0}")]
    Vcenter(#[from] vsphere::Error),
    /// The cache is older than what the API server has.
    #[error(transparent)]
    Behind(Behind),
    /// The API server did not do it.
    #[error("API server: {0}")]
    Api(#[from] kube::Error),
}

impl Family for Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Provider(_) => Outcome::Waiting(None),
            Self::Unmet(unmet) => Outcome::Waiting(unmet.unwatched.then_some(OCCUPIED * 6)),
            Self::Occupied(_) => Outcome::Waiting(Some(OCCUPIED)),
            Self::Vcenter(_) => Outcome::Failed,
            Self::Behind(_) => Outcome::Waiting(Some(SOON)),
            Self::Api(error) => Outcome::of(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Provider(_) => "Provider",
            Self::Unmet(_) => "Unmet",
            Self::Occupied(_) => "Occupied",
            Self::Vcenter(_) => "Vcenter",
            Self::Behind(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}

/// Brings one policy's folder, pool and cluster modules to what the spec says.
pub async fn reconcile(
    policy: Arc<VirtualMachineSetResourcePolicy>,
    ctx: Arc<Context>,
) -> Result<Next, Error> {
    if pause::paused(&*policy) {
        return Ok(Next::OnChange);
    }
    if !is_current(&policy, &ctx).await? {
        return Err(Error::Behind(behind::<VirtualMachineSetResourcePolicy>(
            policy.metadata.namespace.as_deref(),
            &policy.name_any(),
        )));
    }
    if policy.metadata.deletion_timestamp.is_some() {
        let result = delete::delete(&policy, &ctx).await;
        if let Err(error) = &result {
            report(&policy, None, Some(error), &ctx).await?;
        }
        return result;
    }
    let policy = match ctx.api.add_finalizer(&*policy, finalizer::RESOURCE_POLICY).await? {
        Some(policy) => Arc::new(policy),
        None => policy,
    };
    let realised = realised(&policy, &ctx).await;
    report(&policy, realised.as_deref().ok(), realised.as_ref().err(), &ctx).await?;
    realised.map(|_| Next::OnChange)
}

/// Whether the API server itself has the policy, and its deletion, as the cache shows it; asked before anything is
/// made or destroyed, not while it is known to be realised.
async fn is_current(policy: &VirtualMachineSetResourcePolicy, ctx: &Context) -> Result<bool, Error> {
    let deleted = policy.metadata.deletion_timestamp.is_some();
    let key = key(policy.metadata.namespace.as_deref(), &policy.name_any());
    let known = ctx.provider.vcenter().is_ok_and(|vcenter| vcenter.realized_policies.of(&key).is_some());
    if known && !deleted {
        return Ok(true);
    }
    let live = ctx.api.live(policy).await?;
    Ok(live.is_some_and(|live| live.metadata.deletion_timestamp.is_some() == deleted))
}

async fn realised(
    policy: &VirtualMachineSetResourcePolicy,
    ctx: &Context,
) -> Result<Vec<RealizedPolicy>, Error> {
    let vcenter = ctx.provider.vcenter().map_err(Error::Provider)?;
    let namespace = policy.namespace().unwrap_or_default();
    let homes = homes(&namespace, &vcenter, ctx).map_err(Error::Unmet)?;
    let key = key(Some(&namespace), &policy.name_any());
    let realised = act::realised(policy, &homes, vcenter.realized_policies.of(&key), &vcenter, ctx).await?;
    if vcenter.realized_policies.set(&key, realised.clone()) {
        ctx.caches.vms_by_policy.refs(&key).into_iter().for_each(|vm| ctx.machines.enqueue(vm));
    }
    Ok(realised)
}

/// The namespace's own folders and pools: one for each of its zones.
fn homes(namespace: &str, vcenter: &VCenter, ctx: &Context) -> Need<Vec<Placement>> {
    placement::observe::homes(namespace, vcenter, &ctx.caches)
}

async fn report(
    policy: &VirtualMachineSetResourcePolicy,
    realised: Option<&[RealizedPolicy]>,
    error: Option<&Error>,
    ctx: &Context,
) -> Result<(), Error> {
    let old = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match error {
        Some(Error::Behind(_) | Error::Api(_)) => return Ok(()),
        Some(Error::Provider(problem)) if problem.is_transient() => return Ok(()),
        // A policy that is realised stays so while nobody can look.
        Some(Error::Provider(_))
            if policy.metadata.deletion_timestamp.is_none() && conditions::holds(old, READY) =>
        {
            return Ok(());
        }
        _ => {}
    }
    let mut status = status::status(policy, realised, error);
    status.conditions = kit::status::settle(old, status.conditions, jiff::Timestamp::now());
    if ctx.api.patch_status(policy, &status).await? {
        ctx.events.transitions(policy, old, &status.conditions, |condition| {
            condition.severity.as_deref() == Some(api::conditions::ERROR)
        });
        if error.is_some() {
            // Machines that wait for it say why it does not come.
            let key = key(policy.metadata.namespace.as_deref(), &policy.name_any());
            ctx.caches.vms_by_policy.refs(&key).into_iter().for_each(|vm| ctx.machines.enqueue(vm));
        }
    }
    Ok(())
}
