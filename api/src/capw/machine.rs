//! WCPMachine: a machine's vSphere infrastructure, and the template from which it is created.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Initialization, TemplateMeta};
use crate::Quantity;

/// vSphere infrastructure for a machine.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "WCPMachine",
    namespaced,
    category = "cluster-api",
    status = "WCPMachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "vSphere infrastructure for a machine.",
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID"),
    printcolumn(name = "IPAddr", type_ = "string", json_path = ".status.vmIp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = 1)
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["imageName", "className", "storageClass"]))]
pub struct WCPMachineSpec {
    /// Identity of the virtual machine: `vsphere://` and its BIOS UUID. Generated before the virtual machine is created
    /// in vCenter. Immutable once set.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub provider_id: Option<String>,
    /// vSphere zone in which the virtual machine is placed. The Machine's failure domain takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub failure_domain: Option<String>,
    /// VirtualMachineImage from which the virtual machine is created.
    #[schemars(length(max = 253))]
    pub image_name: String,
    /// VirtualMachineClass, which defines CPUs, memory and devices.
    #[schemars(length(max = 253))]
    pub class_name: String,
    /// Storage class for the root disk.
    #[schemars(length(max = 253))]
    pub storage_class: String,
    /// Additional disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<MachineVolume>,
    /// Power-off method: `hard`, `soft` or `trySoft`. Defaults to `trySoft` for a control plane machine, unless its
    /// cluster is being deleted, and to `hard` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub power_off_mode: Option<String>,
    /// Minimum virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_hardware_version: Option<i32>,
    /// Virtual machine naming. Defaults to the Machine name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub naming: Option<VirtualMachineNaming>,
}

/// Name for a virtual machine, its guest and its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct VirtualMachineNaming {
    /// Go template that computes the name from the Machine name, `.machine.name`. It can use `trimSuffix`,
    /// `trunc`, and all of Go's built-in template functions. Names are truncated to 63 characters and must be unique.
    #[schemars(length(min = 1, max = 1024))]
    pub template: String,
}

/// Additional disk for a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "capacity"]))]
pub struct MachineVolume {
    /// Disk name, unique on the machine.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Path at which the node mounts the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub mount_path: Option<String>,
    /// Disk size, under the key `storage`.
    #[schemars(extend("maxProperties" = 8))]
    pub capacity: BTreeMap<String, Quantity>,
    /// Storage class for the disk. Defaults to the machine's storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// Unit number on SCSI controller 0, by which the guest finds the disk. If set, the disk belongs to the virtual machine
    /// itself. Otherwise, it belongs to a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 15))]
    pub unit_number: Option<i32>,
}

/// Observed machine infrastructure state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPMachineStatus {
    /// Initial provisioning of the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// True if the virtual machine is running and has an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Virtual machine BIOS UUID.
    #[serde(rename = "vmID", skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<String>,
    /// First address of the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ip: Option<String>,
    /// Virtual machine state: `pending`, `created`, `poweredon`, `ready`, `deleting`, `notfound` or `error`.
    #[serde(rename = "vmstatus", skip_serializing_if = "Option::is_none")]
    pub vm_status: Option<String>,
    /// Virtual machine addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// vSphere zone in which the virtual machine is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Infrastructure conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Machine address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "address"]))]
pub struct MachineAddress {
    /// Address type: `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS` or `ExternalDNS`.
    #[serde(rename = "type")]
    pub type_: String,
    /// IP address, host name or DNS name.
    pub address: String,
}

/// Template from which WCPMachines are created.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.vmware.com",
    version = "v1beta2",
    kind = "WCPMachineTemplate",
    namespaced,
    category = "cluster-api",
    status = "WCPMachineTemplateStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Template from which WCPMachines are created.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct WCPMachineTemplateSpec {
    /// Content of each WCPMachine. Immutable.
    pub template: WCPMachineTemplateResource,
}

/// Content of each WCPMachine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct WCPMachineTemplateResource {
    /// Labels and annotations for the WCPMachine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Spec for the WCPMachine.
    pub spec: WCPMachineSpec,
}

/// Capacity of machines from this template, for an autoscaler that scales from zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPMachineTemplateStatus {
    /// CPU, memory and other resources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// CPU architecture and operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// CPU architecture and operating system of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// CPU architecture, such as `amd64` or `arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Operating system, such as `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
}

/// Values of `status.vmstatus`.
pub mod vm_status {
    /// The virtual machine no longer exists.
    pub const NOT_FOUND: &str = "notfound";
    /// The virtual machine doesn't exist in vCenter yet.
    pub const PENDING: &str = "pending";
    /// The virtual machine exists in vCenter, but isn't powered on yet.
    pub const CREATED: &str = "created";
    /// The virtual machine is powered on, but doesn't have an address yet.
    pub const POWERED_ON: &str = "poweredon";
    /// The virtual machine is powered on and has an address. kubeadm may not have run yet.
    pub const READY: &str = "ready";
    /// The virtual machine is being deleted.
    pub const DELETING: &str = "deleting";
    /// The virtual machine can't be created.
    pub const ERROR: &str = "error";
}
