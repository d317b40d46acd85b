//! VirtualMachine: a virtual machine in vCenter, as its owner asks for it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::conditions::Condition;

/// The desired state of a virtual machine in vCenter.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vmoperator.vmware.com",
    version = "v1alpha1",
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
    printcolumn(name = "Primary-IP", type_ = "string", json_path = ".status.vmIp", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["imageName", "className"]))]
pub struct VirtualMachineSpec {
    /// The VirtualMachineImage from which the virtual machine is created.
    #[schemars(length(min = 1, max = 253))]
    pub image_name: String,
    /// The VirtualMachineClass that defines its size.
    #[schemars(length(min = 1, max = 253))]
    pub class_name: String,
    /// `poweredOn`, `poweredOff` or `suspended`. If left out: `poweredOn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["poweredOn", "poweredOff", "suspended"]))]
    pub power_state: Option<String>,
    /// How it is powered off: `hard`, `soft` or `trySoft`. If left out: `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["hard", "soft", "trySoft"]))]
    pub power_off_mode: Option<String>,
    /// How it is suspended: `hard`, `soft` or `trySoft`. If left out: `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["hard", "soft", "trySoft"]))]
    pub suspend_mode: Option<String>,
    /// How it is restarted: `hard`, `soft` or `trySoft`. If left out: `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["hard", "soft", "trySoft"]))]
    pub restart_mode: Option<String>,
    /// When to restart it: a time, or `now`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_restart_time: Option<String>,
    /// The minimum virtual hardware version, 13 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 13))]
    pub min_hardware_version: Option<i32>,
    /// The ports that it serves, for information.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<VirtualMachinePort>,
    /// Bootstrap data for the guest, and its transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_metadata: Option<VirtualMachineMetadata>,
    /// The storage class of its disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// Its network adapters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub network_interfaces: Vec<VirtualMachineNetworkInterface>,
    /// The VirtualMachineSetResourcePolicy that defines its placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub resource_policy_name: Option<String>,
    /// Disks in addition to those of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<VirtualMachineVolume>,
    /// The probe that decides whether it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Disk provisioning and change tracking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced_options: Option<VirtualMachineAdvancedOptions>,
    /// When disks that are linked to the image's template are promoted to full copies: `Disabled` (never), `Online`
    /// (while it is running) or `Offline` (while it is powered off). If left out: the value of the provider
    /// configuration, or else `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Disabled", "Online", "Offline"]))]
    pub promote_disks_mode: Option<String>,
    /// Its BIOS UUID. If left out, VM Operator generates one before anything exists in vCenter.
    #[serde(rename = "biosUUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), extend("pattern" = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    pub bios_uuid: Option<String>,
    /// Its instance UUID. If left out, VM Operator generates one before anything exists in vCenter.
    #[serde(rename = "instanceUUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), extend("pattern" = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    pub instance_uuid: Option<String>,
}

/// A port that a virtual machine serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port", "ip", "name"]))]
pub struct VirtualMachinePort {
    /// The port.
    pub port: i32,
    /// The address.
    #[schemars(length(max = 253))]
    pub ip: String,
    /// The name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// `TCP` or `UDP`. If left out: `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub protocol: Option<String>,
}

/// Bootstrap data for the guest, and its transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineMetadata {
    /// The ConfigMap that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub config_map_name: Option<String>,
    /// The Secret that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_name: Option<String>,
    /// `ExtraConfig`, `OvfEnv`, `vAppConfig`, `CloudInit` or `Sysprep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ExtraConfig", "OvfEnv", "vAppConfig", "CloudInit", "Sysprep"]))]
    pub transport: Option<String>,
}

/// The transport that copies every key of the Secret or ConfigMap into the VM's ExtraConfig.
pub const TRANSPORT_EXTRA_CONFIG: &str = "ExtraConfig";
/// The network type of NSX: the network's name is that of a VirtualNetwork.
pub const NETWORK_TYPE_NSX_T: &str = "nsx-t";
/// The network type of port groups.
pub const NETWORK_TYPE_DISTRIBUTED: &str = "vsphere-distributed";
/// A virtual machine that is on.
pub const POWERED_ON: &str = "poweredOn";
/// A virtual machine that is off.
pub const POWERED_OFF: &str = "poweredOff";
/// A virtual machine that sleeps.
pub const SUSPENDED: &str = "suspended";

/// A network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineNetworkInterface {
    /// `nsx-t`, `vsphere-distributed`, or empty for a network of vCenter by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub network_type: Option<String>,
    /// The network. If left out: the default network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub network_name: Option<String>,
    /// An object of the network provider that represents this network adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NetworkInterfaceProviderReference>,
    /// `vmxnet3`, `e1000` … If left out: `vmxnet3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ethernet_card_type: Option<String>,
}

