//! Creates a policy's folder, pool and cluster modules in vCenter, or finds them through the policy's ledger.

use std::collections::BTreeSet;

use api::conditions::vmop as known;
use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use vsphere::MoRef;

use crate::policy::children::{ChildSettings, WantedChild, realize_children};
use crate::policy::context::{Context, Error};
use crate::policy::ledger::{ChildKind, Ledger};
use crate::policy::ledger_store::Annotation;
use crate::policy::modules;
use crate::policy::pool::{allocations, keep_allocations};
use crate::unmet::Unmet;
use crate::vcenter::{LONGEST_NAME, Placement, RealizedPolicy, VCenter, is_vcenter_name};

/// Creates the policy's missing folders, pools and cluster modules in each of the namespace's `placements`.
///
/// Returns `known` without a call to vCenter if this process already realized the current spec in these placements.
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
    let mut ledger = Ledger::read(policy);
    let mut book = Annotation::new(policy, ctx);
    let mut wanted = Vec::new();
    for parent in placements {
        wanted.extend(wanted_folder(policy, parent));
        wanted.extend(wanted_pool(policy, parent, vcenter).await?);
    }
    // Pools in one zone share a folder, so each parent gets one child.
    let mut seen = BTreeSet::new();
    wanted.retain(|child| seen.insert(child.parent.clone()));
    let made = realize_children(&wanted, &mut ledger, &mut book, vcenter).await?;
    for (child, moref) in wanted.iter().zip(&made) {
        if let ChildSettings::Pool(cpu, memory) = child.form {
            keep_allocations(moref, cpu, memory, vcenter).await?;
        }
    }
    let child = |kind, parent: &MoRef| {
        let of = |(child, _): &(&WantedChild, &MoRef)| child.kind() == kind && child.parent == *parent;
        wanted.iter().zip(&made).find(of).map_or_else(|| parent.clone(), |(_, moref)| moref.clone())
    };
    let mut realized = Vec::new();
    for parent in placements {
        let placement = Placement {
            folder: child(ChildKind::Folder, &parent.folder),
            pool: child(ChildKind::ResourcePool, &parent.pool),
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
    let mut made = modules::create_missing(&wanted, ledger, &mut book, vcenter).await?;
    for realized in &mut realized {
        realized.modules = made.remove(realized.cluster.id()).unwrap_or_default();
    }
    Ok(realized)
}

fn wanted_folder(policy: &VirtualMachineSetResourcePolicy, parent: &Placement) -> Option<WantedChild> {
    let name = folder_name(policy)?;
    Some(wanted_child(policy, &parent.folder, name, ChildSettings::Folder))
}

async fn wanted_pool(
    policy: &VirtualMachineSetResourcePolicy,
    parent: &Placement,
    vcenter: &VCenter,
) -> Result<Option<WantedChild>, Error> {
    let Some(name) = pool_name(policy) else { return Ok(None) };
    let (cpu, memory) = allocations(policy, parent, vcenter).await?;
    Ok(Some(wanted_child(policy, &parent.pool, name, ChildSettings::Pool(cpu, memory))))
}

fn wanted_child(
    policy: &VirtualMachineSetResourcePolicy,
    parent: &MoRef,
    name: &str,
    form: ChildSettings,
) -> WantedChild {
    let suffix = api::names::hash([policy.namespace().unwrap_or_default(), policy.name_any()]);
    let alternative = api::names::joined(name, &format!("-{suffix}"), LONGEST_NAME);
    WantedChild { parent: parent.clone(), name: name.to_owned(), alternative, form }
}

/// Rejects names that vCenter doesn't accept for a folder or pool.
pub fn check_names(policy: &VirtualMachineSetResourcePolicy) -> Result<(), Error> {
    let named = [("spec.folder.name", folder_name(policy)), ("spec.resourcepool.name", pool_name(policy))];
    let refused = named.into_iter().find(|(_, name)| name.is_some_and(|name| !is_vcenter_name(name)));
    let Some((field, Some(name))) = refused else { return Ok(()) };
    let length = name.chars().count();
    let message = format!(
        "{field} has {length} characters: in vCenter a name has 1 to {LONGEST_NAME} characters, not only blanks. Correct it"
    );
    Err(Unmet::wrong(known::INVALID_SPEC, message).into())
}

/// Returns the folder name, or `None` if VMs use the namespace's folder.
fn folder_name(policy: &VirtualMachineSetResourcePolicy) -> Option<&str> {
    policy.spec.folder.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// Returns the pool name, or `None` if VMs use the namespace's pool.
fn pool_name(policy: &VirtualMachineSetResourcePolicy) -> Option<&str> {
    policy.spec.resource_pool.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_and_a_pool_have_names_that_vcenter_takes() {
        let check = |folder: &str, pool: &str| {
            let spec = serde_json::json!({ "folder": { "name": folder }, "resourcepool": { "name": pool } });
            let policy = VirtualMachineSetResourcePolicy::new("p", serde_json::from_value(spec).unwrap());
            check_names(&policy).map_err(|error| error.to_string())
        };
        let long = "n".repeat(81);
        assert_eq!(check("web", ""), Ok(()));
        assert_eq!(check(&long[1..], "a/b"), Ok(()));
        assert!(check(&long, "web").unwrap_err().contains("spec.folder.name has 81 characters"));
        assert!(check("web", " ").unwrap_err().contains("spec.resourcepool.name"));
    }
}
