//! The end of a policy: its modules, its pool and its folder go once nothing is in them.
//!
//! vCenter destroys a folder with everything in it. So nobody may be in it: no object of ours that
//! names the policy, and no VM that vCenter shows there at this moment.

use std::collections::BTreeSet;

use api::names::{annotation, finalizer};
use api::vmop::VirtualMachineSetResourcePolicy;
use kit::Next;
use kit::index::key;
use kube::ResourceExt;
use vsphere::inventory::{Configuration, Presence};
use vsphere::{MoRef, Vm};

use crate::policy::act::{folder_name, pool_name};
use crate::policy::context::{Context, Error, occupied};
use crate::policy::ledger::Ledger;
use crate::policy::modules;
use crate::vcenter::{VCenter, mark};
use crate::virtualmachine::placement;

/// Lets the object go once its pool and folder are gone, or are somebody else's too.
pub async fn delete(policy: &VirtualMachineSetResourcePolicy, ctx: &Context) -> Result<Next, Error> {
    let moved = policy.annotations().contains_key(annotation::DELETE_FOR_MOVE);
    let ours = policy.finalizers().iter().any(|there| there == finalizer::RESOURCE_POLICY);
    if moved || !ours {
        return Ok(Next::OnChange);
    }
    let namespace = policy.namespace().unwrap_or_default();
    let key = key(Some(&namespace), &policy.name_any());
    let users = ctx.caches.vms_by_policy.refs(&key).len();
    if users > 0 {
        return Err(occupied(format!("{users} VirtualMachines still use the policy. Delete them first")));
    }
    let vcenter = ctx.provider.vcenter()?;
    vcenter.realized_policies.forget(&key);
    let placements =
        placement::namespace::namespace_placements(&namespace, &vcenter, &ctx.caches).unwrap_or_default();
    let mut clusters = BTreeSet::new();
    for parent in &placements {
        match vcenter.cluster(&parent.pool).await {
            Ok(cluster) => drop(clusters.insert(cluster)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let wanted = modules::wanted(policy, &clusters);
    let book = modules::Annotation::new(policy, ctx);
    modules::remove(&wanted, Ledger::read(policy), &book, &vcenter).await?;
    for parent in &placements {
        if let Some(name) = pool_name(policy) {
            remove_child(&parent.pool, name, "vm", "resourcePool", &namespace, &vcenter).await?;
        }
        if let Some(name) = folder_name(policy) {
            remove_child(&parent.folder, name, "childEntity", "childEntity", &namespace, &vcenter).await?;
        }
    }
    ctx.api.remove_finalizer(policy, finalizer::RESOURCE_POLICY).await?;
    Ok(Next::OnChange)
}

/// Destroys the child of that name; one that others use stays.
async fn remove_child(
    parent: &MoRef,
    name: &str,
    vms: &str,
    children: &str,
    namespace: &str,
    vcenter: &VCenter,
) -> Result<(), Error> {
    let Some(child) = vcenter.client.find_child(parent, name).await? else { return Ok(()) };
    if !matches!(child.kind(), "Folder" | "ResourcePool") {
        return Ok(());
    }
    let read = match vcenter.client.retrieve(std::slice::from_ref(&child), &[vms, children]).await {
        Ok(read) => read,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let inside: Vec<_> = read
        .iter()
        .flat_map(|object| object.get(vms).items().iter().chain(object.get(children).items()))
        .filter_map(|item| item.as_moref().cloned())
        .collect();
    if inside.iter().any(|object| ours(object, namespace, vcenter)) {
        return Err(occupied(format!("VMs are still in {name} ({child}) in vCenter")));
    }
    if !inside.is_empty() {
        tracing::info!(%child, "others use it: it stays");
        return Ok(());
    }
    let done = async {
        let task = vcenter.client.destroy(&child).await?;
        vcenter.inventory.wait_for_task(&task).await
    };
    match done.await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn ours(object: &MoRef, namespace: &str, vcenter: &VCenter) -> bool {
    let owned = |vm: &Vm| {
        mark::owner(vm, &vcenter.settings.stack)
            .is_some_and(|owner| owner.namespace.as_deref() == Some(namespace))
    };
    match vcenter.inventory.vm(object) {
        Presence::Present(vm) => owned(&vm),
        // One that was never read may be any.
        Presence::Unavailable(vm) => owned(&vm) || vm.configuration == Configuration::NeverRead,
        Presence::Absent | Presence::Unknown => false,
    }
}