/// An object of the network provider that stands for a network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiGroup", "kind", "name"]))]
pub struct NetworkInterfaceProviderReference {
    /// Its API group.
    #[schemars(length(max = 253))]
    pub api_group: String,
    /// Its API version.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// Its kind.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A disk in addition to those of the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct VirtualMachineVolume {
    /// The name, unique in the virtual machine.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The claim to which the disk belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolume>,
    /// A disk that belongs to the virtual machine itself, or a disk of the image that is resized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_sphere_volume: Option<VSphereVolume>,
    /// The unit number on SCSI controller 0 of a new disk that belongs to the virtual machine itself: 0 to 15 except
    /// 7, which is reserved for the controller. If left out: the first free number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 15))]
    pub unit_number: Option<i32>,
}

/// The claim a disk belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claimName"]))]
pub struct PersistentVolumeClaimVolume {
    /// The PersistentVolumeClaim.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
    /// The disk is attached for reading only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The claim uses the local storage of the host and is deleted with the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_volume_claim: Option<InstanceVolumeClaim>,
}

/// A claim on the host's own storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["storageClass", "size"]))]
pub struct InstanceVolumeClaim {
    /// The storage class.
    #[schemars(length(max = 253))]
    pub storage_class: String,
    /// The size.
    pub size: Quantity,
}

/// A disk that belongs to the virtual machine itself, or a disk of the image that is resized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VSphereVolume {
    /// The size, under the key `ephemeral-storage`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4))]
    pub capacity: BTreeMap<String, Quantity>,
    /// The disk, by vSphere's device key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_key: Option<i32>,
    /// The storage class of a new disk. If left out: that of the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

/// A probe that decides whether a virtual machine is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// A TCP connection can be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// VMware Tools reports a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_heartbeat: Option<GuestHeartbeatAction>,
    /// The timeout of one attempt, in seconds. If left out: 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60))]
    pub timeout_seconds: Option<i32>,
    /// The interval of the probe, in seconds. If left out: 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub period_seconds: Option<i32>,
}

/// A TCP connection to be tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct TcpSocketAction {
    /// The port, by number or name.
    pub port: IntOrString,
    /// The host. If left out: the virtual machine itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A heartbeat to be seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestHeartbeatAction {
    /// `green` or `yellow`. If left out: `green`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["yellow", "green"]))]
    pub threshold_status: Option<String>,
}

/// Disk provisioning and change tracking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineAdvancedOptions {
    /// How disks are provisioned if the storage class does not specify it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_volume_provisioning_options: Option<VolumeProvisioningOptions>,
    /// vSphere tracks changed blocks, for backups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_block_tracking: Option<bool>,
}

/// How disks are provisioned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeProvisioningOptions {
    /// Space is allocated when it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thin_provisioned: Option<bool>,
    /// Space is allocated and zeroed immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eager_zeroed: Option<bool>,
}

/// How far a virtual machine is: [`VirtualMachineStatus::phase`].
pub mod vm_phase {
    /// It is being made.
    pub const CREATING: &str = "Creating";
    /// It is there.
    pub const CREATED: &str = "Created";
    /// It is going away.
    pub const DELETING: &str = "Deleting";
    /// Not known.
    pub const UNKNOWN: &str = "Unknown";
}

/// The observed state of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineStatus {
    /// The host on which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The host name that the guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// `poweredOn`, `poweredOff` or `suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// The phase: `Creating`, `Created`, `Deleting`, `Deleted` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The first address that its guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ip: Option<String>,
    /// The addresses that services, machines and probes use. They are assigned by the network provider, or lie in a
    /// configured range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoint_addresses: Vec<String>,
    /// The last known of these addresses, while its guest reports none. No other virtual machine can use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_addresses: Vec<String>,
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
    /// Its network adapters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterfaceStatus>,
    /// The vSphere zone in which it is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// When the last requested restart took place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restart_time: Option<String>,
    /// Its virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<i32>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The observed state of a further disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "attached", "diskUUID", "error"]))]
pub struct VirtualMachineVolumeStatus {
    /// The name.
    pub name: String,
    /// It is attached.
    pub attached: bool,
    /// The UUID of the disk in vSphere.
    #[serde(rename = "diskUUID")]
    pub disk_uuid: String,
    /// Why the disk is not attached.
    pub error: String,
}

/// The observed state of a network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["connected"]))]
pub struct NetworkInterfaceStatus {
    /// It is connected.
    pub connected: bool,
    /// Its MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Its addresses with their prefix lengths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
}
