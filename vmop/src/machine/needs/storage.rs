//! The storage class of a machine.

use std::collections::BTreeSet;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use kube::ResourceExt;

use super::{Need, Unmet};

/// The storage class exists and the namespace was given it by a quota.
pub fn storage(vm: &VirtualMachine, required: bool, exists: bool, quotas: &BTreeSet<String>) -> Need<()> {
    let namespace = vm.namespace().unwrap_or_default();
    let Some(name) = vm.spec.storage_class.as_deref().filter(|name| !name.is_empty()) else {
        if required {
            let message = "spec.storageClass is empty, and the provider configuration requires one. Set it";
            return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
        }
        return Ok(());
    };
    if !exists {
        let message = format!("StorageClass {name} does not exist. Create it, or name another");
        return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
    }
    let prefix = format!("{name}.storageclass.storage.k8s.io/");
    if !quotas.iter().any(|key| key.starts_with(&prefix)) {
        let message = format!(
            "StorageClass {name} is not assigned to namespace {namespace}. Give a ResourceQuota there the hard key {prefix}requests.storage"
        );
        return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
    }
    Ok(())
}
