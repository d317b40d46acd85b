//! WCPMachine: what a machine needs of vSphere, and the template machines are made from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Initialization, TemplateMeta};
use crate::Quantity;

/// The vSphere infrastructure of a machine.
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
    doc = "The vSphere infrastructure of a machine.",
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
    /// The identity of the virtual machine: `vsphere://` and its BIOS UUID. Generated before anything exists in
    /// vCenter, and never changed.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub provider_id: Option<String>,
    /// The vSphere zone to place the virtual machine in. The failure domain of the Machine takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub failure_domain: Option<String>,
    /// The VirtualMachineImage.
    #[schemars(length(max = 253))]
    pub image_name: String,
    /// The VirtualMachineClass.
    #[schemars(length(max = 253))]
    pub class_name: String,
    /// The storage class of the root disk.
    #[schemars(length(max = 253))]
    pub storage_class: String,
    /// Further disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<MachineVolume>,
    /// How the virtual machine is powered off: `hard`, `soft` or `trySoft`. If left out: `hard`, or `trySoft` for a
    /// control plane node whose work other nodes can take over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub power_off_mode: Option<String>,
    /// The minimum virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_hardware_version: Option<i32>,
    /// How the virtual machine is named. If left out, it has the name of its Machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub naming: Option<VirtualMachineNaming>,
}

/// The name of a virtual machine, of its guest and of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct VirtualMachineNaming {
    /// A Go template that computes the name from the Machine's name, which is `.machine.name`. Its functions are Go's
    /// own, `trimSuffix` and `trunc`. Names are cut off after 63 characters. The names of Machines must differ.
    #[schemars(length(min = 1, max = 1024))]
    pub template: String,
}

/// A further disk of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "capacity"]))]
pub struct MachineVolume {
    /// The name of the disk, unique on the machine.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Where the node mounts the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub mount_path: Option<String>,
    /// The size of the disk, under the key `storage`.
    #[schemars(extend("maxProperties" = 8))]
    pub capacity: BTreeMap<String, Quantity>,
    /// The storage class of the disk. If left out: that of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// The unit number on SCSI controller 0 of a disk that belongs to the virtual machine itself; the guest finds the
    /// disk by it. If left out, the disk belongs to a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 15))]
    pub unit_number: Option<i32>,
}

/// The observed state of the infrastructure of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPMachineStatus {
    /// Reports the first provisioning of the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The virtual machine is running and has an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The BIOS UUID of the virtual machine.
    #[serde(rename = "vmID", skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<String>,
    /// The first address of the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ip: Option<String>,
    /// The state of the virtual machine: `pending`, `created`, `poweredon`, `ready`, `deleting`, `notfound` or
    /// `error`.
    #[serde(rename = "vmstatus", skip_serializing_if = "Option::is_none")]
    pub vm_status: Option<String>,
    /// The addresses of the virtual machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// The vSphere zone the virtual machine is placed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// The conditions of the infrastructure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// An address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "address"]))]
pub struct MachineAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS` or `ExternalDNS`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// The template from which WCPMachines are created.
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
    doc = "The template from which WCPMachines are created.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct WCPMachineTemplateSpec {
    /// The contents of each WCPMachine. It cannot be changed.
    pub template: WCPMachineTemplateResource,
}

/// The contents of each WCPMachine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["spec"]))]
pub struct WCPMachineTemplateResource {
    /// Its labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Its spec.
    pub spec: WCPMachineSpec,
}

/// The capacity of machines of this template, for an autoscaler that scales from zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WCPMachineTemplateStatus {
    /// CPU, memory and other resources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Architecture and operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// Architecture and operating system of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// `amd64`, `arm64` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// `linux` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
}

/// The values of `status.vmstatus`: how far the virtual machine is.
pub mod vm_status {
    /// There is no virtual machine any more.
    pub const NOT_FOUND: &str = "notfound";
    /// The virtual machine is asked for.
    pub const PENDING: &str = "pending";
    /// vCenter has it.
    pub const CREATED: &str = "created";
    /// It is on.
    pub const POWERED_ON: &str = "poweredon";
    /// It is on and has an address. Says nothing of kubeadm.
    pub const READY: &str = "ready";
    /// It is going away.
    pub const DELETING: &str = "deleting";
    /// It cannot be made.
    pub const ERROR: &str = "error";
}
