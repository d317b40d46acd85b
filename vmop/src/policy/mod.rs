//! VirtualMachineSetResourcePolicy: a folder, a resource pool and cluster modules for a set of VMs.
//!
//! The folder and the pool are created in the namespace's folder and pool, with the names in the spec if they are free.
//! The controller uses, changes and destroys only what the policy's [`ledger`] records.

mod act;
mod children;
#[cfg(test)]
mod children_tests;
mod context;
mod delete;
mod endpoint;
pub mod ledger;
mod ledger_store;
pub mod modules;
mod occupants;
mod pool;
mod remove_children;
pub mod status;
#[cfg(test)]
mod vcsim_tests;
mod whereabouts;

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, READY};
use api::names::finalizer;
use api::topology::AvailabilityZone;
use api::vmop::{VirtualMachine, VirtualMachineSetResourcePolicy, VirtualMachineSetResourcePolicyStatus};
use futures::Stream;
use kit::apply::Api;
use kit::events::Events;
use kit::expectations::stale_cache;
use kit::index::key;
use kit::reconcile::{DeletionProgress, ReconcileOutcome, Seen};
use kit::watch::Change;
use kit::{Controller, Next, Reconcile, Runtime};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::caches::Caches;
use crate::enqueue::Enqueue;
use crate::pause;
use crate::policy::context::{Context, Error};
use crate::policy::status::Realized;
use crate::vcenter::Provider;
use crate::virtualmachine::placement;
use crate::watches::{annotated_placement, name, namespace, to, when_changed};

/// The interval between lookups while another VM uses the policy's control plane endpoint.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(30);

/// Reconciles policies until the program ends. `enqueued` contains policies to reconcile for reasons outside the API
/// server.
pub fn run<Enqueued>(
    runtime: &Runtime,
    caches: &Caches,
    provider: &Arc<Provider>,
    vms: &Enqueue<VirtualMachine>,
    enqueued: Enqueued,
) -> impl Future<Output = ()> + use<Enqueued>
where
    Enqueued: Stream<Item = ObjectRef<VirtualMachineSetResourcePolicy>> + Send + 'static,
{
    let ctx = Context {
        api: Api::new(runtime, "vmop/policy"),
        events: Events::new(runtime, "vmop-policy"),
        provider: Arc::clone(provider),
        caches: caches.clone(),
        vms: vms.clone(),
    };
    let by_namespace = &caches.shared.policies.index(|policy| namespace(policy).into_iter().collect());
    let of_zone = |zone: &AvailabilityZone| zone.spec.namespaces.clone().into_keys();
    Controller::new("virtualmachinesetresourcepolicy", runtime, &caches.shared.policies)
        .watches_optional(&caches.shared.zones, to(by_namespace, namespace))
        .watches_optional(&caches.shared.availability_zones, to(by_namespace, of_zone))
        .watches_changes(&caches.shared.namespaces, when_changed(annotated_placement, to(by_namespace, name)))
        .watches_changes(&caches.vms, policy_of_deleted)
        .wakes_on(enqueued)
        .drive(ctx)
}

/// Returns the policy of a deleted VirtualMachine. A policy that is being deleted waits until its last VirtualMachine is gone.
fn policy_of_deleted(change: &Change<VirtualMachine>) -> Vec<ObjectRef<VirtualMachineSetResourcePolicy>> {
    let (Some(old), None) = (&change.old, &change.new) else { return Vec::new() };
    let policy = old.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty());
    let namespace = old.namespace().unwrap_or_default();
    policy.map(|name| ObjectRef::new(name).within(&namespace)).into_iter().collect()
}

/// Reconciles a policy: its folder, resource pool and cluster modules.
impl Reconcile for Context {
    type Kind = VirtualMachineSetResourcePolicy;
    type Facts = ();
    type Plan = ();
    type Done = Realized;
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(_policy: &VirtualMachineSetResourcePolicy, error: kube::Error) -> Error {
        error.into()
    }

    async fn gather(&self, policy: &Arc<VirtualMachineSetResourcePolicy>) -> Result<(), Error> {
        if pause::paused(&**policy) || is_current(policy, self).await? {
            return Ok(());
        }
        let (namespace, name) = (policy.namespace(), policy.name_any());
        Err(Error::StaleCache(stale_cache::<Self::Kind>(namespace.as_deref(), &name)))
    }

    fn is_paused(policy: &VirtualMachineSetResourcePolicy, (): &()) -> bool {
        pause::paused(policy)
    }

