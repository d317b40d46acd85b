//! VirtualMachineClass: a size of virtual machines, and who may use it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// A size of virtual machines.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
    kind = "VirtualMachineClass",
    shortname = "vmclass",
    status = "VirtualMachineClassStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A size of virtual machines.",
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
    /// The reservations and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<VirtualMachineClassPolicies>,
    /// The purpose of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Further settings of the virtual machine, as vSphere's own ConfigSpec.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub config_spec: Option<serde_json::Value>,
    /// The controller of virtual machines of this class.
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
    /// The number of CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i64>,
    /// The amount of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Devices passed through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<VirtualDevices>,
    /// Disks on the host's own storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_storage: Option<InstanceStorage>,
}

/// Devices passed through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualDevices {
    /// Shares of GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vgpu_devices: Vec<VgpuDevice>,
    /// Whole PCI devices.
    #[serde(rename = "dynamicDirectPathIODevices", skip_serializing_if = "Vec::is_empty")]
    pub dynamic_direct_path_io_devices: Vec<DynamicDirectPathIoDevice>,
}

/// A share of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["profileName"]))]
pub struct VgpuDevice {
    /// The profile.
    pub profile_name: String,
}

/// A whole PCI device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["vendorID", "deviceID"]))]
pub struct DynamicDirectPathIoDevice {
    /// The vendor.
    #[serde(rename = "vendorID")]
    pub vendor_id: i64,
    /// The device.
    #[serde(rename = "deviceID")]
    pub device_id: i64,
    /// A label set by the administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_label: Option<String>,
}

/// Disks on the host's own storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStorage {
    /// The storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// The disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<InstanceStorageVolume>,
}

/// A disk on the host's own storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["size"]))]
pub struct InstanceStorageVolume {
    /// The size.
    pub size: Quantity,
}

/// The reservations and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassPolicies {
    /// The reservations and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<VirtualMachineClassResources>,
}

/// The reservations and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassResources {
    /// The reservations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceSpec>,
    /// The limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceSpec>,
}

/// An amount of CPU and memory. 0 or left out: not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSpec {
    /// CPU in hertz as vSphere counts it, such as `2000M` for 2000 MHz; cores below 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// A class has no status of its own yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineClassStatus {}

/// Allows a namespace to use a class.
///
/// `classRef` sits at the top, not under a spec.
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
    /// The class.
    pub class_ref: ClassReference,
}

/// The name of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ClassReference {
    /// `vmoperator.vmware.com/v1alpha1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `VirtualMachineClass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name.
    pub name: String,
}
