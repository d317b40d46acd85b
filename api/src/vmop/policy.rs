//! VirtualMachineSetResourcePolicy: the placement for a set of virtual machines in vCenter.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceSpec;
use crate::conditions::Condition;

/// Placement for a set of virtual machines: a folder, a resource pool, and anti-affinity groups. Immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineSetResourcePolicy",
    namespaced,
    status = "VirtualMachineSetResourcePolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Placement for a set of virtual machines: a folder, a resource pool, and anti-affinity groups. Immutable."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSetResourcePolicySpec {
    /// Resource pool, created below the resource pool of the namespace.
    #[serde(rename = "resourcepool", skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<ResourcePoolSpec>,
    /// Folder, created below the folder of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<FolderSpec>,
    /// Anti-affinity groups, whose members are kept on different hosts.
    #[serde(rename = "clustermodules", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["groupname"]))]
    pub cluster_modules: Vec<ClusterModuleSpec>,
}

/// Resource pool for a set of virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePoolSpec {
    /// Resource pool name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Reservations. They can't exceed the limits. 0 means unreserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<ResourceSpec>,
    /// Limits. 0 means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceSpec>,
}

/// Folder for a set of virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FolderSpec {
    /// Folder name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

/// Anti-affinity group: a vSphere cluster module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["groupname"]))]
pub struct ClusterModuleSpec {
    /// Group name, which virtual machines refer to in the annotation vsphere-cluster-module-group.
    #[serde(rename = "groupname")]
    #[schemars(length(max = 253))]
    pub group_name: String,
}

/// Observed policy state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSetResourcePolicyStatus {
    /// Resource pools that were created for the policy, one in each vSphere cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_pools: Vec<ResourcePoolStatus>,
    /// Cluster modules that were created for the policy.
    #[serde(rename = "clustermodules", skip_serializing_if = "Vec::is_empty")]
    pub cluster_modules: Vec<ClusterModuleStatus>,
    /// Folder managed object ID that was created for the policy.
    #[serde(rename = "folderMoID", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// Virtual machines in vCenter that use the control plane endpoint in the annotation
    /// capw.vmware.com/control-plane-endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpointStatus>,
    /// Policy conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Resource pool that was created for a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterMoID", "childResourcePoolMoID"]))]
pub struct ResourcePoolStatus {
    /// vSphere cluster managed object ID.
    #[serde(rename = "clusterMoID")]
    pub cluster_mo_id: String,
    /// Resource pool managed object ID.
    #[serde(rename = "childResourcePoolMoID")]
    pub child_resource_pool_mo_id: String,
}

/// Cluster module that was created for a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["groupname", "moduleUUID", "clusterMoID"]))]
pub struct ClusterModuleStatus {
    /// Name of the policy's group that this module places.
    #[serde(rename = "groupname")]
    pub group_name: String,
    /// Cluster module UUID in vSphere.
    #[serde(rename = "moduleUUID")]
    pub module_uuid: String,
    /// vSphere cluster managed object ID.
    #[serde(rename = "clusterMoID")]
    pub cluster_mo_id: String,
}

/// Use of a control plane endpoint in vCenter before it is assigned to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["host"]))]
pub struct ControlPlaneEndpointStatus {
    /// Endpoint host.
    pub host: String,
    /// Virtual machine that uses the endpoint. Not set if the endpoint is unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// Virtual router IDs (VRRP) that control planes in vCenter use.
    #[serde(rename = "virtualRouterIDs", skip_serializing_if = "Vec::is_empty")]
    pub virtual_router_ids: Vec<i32>,
}
