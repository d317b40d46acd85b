//! Makes a policy's folder and pool in vCenter, or finds them by their names.

use api::vmop::VirtualMachineSetResourcePolicy;
use vsphere::{Allocation, Kind, MoRef};

use super::Error;
use crate::machine::needs::{self, Unmet};
use crate::provider::{Place, Site};

/// What a policy is in vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realised {
    /// Folder and pool.
    pub place: Place,
    /// The vSphere cluster of the pool.
    pub cluster: MoRef,
}

/// The policy's folder and pool exist below `home`; `known` are those that are known to.
pub async fn realised(
    policy: &VirtualMachineSetResourcePolicy,
    home: &Place,
    known: Option<Place>,
    site: &Site,
) -> Result<Realised, Error> {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    let current = observed == policy.metadata.generation;
    let place = match known.filter(|_| current) {
        Some(place) => place,
        None => Place {
            folder: folder(policy, home, site).await?,
            pool: pool(policy, home, current, site).await?,
        },
    };
    let cluster = site.cluster(&home.pool).await?;
    Ok(Realised { place, cluster })
}

async fn folder(policy: &VirtualMachineSetResourcePolicy, home: &Place, site: &Site) -> Result<MoRef, Error> {
    let Some(name) = folder_name(policy) else { return Ok(home.folder.clone()) };
    let made = made_once(policy);
    if made && let Some(found) = site.client.find_child(&home.folder, name).await? {
        return of_kind(found, "Folder", name);
    }
    match site.client.create_folder(&home.folder, name).await {
        Ok(folder) => Ok(folder),
        Err(error) => of_kind(holder(error, &home.folder, name, site).await?, "Folder", name),
    }
}

async fn pool(
    policy: &VirtualMachineSetResourcePolicy,
    home: &Place,
    current: bool,
    site: &Site,
) -> Result<MoRef, Error> {
    let Some(name) = pool_name(policy) else { return Ok(home.pool.clone()) };
    let (cpu, memory) = allocations(policy, home, site).await?;
    let found = if made_once(policy) { site.client.find_child(&home.pool, name).await? } else { None };
    let found = match found {
        Some(found) => found,
        None => match site.client.create_resource_pool(&home.pool, name, cpu, memory).await {
            Ok(pool) => return Ok(pool),
            Err(error) => holder(error, &home.pool, name, site).await?,
        },
    };
    let found = of_kind(found, "ResourcePool", name)?;
    if !current {
        site.client.update_resource_pool(&found, cpu, memory).await?;
    }
    Ok(found)
}

/// Whoever has the name already, when that is why the call failed.
async fn holder(error: vsphere::Error, parent: &MoRef, name: &str, site: &Site) -> Result<MoRef, Error> {
    match error.kind() {
        Kind::DuplicateName { holder: Some(holder), .. } => Ok(holder.clone()),
        Kind::DuplicateName { holder: None, .. } => {
            Ok(site.client.find_child(parent, name).await?.ok_or(error)?)
        }
        _ => Err(error.into()),
    }
}

fn of_kind(found: MoRef, kind: &str, name: &str) -> Result<MoRef, Error> {
    if found.kind() == kind {
        return Ok(found);
    }
    let message = format!(
        "The name {name} is taken in vCenter by a {} ({}). Rename that, or give the policy another name",
        found.kind(),
        found.id()
    );
    Err(Error::Unmet(Unmet::in_vcenter("NameTaken", message)))
}

async fn allocations(
    policy: &VirtualMachineSetResourcePolicy,
    home: &Place,
    site: &Site,
) -> Result<(Allocation, Allocation), Error> {
    let pool = policy.spec.resource_pool.as_ref();
    let requests = pool.and_then(|pool| pool.reservations.as_ref());
    let limits = pool.and_then(|pool| pool.limits.as_ref());
    let megahertz = if [requests, limits].into_iter().flatten().any(needs::in_cores) {
        site.megahertz(&home.pool).await?
    } else {
        0
    };
    needs::allocations(requests, limits, megahertz)
        .map_err(|error| Error::Unmet(Unmet::wrong("InvalidSpec", format!("spec.resourcepool: {error}"))))
}

/// Whether the policy was realised once, so that a look is likelier to succeed than a second making.
fn made_once(policy: &VirtualMachineSetResourcePolicy) -> bool {
    policy.status.as_ref().is_some_and(|status| status.folder_mo_id.is_some())
}

/// The folder's name; `None` where machines lie in the namespace's own.
pub fn folder_name(policy: &VirtualMachineSetResourcePolicy) -> Option<&str> {
    policy.spec.folder.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// The pool's name; `None` where machines run in the namespace's own.
pub fn pool_name(policy: &VirtualMachineSetResourcePolicy) -> Option<&str> {
    policy.spec.resource_pool.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}
