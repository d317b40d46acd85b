//! VirtualMachine in version v1alpha2: what programs in guests read of it, and the claims that they add.
//!
//! It has the fields of vm-operator's v1alpha2 that stored ones can fill. A status has those of v1alpha1 besides that v1alpha2
//! lacks, so that nothing of it is lost on the way; of a spec they travel in an annotation ([`super::convert`]).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{PersistentVolumeClaimVolume, Probe, VirtualMachineVolumeStatus};
use crate::Quantity;
use crate::conditions::Condition;

/// A virtual machine in vCenter.
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
    doc = "A virtual machine in vCenter.",
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
    /// The VirtualMachineImage that the virtual machine is made from.
    #[schemars(length(max = 253))]
    pub image_name: String,
    /// The VirtualMachineClass that defines its size.
    #[schemars(length(max = 253))]
    pub class_name: String,
    /// The storage class of its disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// How the guest is configured at its first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,
    /// Its network adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// `PoweredOn`, `PoweredOff` or `Suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub power_state: Option<String>,
    /// How it is powered off: `Hard`, `Soft` or `TrySoft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub power_off_mode: Option<String>,
    /// How it is suspended: `Hard`, `Soft` or `TrySoft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub suspend_mode: Option<String>,
    /// How it is restarted: `Hard`, `Soft` or `TrySoft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub restart_mode: Option<String>,
    /// When it is restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub next_restart_time: Option<String>,
    /// The minimum virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_hardware_version: Option<i32>,
    /// The claims whose disks are attached. Disks that belong to the virtual machine itself are not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<VirtualMachineVolume>,
    /// The probe that decides whether it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Disk provisioning and change tracking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced: Option<AdvancedSpec>,
    /// The resources that are reserved for the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedSpec>,
}

/// The configuration of a guest at its first boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BootstrapSpec {
    /// By cloud-init.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInitSpec>,
    /// By vSphere's guest customization of Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux_prep: Option<LinuxPrepSpec>,
    /// By Sysprep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysprep: Option<SysprepSpec>,
    /// By OVF properties.
    #[serde(rename = "vAppConfig", skip_serializing_if = "Option::is_none")]
    pub v_app_config: Option<VAppConfigSpec>,
}

/// Bootstrap data for cloud-init.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudInitSpec {
    /// The key of the Secret that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_cloud_config: Option<SecretKeySelector>,
}

/// vSphere's guest customization of Linux.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LinuxPrepSpec {
    /// The hardware clock is in UTC.
    #[serde(rename = "hardwareClockIsUTC", skip_serializing_if = "Option::is_none")]
    pub hardware_clock_is_utc: Option<bool>,
}

/// Sysprep's answer file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SysprepSpec {
    /// The key of the Secret that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_sysprep: Option<SecretKeySelector>,
}

/// Values of OVF properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VAppConfigSpec {
    /// The Secret that contains them, each under its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub raw_properties: Option<String>,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "key"]))]
pub struct SecretKeySelector {
    /// The Secret.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its key.
    #[schemars(length(max = 253))]
    pub key: String,
}

/// Network adapters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSpec {
    /// Each of them, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub interfaces: Vec<NetworkInterfaceSpec>,
}

/// A network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct NetworkInterfaceSpec {
    /// Its name: `eth0` for the first.
    #[schemars(length(max = 15))]
    pub name: String,
    /// The network. If left out: the default network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<PartialObjectRef>,
}

/// An object, as far as it is named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PartialObjectRef {
    /// Its API group and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

/// A claim whose disk is attached to a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct VirtualMachineVolume {
    /// The name, unique in the virtual machine.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolume>,
}

/// Disk provisioning and change tracking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdvancedSpec {
    /// The size of the first disk of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_disk_capacity: Option<Quantity>,
    /// How disks are provisioned: `Thin`, `Thick` or `ThickEagerZero`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub default_volume_provisioning_mode: Option<String>,
    /// vSphere keeps track of changed blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_block_tracking: Option<bool>,
}

/// The resources that are reserved for the system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReservedSpec {
    /// The VirtualMachineSetResourcePolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub resource_policy_name: Option<String>,
}

/// The observed state of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineStatus {
    /// The host on which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `PoweredOn`, `PoweredOff` or `Suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Its addresses and network adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,
    /// The managed object ID of the virtual machine in vCenter, such as `vm-1077`.
    #[serde(rename = "uniqueID", skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<String>,
    /// Its BIOS UUID, as read back from vCenter.
    #[serde(rename = "biosUUID", skip_serializing_if = "Option::is_none")]
    pub bios_uuid: Option<String>,
    /// Its instance UUID, as read back from vCenter.
    #[serde(rename = "instanceUUID", skip_serializing_if = "Option::is_none")]
    pub instance_uuid: Option<String>,
    /// Its further disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VirtualMachineVolumeStatus>,
    /// True if vSphere tracks changed blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_block_tracking: Option<bool>,
    /// The vSphere zone in which it is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// When the last requested restart took place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restart_time: Option<String>,
    /// Its virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<i32>,
    /// From v1alpha1: the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// From v1alpha1: the first address that its guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ip: Option<String>,
    /// From v1alpha1: the addresses that services, machines and probes use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoint_addresses: Vec<String>,
    /// From v1alpha1: the last known addresses, while its guest reports none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_addresses: Vec<String>,
    /// From v1alpha1: the generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Addresses and network adapters of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkStatus {
    /// The host name that the guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Each network adapter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NetworkInterfaceStatus>,
    /// The IPv4 address that services, machines and probes use, or else the first that the guest reports.
    #[serde(rename = "primaryIP4", skip_serializing_if = "Option::is_none")]
    pub primary_ip4: Option<String>,
    /// The same for IPv6.
    #[serde(rename = "primaryIP6", skip_serializing_if = "Option::is_none")]
    pub primary_ip6: Option<String>,
}

/// The observed state of a network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterfaceStatus {
    /// Its addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<InterfaceIpStatus>,
    /// From v1alpha1: whether it is connected.
    pub connected: bool,
}

/// Addresses of a network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InterfaceIpStatus {
    /// Its IP addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressStatus>,
    /// Its MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_addr: Option<String>,
}

/// An IP address of a network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressStatus {
    /// The address with its prefix length.
    pub address: String,
}
