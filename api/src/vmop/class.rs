//! VirtualMachineClass, which defines a VM size, and VirtualMachineClassBinding, which allows a namespace to use it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Virtual machine size: CPUs, memory, devices, reservations and limits.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineClass",
    shortname = "vmclass",
    status = "VirtualMachineClassStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Virtual machine size: CPUs, memory, devices, reservations and limits.",
    printcolumn(name = "CPU", type_ = "string", json_path = ".spec.hardware.cpus"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.hardware.memory"),
    printcolumn(
        name = "VGPU-Devices-Profile-Names",
        type_ = "string",
        json_path = ".spec.hardware.devices.vgpuDevices[*].profileName",
        priority = 1
    ),
    printcolumn(
        name = "Passthrough-DeviceIDs",
        type_ = "string",
        json_path = ".spec.hardware.devices.dynamicDirectPathIODevices[*].deviceID",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassSpec {
    /// CPUs, memory and devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<VirtualMachineClassHardware>,
    /// Reservations and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<VirtualMachineClassPolicies>,
    /// Human-readable class description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Additional virtual machine settings, as a vSphere ConfigSpec in JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub config_spec: Option<serde_json::Value>,
    /// Controller for virtual machines with this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_name: Option<String>,
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "nullable": true
    })
}

/// CPUs, memory and devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassHardware {
    /// Virtual CPU count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i64>,
    /// Memory size, a multiple of 4 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Passthrough devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<VirtualDevices>,
    /// Disks on storage that is local to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_storage: Option<InstanceStorage>,
}

/// Passthrough devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualDevices {
    /// Virtual GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vgpu_devices: Vec<VgpuDevice>,
    /// PCI devices for dynamic DirectPath I/O.
    #[serde(rename = "dynamicDirectPathIODevices", skip_serializing_if = "Vec::is_empty")]
    pub dynamic_direct_path_io_devices: Vec<DynamicDirectPathIoDevice>,
}

/// Virtual GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["profileName"]))]
pub struct VgpuDevice {
    /// vGPU profile name.
    pub profile_name: String,
}

/// PCI device for dynamic DirectPath I/O.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["vendorID", "deviceID"]))]
pub struct DynamicDirectPathIoDevice {
    /// PCI vendor ID.
    #[serde(rename = "vendorID")]
    pub vendor_id: i64,
    /// PCI device ID.
    #[serde(rename = "deviceID")]
    pub device_id: i64,
    /// Hardware label that an administrator has set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_label: Option<String>,
}

/// Disks on storage that is local to the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStorage {
    /// Storage class for the disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// List of disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<InstanceStorageVolume>,
}

/// Disk on storage that is local to the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["size"]))]
pub struct InstanceStorageVolume {
    /// Disk size.
    pub size: Quantity,
}

/// Reservations and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassPolicies {
    /// CPU and memory reservations and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<VirtualMachineClassResources>,
}

/// CPU and memory reservations and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassResources {
    /// Reservations. They can't exceed the limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceSpec>,
    /// Limits. 0 means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceSpec>,
}

/// CPU and memory. 0 or an unset field means that the amount isn't defined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSpec {
    /// CPU frequency in hertz, such as `2000M` for 2000 MHz. Values below 1000 are a number of cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// Observed class state. Currently empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassStatus {}

/// Allows a namespace to use a class.
///
/// `classRef` is a top-level field. There is no spec.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineClassBinding",
    namespaced,
    no_spec,
    shortname = "vmclassbinding",
    derive = "Default",
    derive = "PartialEq",
    doc = "Allows a namespace to use a class.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineClassBindingFields {
    /// VirtualMachineClass that the namespace can use.
    pub class_ref: ClassReference,
}

/// Reference to a VirtualMachineClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ClassReference {
    /// Class API version: `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Class kind: `VirtualMachineClass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Class name.
    pub name: String,
}
