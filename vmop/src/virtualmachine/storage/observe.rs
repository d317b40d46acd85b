//! What is known of the storage of a VM: the datastore for its disks, and the disks that it has.

use std::sync::Arc;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use vsphere::{Devices, Vm};

use super::class::{Storage, check_class, unknown_policy};
use crate::caches::Caches;
use crate::unmet::{Need, Unmet};
use crate::vcenter::storage::DatastoreChoice;
use crate::vcenter::{Placement, VCenter};
use crate::virtualmachine::placement::namespace::namespace_zones;

/// The disks of a VM that exists, and what further ones would lie on.
#[derive(Clone, Debug)]
pub struct DiskFacts {
    /// What the VM has.
    pub devices: Arc<Devices>,
    /// What further disks would lie on.
    pub storage: Need<Storage>,
}

/// The storage class's policy, and a datastore that satisfies it.
pub async fn observe_storage(
    vm: &VirtualMachine,
    placement: &Placement,
    vcenter: &VCenter,
    caches: &Caches,
) -> Result<Need<Storage>, vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let class = caches.storage_classes.get(None, vm.spec.storage_class.as_deref().unwrap_or_default());
    let quotas = caches.quota_keys(&namespace);
    let required = vcenter.settings.storage_class_required;
    let policy = match check_class(vm, required, class.as_deref(), &quotas) {
        Ok(None) => None,
        Ok(Some(name)) => match vcenter.storage_policy(name).await? {
            Some(policy) => Some(policy),
            None => return Ok(Err(unknown_policy(vm, name, &vcenter.settings.address()))),
        },
        Err(unmet) => return Ok(Err(unmet)),
    };
    let owner = key(Some(&namespace), &vm.name_any());
    let zoned = !namespace_zones(&namespace, caches).is_empty();
    Ok(match vcenter.datastore_for(&owner, &placement.pool, policy.as_ref(), zoned).await? {
        DatastoreChoice::Any => Ok(Storage { policy, datastore: None }),
        DatastoreChoice::On(datastore) => Ok(Storage { policy, datastore: Some(datastore) }),
        DatastoreChoice::Unavailable(message) => Err(Unmet::in_vcenter(reason::DATASTORE_NOT_FOUND, message)),
    })
}

/// The disks of a VM that exists, and what further ones would lie on.
pub async fn observe_disks(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    vcenter: &VCenter,
    home: &Need<Placement>,
    caches: &Caches,
) -> Result<DiskFacts, vsphere::Error> {
    let devices = vcenter.devices(vsphere_vm).await?;
    let storage = match home {
        Ok(home) => observe_storage(vm, home, vcenter, caches).await?,
        Err(unmet) => Err(unmet.clone()),
    };
    Ok(DiskFacts { devices, storage })
}
