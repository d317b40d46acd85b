//! Watches objects in all namespaces, and extracts the facts that concern the clusters of a namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::Runtime;
use kit::index::Index;
use kit::watch::{self, Cache};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::Deserialize;

use super::role_bindings::makes_administrators;
use super::supervisor::{CLUSTER_INFO, SupervisorEndpoint, of_cluster_info};
use super::wanted::ObjectProblem;

/// The separator between the storage class name and the resource in quota keys.
pub const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// A ResourceQuota's limits, without selectors and usage, because usage changes frequently.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ResourceQuota)]
pub struct QuotaLimits {
    /// The metadata of the quota.
    pub metadata: ObjectMeta,
    spec: Option<Limits>,
}

#[derive(Clone, Debug, Deserialize)]
struct Limits {
    hard: Option<BTreeMap<String, Quantity>>,
}

impl QuotaLimits {
    /// Returns the storage classes that the quota assigns to its namespace.
    pub fn assigned_classes(&self) -> BTreeSet<String> {
        let hard = self.spec.as_ref().and_then(|spec| spec.hard.as_ref());
        hard.map(assigned_classes).unwrap_or_default()
    }
}

/// Returns the storage classes that have a limit above zero in `hard`.
pub fn assigned_classes(hard: &BTreeMap<String, Quantity>) -> BTreeSet<String> {
    let is_some = |amount: &Quantity| api::Quantity(amount.0.clone()).millis().is_ok_and(|amount| amount > 0);
    let classes = hard.iter().filter(|(_, amount)| is_some(amount));
    classes
        .filter_map(|(key, _)| key.split_once(OF_STORAGE_CLASS))
        .map(|(class, _)| class.to_owned())
        .collect()
}

/// The caches of all namespaces' objects that affect workload clusters.
#[derive(Clone)]
pub struct NamespaceCaches {
    pub quotas: Cache<QuotaLimits>,
    /// The storage classes of the management cluster.
    pub storage_classes: Cache<StorageClass>,
    pub role_bindings: Cache<RoleBinding>,
    /// kubeadm's public ConfigMap about the management cluster.
    pub cluster_info: Cache<ConfigMap>,
    supervisor: Option<SupervisorEndpoint>,
    quotas_of: Index<QuotaLimits>,
    role_bindings_of: Index<RoleBinding>,
}

impl NamespaceCaches {
    /// Starts the watches. Without `supervisor`, the management cluster's address is read from the ConfigMap cluster-info.
    pub fn start(runtime: &Runtime, supervisor: Option<SupervisorEndpoint>) -> Self {
        let client = || runtime.client.clone();
        let quotas: Cache<QuotaLimits> = watch::objects(runtime, Api::all(client()));
        let role_bindings: Cache<RoleBinding> = watch::objects(runtime, Api::all(client()));
        let named = watcher::Config::default().fields(&format!("metadata.name={}", CLUSTER_INFO.1));
        Self {
            quotas_of: quotas.index(|quota| quota.namespace().into_iter().collect()),
            role_bindings_of: role_bindings.index(|binding| {
                binding.namespace().filter(|_| makes_administrators(binding)).into_iter().collect()
            }),
            quotas,
            cluster_info: watch::selected(runtime, Api::namespaced(client(), CLUSTER_INFO.0), named),
            supervisor,
            storage_classes: watch::objects(runtime, Api::all(client())),
            role_bindings,
        }
    }

    /// Returns the facts that concern the clusters in a namespace.
    pub fn facts(&self, namespace: &str) -> NamespaceFacts {
        let quotas = self.quotas_of.objects(namespace);
        let assigned = quotas.iter().flat_map(|quota| quota.assigned_classes());
        NamespaceFacts {
            classes: assigned.map(|name| (name.clone(), self.storage_classes.get(None, &name))).collect(),
            role_bindings: self.role_bindings_of.objects(namespace),
            supervisor: self.supervisor.map(Ok).or_else(|| self.found_supervisor()),
        }
    }

    fn found_supervisor(&self) -> Option<Result<SupervisorEndpoint, ObjectProblem>> {
        of_cluster_info(&*self.cluster_info.get(Some(CLUSTER_INFO.0), CLUSTER_INFO.1)?)
    }
}

/// The facts about a namespace that concern its clusters.
#[derive(Clone, Default)]
pub struct NamespaceFacts {
    /// The storage classes assigned to the namespace, by name, each with its object if it exists in the management cluster.
    pub classes: BTreeMap<String, Option<Arc<StorageClass>>>,
    /// The role bindings that create administrators.
    pub role_bindings: Vec<Arc<RoleBinding>>,
    /// The address at which workload clusters reach the management cluster, or the problem that prevents its use. `None` if
    /// unknown.
    pub supervisor: Option<Result<SupervisorEndpoint, ObjectProblem>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_is_assigned_by_a_limit_that_leaves_something() {
        let quota: QuotaLimits = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"},
            "spec": {"hard": {
                "gold.storageclass.storage.k8s.io/requests.storage": "1Ti",
                "silver.storageclass.storage.k8s.io/requests.storage": "0",
                "bronze.storageclass.storage.k8s.io/persistentvolumeclaims": "5",
                "lead.storageclass.storage.k8s.io/requests.storage": "much",
                "requests.storage": "1Ti",
                "pods": "4",
            }, "scopes": ["NotTerminating"]},
            "status": {"used": {"pods": "1"}},
        }))
        .unwrap();
        assert_eq!(quota.assigned_classes().into_iter().collect::<Vec<_>>(), ["bronze", "gold"]);
        let empty = json!({"metadata": {"name": "q"}, "spec": {}});
        assert!(serde_json::from_value::<QuotaLimits>(empty).unwrap().assigned_classes().is_empty());
    }
}