    fn plan(policy: &VirtualMachineSetResourcePolicy, (): &()) -> Result<(), Error> {
        act::check_names(policy)
    }

    async fn carry_out(
        &self,
        policy: &mut Arc<VirtualMachineSetResourcePolicy>,
        (): (),
        (): &(),
    ) -> Result<Realized, Error> {
        if let Some(marked) = self.api.add_finalizer(&**policy, finalizer::RESOURCE_POLICY).await? {
            *policy = Arc::new(marked);
        }
        realize(policy, self).await
    }

    async fn delete(
        &self,
        policy: &Arc<VirtualMachineSetResourcePolicy>,
        (): &(),
    ) -> Result<DeletionProgress<Realized>, Error> {
        delete::delete(policy, self).await.map(|()| DeletionProgress::Gone)
    }

    fn status(seen: &Seen<'_, Self>) -> Option<VirtualMachineSetResourcePolicyStatus> {
        let is_reported = match seen.outcome {
            ReconcileOutcome::Paused => false,
            ReconcileOutcome::Done(_) => true,
            ReconcileOutcome::Failed(error) => is_reported(seen, error),
        };
        is_reported.then(|| status::status(seen.object, seen.outcome.done(), seen.outcome.error()))
    }

    fn publish(&self, seen: &Seen<'_, Self>, new: Option<&VirtualMachineSetResourcePolicyStatus>) {
        let (policy, Some(new)) = (seen.object, new) else { return };
        self.events.transitions(policy, seen.old_conditions(), &new.conditions, |condition| {
            condition.severity.as_deref() == Some(api::conditions::ERROR)
        });
        if seen.outcome.error().is_some() {
            // VirtualMachines that wait for the policy report its error.
            let key = key(policy.metadata.namespace.as_deref(), &policy.name_any());
            self.caches.vms_by_policy.refs(&key).into_iter().for_each(|vm| self.vms.enqueue(vm));
        }
    }

    fn conclude(realized: Realized) -> Result<Next, Error> {
        let is_used = realized.endpoint.is_some_and(|endpoint| endpoint.used_by.is_some());
        Ok(if is_used { Next::After(LOOK_UP_AGAIN) } else { Next::OnChange })
    }
}

/// Returns true if the policy exists in the API server with the same deletion state as in the cache. Doesn't call the API
/// server if the policy is known to be realized and isn't being deleted.
async fn is_current(policy: &VirtualMachineSetResourcePolicy, ctx: &Context) -> Result<bool, Error> {
    let deleted = policy.metadata.deletion_timestamp.is_some();
    let key = key(policy.metadata.namespace.as_deref(), &policy.name_any());
    let known =
        ctx.provider.vcenter().is_ok_and(|vcenter| vcenter.realized_policies.undoubted(&key).is_some());
    if known && !deleted {
        return Ok(true);
    }
    let live = ctx.api.live(policy).await?;
    Ok(live.is_some_and(|live| live.metadata.deletion_timestamp.is_some() == deleted))
}

/// Realizes the policy in vCenter, and enqueues its VirtualMachines if something changed there.
async fn realize(policy: &VirtualMachineSetResourcePolicy, ctx: &Context) -> Result<Realized, Error> {
    let vcenter = ctx.provider.vcenter()?;
    let namespace = policy.namespace().unwrap_or_default();
    let placements = placement::namespace::namespace_placements(&namespace, &vcenter, &ctx.caches)?;
    let key = key(Some(&namespace), &policy.name_any());
    let places =
        act::realize(policy, &placements, vcenter.realized_policies.undoubted(&key), &vcenter, ctx).await?;
    if vcenter.realized_policies.set(&key, places.clone()) {
        ctx.caches.vms_by_policy.refs(&key).into_iter().for_each(|vm| ctx.vms.enqueue(vm));
    }
    let endpoint = endpoint::look_up(policy, &vcenter).await?;
    Ok(Realized { places, endpoint })
}

/// Returns true if the status shows the error. It doesn't show problems that resolve themselves within moments.
fn is_reported(seen: &Seen<'_, Context>, error: &Error) -> bool {
    let deleting = seen.object.metadata.deletion_timestamp.is_some();
    match error {
        Error::StaleCache(_) | Error::Api(_) => false,
        Error::Provider(problem) if problem.is_transient() => false,
        // A realized policy stays ready while vCenter can't be used.
        Error::Provider(_) => deleting || !conditions::holds(seen.old_conditions(), READY),
        Error::Own(_) | Error::Vcenter(_) => true,
    }
}
