//! Deletes a policy's modules, pool and folder once they are empty.
//!
//! Deletes only objects that the ledger records and that aren't in use: no VirtualMachine may refer to the policy, and the
//! folder and the pool must not contain VMs in vCenter at that moment.

use std::collections::BTreeSet;

use api::names::finalizer;
use api::vmop::VirtualMachineSetResourcePolicy;
use kit::index::key;
use kube::ResourceExt;
use vsphere::MoRef;

use crate::policy::context::{Context, Error, occupied};
use crate::policy::ledger::{Ledger, ModuleSlot};
use crate::policy::ledger_store::Annotation;
use crate::policy::modules;
use crate::policy::occupants::may_be_of;
use crate::policy::remove_children::remove_children;
use crate::vcenter::VCenter;
use crate::virtualmachine::placement;

/// Removes the finalizer once the pool and folder are deleted, or are in use by others.
pub async fn delete(policy: &VirtualMachineSetResourcePolicy, ctx: &Context) -> Result<(), Error> {
    if !policy.finalizers().iter().any(|there| there == finalizer::RESOURCE_POLICY) {
        return Ok(());
    }
    let namespace = policy.namespace().unwrap_or_default();
    let key = key(Some(&namespace), &policy.name_any());
    let users = ctx.caches.vms_by_policy.refs(&key).len();
    if users > 0 {
        return Err(occupied(format!("{users} VirtualMachines still use the policy. Delete them first")));
    }
    let vcenter = ctx.provider.vcenter()?;
    vcenter.realized_policies.forget(&key);
    let ledger = Ledger::read(policy);
    let book = Annotation::new(policy, ctx);
    let wanted = begun_modules(policy, &ledger, &vcenter, ctx).await?;
    modules::remove(&wanted, ledger.clone(), &book, &vcenter).await?;
    let may_be_own = |object: &MoRef| may_be_of(&namespace, object, &vcenter);
    remove_children(&ledger, &book, &may_be_own, &vcenter).await?;
    ctx.api.remove_finalizer(policy, finalizer::RESOURCE_POLICY).await?;
    let mut claimed = vcenter.claimed.lock();
    for id in ledger.ids() {
        claimed.remove(id);
    }
    Ok(())
}

/// Returns the slots whose modules may exist without a record, because their creation was interrupted.
async fn begun_modules(
    policy: &VirtualMachineSetResourcePolicy,
    ledger: &Ledger,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<BTreeSet<ModuleSlot>, Error> {
    let mut clusters = BTreeSet::new();
    if ledger.known.is_some() {
        let namespace = policy.namespace().unwrap_or_default();
        for parent in placement::namespace::namespace_placements(&namespace, vcenter, &ctx.caches)? {
            match vcenter.cluster(&parent.pool).await {
                Ok(cluster) => drop(clusters.insert(cluster)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(modules::wanted(policy, &clusters))
}
