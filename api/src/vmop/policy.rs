//! VirtualMachineSetResourcePolicy: where a set of virtual machines lies in vCenter.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceSpec;
use crate::conditions::Condition;

/// The placement of a set of virtual machines: a folder, a resource pool, and anti-affinity groups.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineSetResourcePolicy",
    namespaced,
    status = "VirtualMachineSetResourcePolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The placement of a set of virtual machines in vCenter."
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSetResourcePolicySpec {
    /// The resource pool, created below the resource pool of the namespace.
    #[serde(rename = "resourcepool", skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<ResourcePoolSpec>,
    /// The folder, created below the folder of the namespace.
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
    /// The reservations. 0: no reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<ResourceSpec>,
    /// The limits. 0: no limit.
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
    /// Its name, which virtual machines use in their annotation.
    #[serde(rename = "groupname")]
    #[schemars(length(max = 253))]
    pub group_name: String,
}

/// The observed state of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSetResourcePolicyStatus {
    /// The resource pools that were created for the policy, one for each vSphere cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_pools: Vec<ResourcePoolStatus>,
    /// The cluster modules that were created for the policy.
    #[serde(rename = "clustermodules", skip_serializing_if = "Vec::is_empty")]
    pub cluster_modules: Vec<ClusterModuleStatus>,
    /// The folder that was created for the policy.
    #[serde(rename = "folderMoID", skip_serializing_if = "Option::is_none")]
    pub folder_mo_id: Option<String>,
    /// The VMs in vCenter that use the control plane endpoint in the annotation capw.vmware.com/control-plane-endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpointStatus>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A resource pool that was created for a policy.
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

/// A cluster module that was created for a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["groupname", "moduleUUID", "clusterMoID"]))]
pub struct ClusterModuleStatus {
    /// The group's name.
    #[serde(rename = "groupname")]
    pub group_name: String,
    /// The UUID of the disk in vSphere.
    #[serde(rename = "moduleUUID")]
    pub module_uuid: String,
    /// The vSphere cluster.
    #[serde(rename = "clusterMoID")]
    pub cluster_mo_id: String,
}

/// The use of a control plane endpoint in vCenter, before a cluster gets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["host"]))]
pub struct ControlPlaneEndpointStatus {
    /// The host of the endpoint.
    pub host: String,
    /// The VM that has the endpoint. Missing if none has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// The virtual router numbers (VRRP) of all control planes in vCenter.
    #[serde(rename = "virtualRouterIDs", skip_serializing_if = "Vec::is_empty")]
    pub virtual_router_ids: Vec<i32>,
}
