//! VirtualMachineSetResourcePolicy: where a set of virtual machines lies in vCenter.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceSpec;
use crate::conditions::Condition;

/// Where a set of virtual machines lies: a folder, a resource pool, and groups kept apart.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineSetResourcePolicy",
    namespaced,
    status = "VirtualMachineSetResourcePolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Where a set of virtual machines lies in vCenter."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSetResourcePolicySpec {
    /// The resource pool, made below the namespace's.
    #[serde(rename = "resourcepool", skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<ResourcePoolSpec>,
    /// The folder, made below the namespace's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<FolderSpec>,
    /// Groups whose members are kept on different hosts.
    #[serde(rename = "clustermodules", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["groupname"]))]
    pub cluster_modules: Vec<ClusterModuleSpec>,
}

/// A resource pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePoolSpec {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// What it reserves. 0: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<ResourceSpec>,
    /// Its limits. 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceSpec>,
}

/// A folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FolderSpec {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

/// A group whose members are kept on different hosts: a cluster module of vSphere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["groupname"]))]
pub struct ClusterModuleSpec {
    /// Its name, as virtual machines give it in their annotation.
    #[serde(rename = "groupname")]
    #[schemars(length(max = 253))]
    pub group_name: String,
}

/// How a policy is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSetResourcePolicyStatus {
    /// The resource pools made for it, one for each vSphere cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_pools: Vec<ResourcePoolStatus>,
    /// The cluster modules made for it.
    #[serde(rename = "clustermodules", skip_serializing_if = "Vec::is_empty")]
    pub cluster_modules: Vec<ClusterModuleStatus>,
    /// The folder made for it.
    #[serde(rename = "folderMoID", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// How it is, aspect by aspect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A resource pool made for a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterMoID", "childResourcePoolMoID"]))]
pub struct ResourcePoolStatus {
    /// The vSphere cluster.
    #[serde(rename = "clusterMoID")]
    pub cluster_mo_id: String,
    /// The resource pool.
    #[serde(rename = "childResourcePoolMoID")]
    pub child_resource_pool_mo_id: String,
}

/// A cluster module made for a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["groupname", "moduleUUID", "clusterMoID"]))]
pub struct ClusterModuleStatus {
    /// The group's name.
    #[serde(rename = "groupname")]
    pub group_name: String,
    /// vSphere's identity of it.
    #[serde(rename = "moduleUUID")]
    pub module_uuid: String,
    /// The vSphere cluster.
    #[serde(rename = "clusterMoID")]
    pub cluster_mo_id: String,
}
