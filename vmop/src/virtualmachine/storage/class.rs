//! The storage class of a VM, its storage policy and the resulting storage for disks.

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use vsphere::{MoRef, StoragePolicy};

use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::storage::PolicyName;

/// The storage for a VM's disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    pub policy: Option<StoragePolicy>,
    /// The datastore; `None` keeps the template's datastore.
    pub datastore: Option<MoRef>,
    /// The storage for disks whose storage class differs from the VM's, by class name.
    pub of_classes: BTreeMap<String, DiskStorage>,
}

/// The storage for a disk whose storage class differs from its VM's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskStorage {
    pub policy: Option<StoragePolicy>,
    /// The datastore name; `None` means the VM's datastore.
    pub datastore: Option<String>,
}

impl Storage {
    /// Returns the storage for a new disk with this class. The default is the VM's own storage.
    pub fn of_class(&self, class: Option<&str>) -> DiskStorage {
        let own = || DiskStorage { policy: self.policy.clone(), datastore: None };
        class.and_then(|class| self.of_classes.get(class)).cloned().unwrap_or_else(own)
    }
}

/// Returns the storage classes of new disks that differ from the VM's class.
pub fn list_further_classes(vm: &VirtualMachine) -> BTreeSet<&str> {
    let own = vm.spec.storage_class.as_deref().unwrap_or_default();
    let named =
        vm.spec.volumes.iter().filter_map(|volume| volume.v_sphere_volume.as_ref()?.storage_class.as_deref());
    named.filter(|class| !class.is_empty() && *class != own).collect()
}

/// Checks that the storage class exists and that a quota assigns it to the namespace, and returns the class's policy. Without a
/// class, returns `None`, or an unmet need if a class is `required`.
pub fn check_class<'a>(
    vm: &VirtualMachine,
    required: bool,
    name: Option<&str>,
    class: Option<&'a StorageClass>,
    quotas: &BTreeSet<String>,
) -> Need<Option<PolicyName<'a>>> {
    let namespace = vm.namespace().unwrap_or_default();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        if required {
            let message = "spec.storageClass is empty, and the provider configuration requires one. Set it";
            return Err(Unmet::wrong(reason::STORAGE_CLASS_REQUIRED, message));
        }
        return Ok(None);
    };
    let Some(class) = class else {
        let message = format!("StorageClass {name} does not exist. Create it, or use another class");
        return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
    };
    let prefix = format!("{name}.storageclass.storage.k8s.io/");
    if !quotas.iter().any(|key| key.starts_with(&prefix)) {
        let message = format!(
            "StorageClass {name} is not assigned to namespace {namespace}. Add the hard limit {prefix}requests.storage to a ResourceQuota there"
        );
        return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
    }
    Ok(find_policy(class))
}

/// Returns the storage policy of a class, by ID or else by name. Parameter names are case-insensitive, as in the CSI drivers.
pub fn find_policy(class: &StorageClass) -> Option<PolicyName<'_>> {
    let parameters = class.parameters.as_ref()?;
    let given = |wanted: &str| {
        let named = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted));
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    };
    given("storagePolicyID").map(PolicyName::Id).or_else(|| given("storagePolicyName").map(PolicyName::Name))
}

/// Returns the error for a policy that doesn't exist in vCenter.
pub fn unknown_policy(class: &str, name: PolicyName<'_>, vcenter: &str) -> Unmet {
    let message = format!(
        "StorageClass {class} uses storage policy {name}, which does not exist in vCenter {vcenter}. Create the policy, or correct the parameters of the class"
    );
    Unmet::in_vcenter(reason::STORAGE_NOT_READY, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_stands_for_the_policy_of_its_parameters() {
        let class = |parameters: serde_json::Value| -> StorageClass {
            let fields = serde_json::json!({ "metadata": { "name": "gold" }, "provisioner": "x" });
            let mut class: StorageClass = serde_json::from_value(fields).unwrap();
            class.parameters = serde_json::from_value(parameters).unwrap();
            class
        };
        for (parameters, expected) in [
            (serde_json::json!({ "storagePolicyID": "aa-1" }), Some(PolicyName::Id("aa-1"))),
            (serde_json::json!({ "storagepolicyname": "Gold" }), Some(PolicyName::Name("Gold"))),
            (
                serde_json::json!({ "storagePolicyName": "Gold", "storagepolicyid": "aa-1" }),
                Some(PolicyName::Id("aa-1")),
            ),
            (serde_json::json!({ "storagePolicyName": "" }), None),
            (serde_json::json!({}), None),
        ] {
            assert_eq!(find_policy(&class(parameters.clone())), expected, "{parameters}");
        }
    }
}
