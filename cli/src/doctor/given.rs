//! Collects the objects that the checked files create, because other objects in the files may depend on them.

use std::collections::BTreeSet;

use gcm::sync::namespace::assigned_classes;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::Value;

use crate::kube::apply::key;

/// The namespaces, classes and storage that the checked files create.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) namespaces: BTreeSet<String>,
    /// The bound VM classes, as pairs of namespace and class.
    pub(super) classes: Vec<(String, String)>,
    /// The VM classes that the files create.
    pub(super) new_classes: BTreeSet<String>,
    /// The assigned storage classes, as pairs of namespace and class.
    pub(super) storage: Vec<(String, String)>,
}

impl Given {
    /// Collects the namespaces, classes and storage from the files' objects.
    pub(super) fn of(objects: &[Value]) -> Self {
        let mut given = Self::default();
        for object in objects {
            let text =
                |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            match text("/kind").as_str() {
                "Namespace" => drop(given.namespaces.insert(text("/metadata/name"))),
                "VirtualMachineClass" => drop(given.new_classes.insert(text("/metadata/name"))),
                "VirtualMachineClassBinding" => {
                    given.classes.push((key(object).0, text("/classRef/name")));
                }
                "ResourceQuota" => {
                    let quota = serde_json::from_value::<ResourceQuota>(object.clone()).unwrap_or_default();
                    let hard = quota.spec.and_then(|spec| spec.hard).unwrap_or_default();
                    let pairs = assigned_classes(&hard).into_iter().map(|class| (key(object).0, class));
                    given.storage.extend(pairs);
                }
                _ => {}
            }
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_create_is_taken_as_given() {
        let text = "
apiVersion: v1
kind: Namespace
metadata: {name: machines}
---
apiVersion: vmoperator.vmware.com/v1alpha1
kind: VirtualMachineClass
metadata: {name: small}
---
apiVersion: vmoperator.vmware.com/v1alpha1
kind: VirtualMachineClassBinding
metadata: {name: small, namespace: machines}
classRef: {kind: VirtualMachineClass, name: small}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: storage, namespace: machines}
spec: {hard: {gold.storageclass.storage.k8s.io/requests.storage: 1Ti}}
";
        let pair = |class: &str| vec![("machines".to_owned(), class.to_owned())];
        let expected = Given {
            namespaces: BTreeSet::from(["machines".to_owned()]),
            classes: pair("small"),
            new_classes: BTreeSet::from(["small".to_owned()]),
            storage: pair("gold"),
        };
        assert_eq!(Given::of(&crate::doctor::manifest::objects(text)), expected);
    }
}
