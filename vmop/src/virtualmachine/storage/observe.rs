//! Reads the storage facts: the datastore and policy for a VM's disks, and its existing disks.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use vsphere::{Devices, StoragePolicy, Vm};

use super::class::{DiskStorage, Storage, check_class, list_further_classes, unknown_policy};
use crate::caches::Caches;
use crate::unmet::{Need, Unmet};
use crate::vcenter::storage::DatastoreChoice;
use crate::vcenter::{Placement, VCenter};
use crate::virtualmachine::placement::namespace::namespace_zones;

/// The disks of an existing VM, and the storage for new disks.
#[derive(Clone, Debug)]
pub struct DiskFacts {
    /// The VM's devices.
    pub devices: Arc<Devices>,
    /// The storage for new disks.
    pub storage: Need<Storage>,
}

/// Returns the storage policy and a datastore that satisfies it, for the VM and for each further storage class of its disks.
pub async fn observe_storage(
    vm: &VirtualMachine,
    placement: &Placement,
    vcenter: &VCenter,
    caches: &Caches,
) -> Result<Need<Storage>, vsphere::Error> {
    let class = vm.spec.storage_class.as_deref();
    let policy = match observe_policy(vm, class, vcenter, caches).await? {
        Ok(policy) => policy,
        Err(unmet) => return Ok(Err(unmet)),
    };
    let owner = owner(vm);
    let datastore =
        match vcenter.datastore_for(&owner, &placement.pool, policy.as_ref(), is_zoned(vm, caches)).await? {
            DatastoreChoice::Any => None,
            DatastoreChoice::On(datastore) => Some(datastore),
            DatastoreChoice::Unavailable(message) => return Ok(Err(unavailable(message))),
        };
    let mut storage = Storage { policy, datastore, of_classes: BTreeMap::new() };
    for class in list_further_classes(vm) {
        let further = match observe_policy(vm, Some(class), vcenter, caches).await? {
            Ok(policy) => resolve_further_storage(&owner, placement, policy, &storage, vcenter).await?,
            Err(unmet) => Err(unmet),
        };
        match further {
            Ok(further) => storage.of_classes.insert(class.to_owned(), further),
            Err(unmet) => return Ok(Err(unmet)),
        };
    }
    Ok(Ok(storage))
}

/// Returns the storage policy of a storage class, if the namespace may use the class.
async fn observe_policy(
    vm: &VirtualMachine,
    name: Option<&str>,
    vcenter: &VCenter,
    caches: &Caches,
) -> Result<Need<Option<StoragePolicy>>, vsphere::Error> {
    let class = caches.shared.storage_classes.get(None, name.unwrap_or_default());
    let quotas = caches.quota_keys(&vm.namespace().unwrap_or_default());
    let required = vcenter.settings.storage_class_required;
    Ok(match check_class(vm, required, name, class.as_deref(), &quotas) {
        Ok(None) => Ok(None),
        Ok(Some(policy)) => match vcenter.storage_policy(policy).await? {
            Some(policy) => Ok(Some(policy)),
            None => Err(unknown_policy(name.unwrap_or_default(), policy, &vcenter.settings.address())),
        },
        Err(unmet) => Err(unmet),
    })
}

/// Returns the storage for a disk with a different policy than its VM. The datastore is `None` if the VM's datastore fits.
async fn resolve_further_storage(
    owner: &str,
    placement: &Placement,
    policy: Option<StoragePolicy>,
    home: &Storage,
    vcenter: &VCenter,
) -> Result<Need<DiskStorage>, vsphere::Error> {
    if policy.is_none() || policy == home.policy {
        return Ok(Ok(DiskStorage { policy, datastore: None }));
    }
    // The template's datastore might not satisfy this policy, so a suitable datastore is chosen even without zones.
    Ok(match vcenter.datastore_for(owner, &placement.pool, policy.as_ref(), true).await? {
        DatastoreChoice::Any => Ok(DiskStorage { policy, datastore: None }),
        DatastoreChoice::On(chosen) if home.datastore.as_ref() == Some(&chosen) => {
            Ok(DiskStorage { policy, datastore: None })
        }
        DatastoreChoice::On(chosen) => {
            let datastore = vcenter.datastore_name(&placement.pool, &chosen).await?;
            Ok(DiskStorage { policy, datastore })
        }
        DatastoreChoice::Unavailable(message) => Err(unavailable(message)),
    })
}

fn owner(vm: &VirtualMachine) -> String {
    key(vm.metadata.namespace.as_deref(), &vm.name_any())
}

fn is_zoned(vm: &VirtualMachine, caches: &Caches) -> bool {
    !namespace_zones(&vm.namespace().unwrap_or_default(), caches).is_empty()
}

fn unavailable(message: String) -> Unmet {
    Unmet::in_vcenter(reason::DATASTORE_NOT_FOUND, message)
}

/// Reads the disks of an existing VM, and the storage for new disks.
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
