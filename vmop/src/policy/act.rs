//! Makes a policy's folder and pool in vCenter, or finds them by their names.

use std::collections::BTreeSet;

use api::vmop::VirtualMachineSetResourcePolicy;
use vsphere::{Kind, MoRef};

use crate::policy::context::{Context, Error};
use crate::policy::ledger::Ledger;
use crate::policy::modules;
use crate::policy::pool::{allocations, keep_allocations};
use crate::unmet::Unmet;
use crate::vcenter::{Placement, RealizedPolicy, VCenter};

/// Has the policy's folders, pools and cluster modules exist, below each of the `placements` of its namespace.
///
/// What this process has realized for the spec as it is costs no call.
pub async fn realize(
    policy: &VirtualMachineSetResourcePolicy,
    placements: &[Placement],
    known: Option<Vec<RealizedPolicy>>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Vec<RealizedPolicy>, Error> {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    let current = observed == policy.metadata.generation;
    let same = |known: &Vec<RealizedPolicy>| {
        known.iter().map(|realized| &realized.namespace_placement).eq(placements)
    };
    if let Some(known) = known.filter(|known| current && same(known)) {
        return Ok(known);
    }
    let mut realized = Vec::new();
    for parent in placements {
        let placement = Placement {
            folder: folder(policy, parent, vcenter).await?,
            pool: pool(policy, parent, vcenter).await?,
        };
        let cluster = vcenter.cluster(&parent.pool).await?;
        realized.push(RealizedPolicy {
            namespace_placement: parent.clone(),
            placement,
            cluster,
            modules: [].into(),
        });
    }
    let clusters: BTreeSet<_> = realized.iter().map(|realized| realized.cluster.clone()).collect();
    let wanted = modules::wanted(policy, &clusters);
    let mut book = modules::Annotation::new(policy, ctx);
    let mut made = modules::create_missing(&wanted, Ledger::read(policy), &mut book, vcenter).await?;
    for realized in &mut realized {
        realized.modules = made.remove(realized.cluster.id()).unwrap_or_default();
    }
    Ok(realized)
}

async fn folder(
    policy: &VirtualMachineSetResourcePolicy,
    parent: &Placement,
    vcenter: &VCenter,
) -> Result<MoRef, Error> {
    let Some(name) = folder_name(policy) else { return Ok(parent.folder.clone()) };
    // A look comes first: one that was carried here from another cluster has been made, and nothing here says so.
    if let Some(found) = vcenter.client.find_child(&parent.folder, name).await? {
        return require_kind(found, "Folder", name);
    }
    match vcenter.client.create_folder(&parent.folder, name).await {
        Ok(folder) => Ok(folder),
        Err(error) => require_kind(find_holder(error, &parent.folder, name, vcenter).await?, "Folder", name),
    }
}

async fn pool(
    policy: &VirtualMachineSetResourcePolicy,
    parent: &Placement,
    vcenter: &VCenter,
) -> Result<MoRef, Error> {
    let Some(name) = pool_name(policy) else { return Ok(parent.pool.clone()) };
    let (cpu, memory) = allocations(policy, parent, vcenter).await?;
    let found = match vcenter.client.find_child(&parent.pool, name).await? {
        Some(found) => found,
        None => match vcenter.client.create_resource_pool(&parent.pool, name, cpu, memory).await {
            Ok(pool) => return Ok(pool),
            Err(error) => find_holder(error, &parent.pool, name, vcenter).await?,
        },
    };
    let found = require_kind(found, "ResourcePool", name)?;
    keep_allocations(&found, cpu, memory, vcenter).await?;
    Ok(found)
}

/// Whoever has the name already, when that is why the call failed.
async fn find_holder(
    error: vsphere::Error,
    parent: &MoRef,
    name: &str,
    vcenter: &VCenter,
) -> Result<MoRef, Error> {
    match error.kind() {
        Kind::DuplicateName { holder: Some(holder), .. } => Ok(holder.clone()),
        Kind::DuplicateName { holder: None, .. } => {
            Ok(vcenter.client.find_child(parent, name).await?.ok_or(error)?)
        }
        _ => Err(error.into()),
    }
}

fn require_kind(found: MoRef, kind: &str, name: &str) -> Result<MoRef, Error> {
    if found.kind() == kind {
        return Ok(found);
    }
    let message = format!(
        "The name {name} is taken in vCenter by a {} ({}). Rename that, or give the policy another name",
        found.kind(),
        found.id()
    );
    Err(Unmet::in_vcenter("NameTaken", message).into())
}

/// The folder's name; `None` where VMs lie in the namespace's own.
pub fn folder_name(policy: &VirtualMachineSetResourcePolicy) -> Option<&str> {
    policy.spec.folder.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// The pool's name; `None` where VMs run in the namespace's own.
pub fn pool_name(policy: &VirtualMachineSetResourcePolicy) -> Option<&str> {
    policy.spec.resource_pool.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}
