//! VirtualMachine v1alpha2, which programs in workload clusters use to read VMs and to add claims.
//!
//! The spec contains the fields of vm-operator's v1alpha2 that have a stored counterpart; an annotation keeps all
//! others ([`super::convert`]). The status also contains v1alpha1 fields that v1alpha2 doesn't have, so that conversion
//! is lossless.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{PersistentVolumeClaimVolume, Probe, VirtualMachineVolumeStatus};
use crate::Quantity;
use crate::conditions::Condition;

/// Virtual machine in vCenter. Only claims in `volumes` can be changed in this version.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha2",
    kind = "VirtualMachine",
    namespaced,
    shortname = "vm",
    status = "VirtualMachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Virtual machine in vCenter. Only claims in `volumes` can be changed in this version.",
    printcolumn(name = "Power-State", type_ = "string", json_path = ".status.powerState"),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.className", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.imageName", priority = 1),
    printcolumn(
        name = "Primary-IP4",
        type_ = "string",
        json_path = ".status.network.primaryIP4",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineSpec {
    /// VirtualMachineImage from which the virtual machine is created.
    #[schemars(length(max = 253))]
    pub image_name: String,
    /// VirtualMachineClass, which defines CPUs, memory and devices.
    #[schemars(length(max = 253))]
    pub class_name: String,
    /// Storage class for the disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// Guest configuration at the first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,
    /// Network adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// Desired power state: `PoweredOn`, `PoweredOff` or `Suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub power_state: Option<String>,
    /// Power-off method: `Hard`, `Soft` or `TrySoft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub power_off_mode: Option<String>,
    /// Suspend method: `Hard`, `Soft` or `TrySoft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub suspend_mode: Option<String>,
    /// Restart method: `Hard`, `Soft` or `TrySoft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub restart_mode: Option<String>,
    /// Time of the next restart, in RFC 3339 format, or `now`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub next_restart_time: Option<String>,
    /// Minimum virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_hardware_version: Option<i32>,
    /// PersistentVolumeClaims whose disks are attached. Disks that belong to the virtual machine itself aren't listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<VirtualMachineVolume>,
    /// Readiness probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Disk provisioning and changed block tracking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced: Option<AdvancedSpec>,
    /// Virtual machine placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedSpec>,
}

/// Guest configuration at the first boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BootstrapSpec {
    /// Configuration by cloud-init.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInitSpec>,
    /// Configuration by vSphere's guest customization of Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux_prep: Option<LinuxPrepSpec>,
    /// Configuration by Sysprep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysprep: Option<SysprepSpec>,
    /// Guest configuration through OVF properties.
    #[serde(rename = "vAppConfig", skip_serializing_if = "Option::is_none")]
    pub v_app_config: Option<VAppConfigSpec>,
}

/// Bootstrap data for cloud-init.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudInitSpec {
    /// Key in a Secret with the cloud-config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_cloud_config: Option<SecretKeySelector>,
}

/// vSphere's guest customization of Linux.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LinuxPrepSpec {
    /// If true, the hardware clock is in UTC.
    #[serde(rename = "hardwareClockIsUTC", skip_serializing_if = "Option::is_none")]
    pub hardware_clock_is_utc: Option<bool>,
}

/// Answer file for Sysprep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SysprepSpec {
    /// Key in a Secret with the answer file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_sysprep: Option<SecretKeySelector>,
}

/// OVF property values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VAppConfigSpec {
    /// Secret with the values, by property key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub raw_properties: Option<String>,
}

/// Key in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "key"]))]
pub struct SecretKeySelector {
    /// Secret name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Key with the value.
    #[schemars(length(max = 253))]
    pub key: String,
}

/// Virtual machine network adapters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSpec {
    /// Network adapters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub interfaces: Vec<NetworkInterfaceSpec>,
}

/// Virtual machine network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct NetworkInterfaceSpec {
    /// Adapter name: `eth0` for the first one.
    #[schemars(length(max = 15))]
    pub name: String,
    /// Network. Defaults to the default network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<PartialObjectRef>,
}

/// Reference to an object, with optional kind and version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PartialObjectRef {
    /// Object API group and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// Object kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// Object name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

/// Volume of a virtual machine, from a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct VirtualMachineVolume {
    /// Volume name, unique in the virtual machine.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// PersistentVolumeClaim whose disk is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolume>,
}

/// Disk provisioning and changed block tracking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdvancedSpec {
    /// Size for the first disk in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_disk_capacity: Option<Quantity>,
    /// Disk provisioning: `Thin`, `Thick` or `ThickEagerZero`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub default_volume_provisioning_mode: Option<String>,
    /// If true, vSphere tracks changed blocks, for backups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_block_tracking: Option<bool>,
}

/// Virtual machine placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReservedSpec {
    /// VirtualMachineSetResourcePolicy name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub resource_policy_name: Option<String>,
}

/// Observed virtual machine state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineStatus {
    /// Host on which the virtual machine runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Power state: `PoweredOn`, `PoweredOff` or `Suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// Virtual machine conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Addresses and network adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,
    /// Managed object ID in vCenter, such as `vm-1077`.
    #[serde(rename = "uniqueID", skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<String>,
    /// BIOS UUID in vCenter.
    #[serde(rename = "biosUUID", skip_serializing_if = "Option::is_none")]
    pub bios_uuid: Option<String>,
    /// Instance UUID in vCenter.
    #[serde(rename = "instanceUUID", skip_serializing_if = "Option::is_none")]
    pub instance_uuid: Option<String>,
    /// Volume states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VirtualMachineVolumeStatus>,
    /// True if vSphere tracks changed blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_block_tracking: Option<bool>,
    /// vSphere zone in which the virtual machine is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Time of the last requested restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restart_time: Option<String>,
    /// Virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<i32>,
    /// Phase: `Creating`, `Created`, `Deleting`, `Deleted` or `Unknown`. A v1alpha1 field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// First address that the guest reports. A v1alpha1 field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ip: Option<String>,
    /// Addresses that services, machines and probes use. A v1alpha1 field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoint_addresses: Vec<String>,
    /// Last known endpoint addresses, while the guest reports none. A v1alpha1 field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_addresses: Vec<String>,
    /// Spec generation that this status describes. A v1alpha1 field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Addresses and network adapters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkStatus {
    /// Host name that the guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Network adapter states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NetworkInterfaceStatus>,
    /// Primary IPv4 address: the first one that services, machines and probes use, or else the first one that the guest
    /// reports.
    #[serde(rename = "primaryIP4", skip_serializing_if = "Option::is_none")]
    pub primary_ip4: Option<String>,
    /// Primary IPv6 address: the first one that services, machines and probes use, or else the first one that the guest
    /// reports.
    #[serde(rename = "primaryIP6", skip_serializing_if = "Option::is_none")]
    pub primary_ip6: Option<String>,
}

/// Observed network adapter state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterfaceStatus {
    /// Adapter addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<InterfaceIpStatus>,
    /// True if the adapter is connected. A v1alpha1 field.
    pub connected: bool,
}

/// Network adapter addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InterfaceIpStatus {
    /// Adapter IP addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressStatus>,
    /// Adapter MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_addr: Option<String>,
}

/// Network adapter IP address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressStatus {
    /// IP address with its prefix length.
    pub address: String,
}
