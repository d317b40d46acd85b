//! VirtualMachine: a virtual machine in vCenter.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::conditions::Condition;

/// Virtual machine in vCenter.
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
    doc = "Virtual machine in vCenter.",
    printcolumn(name = "Power-State", type_ = "string", json_path = ".status.powerState"),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.className", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.imageName", priority = 1),
    printcolumn(name = "Primary-IP", type_ = "string", json_path = ".status.vmIp", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["imageName", "className"]))]
pub struct VirtualMachineSpec {
    /// VirtualMachineImage from which the virtual machine is created. Immutable.
    #[schemars(length(min = 1, max = 253))]
    pub image_name: String,
    /// VirtualMachineClass, which defines CPUs, memory and devices. It can be changed while the virtual
    /// machine is powered off.
    #[schemars(length(min = 1, max = 253))]
    pub class_name: String,
    /// Desired power state: `poweredOn`, `poweredOff` or `suspended`. Defaults to `poweredOn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["poweredOn", "poweredOff", "suspended"]))]
    pub power_state: Option<String>,
    /// Power-off method: `hard` powers off immediately, `soft` shuts down the guest, and `trySoft` shuts down the guest
    /// and powers off after 5 minutes, or immediately if VMware Tools aren't running. Defaults to `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["hard", "soft", "trySoft"]))]
    pub power_off_mode: Option<String>,
    /// Suspend method: `hard` suspends immediately, `soft` puts the guest into standby, and `trySoft` puts the guest
    /// into standby and suspends after 5 minutes, or immediately if VMware Tools aren't running. Defaults to `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["hard", "soft", "trySoft"]))]
    pub suspend_mode: Option<String>,
    /// Restart method: `hard` resets immediately, `soft` restarts the guest, and `trySoft` restarts the guest if VMware
    /// Tools are running and resets otherwise. Defaults to `hard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["hard", "soft", "trySoft"]))]
    pub restart_mode: Option<String>,
    /// Time of the next restart, in RFC 3339 format, or `now`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_restart_time: Option<String>,
    /// Minimum virtual hardware version, at least 13. It can be raised while the virtual machine is powered off, but
    /// not lowered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 13))]
    pub min_hardware_version: Option<i32>,
    /// Ports that the virtual machine serves. The readiness probe can refer to them by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<VirtualMachinePort>,
    /// Bootstrap data for the guest, and its transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_metadata: Option<VirtualMachineMetadata>,
    /// Storage class for the disks. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// Network adapters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub network_interfaces: Vec<VirtualMachineNetworkInterface>,
    /// VirtualMachineSetResourcePolicy that defines the placement. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub resource_policy_name: Option<String>,
    /// Additional disks, and sizes for disks in the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<VirtualMachineVolume>,
    /// Readiness probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Disk provisioning and changed block tracking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advanced_options: Option<VirtualMachineAdvancedOptions>,
    /// Promotion of linked disks to full copies, independent of the image's template: `Disabled` (never), `Online` (while
    /// the virtual machine is running) or `Offline` (while it is powered off). Defaults to the value in the provider
    /// configuration, or else `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Disabled", "Online", "Offline"]))]
    pub promote_disks_mode: Option<String>,
    /// BIOS UUID. If not set, VM Operator generates one before it creates the virtual machine in vCenter. Immutable
    /// once set.
    #[serde(rename = "biosUUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), extend("pattern" = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    pub bios_uuid: Option<String>,
    /// Instance UUID. If not set, VM Operator generates one before it creates the virtual machine in vCenter. Immutable
    /// once set.
    #[serde(rename = "instanceUUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), extend("pattern" = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    pub instance_uuid: Option<String>,
}

/// Port that a virtual machine serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port", "ip", "name"]))]
pub struct VirtualMachinePort {
    /// Port number.
    pub port: i32,
    /// Virtual machine IP address.
    #[schemars(length(max = 253))]
    pub ip: String,
    /// Port name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Protocol: `TCP` or `UDP`. Defaults to `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub protocol: Option<String>,
}

/// Bootstrap data for the guest, and its transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineMetadata {
    /// ConfigMap with the data. Mutually exclusive with secretName.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub config_map_name: Option<String>,
    /// Secret with the data. Mutually exclusive with configMapName.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_name: Option<String>,
    /// Transport for the data: `ExtraConfig`, `OvfEnv`, `vAppConfig`, `CloudInit` or `Sysprep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ExtraConfig", "OvfEnv", "vAppConfig", "CloudInit", "Sysprep"]))]
    pub transport: Option<String>,
}

/// The transport that copies every key in the Secret or ConfigMap into the VM's ExtraConfig.
pub const TRANSPORT_EXTRA_CONFIG: &str = "ExtraConfig";
/// The network type for NSX. The network name refers to a VirtualNetwork.
pub const NETWORK_TYPE_NSX_T: &str = "nsx-t";
/// The network type for distributed port groups.
pub const NETWORK_TYPE_DISTRIBUTED: &str = "vsphere-distributed";
/// The power state of a running virtual machine.
pub const POWERED_ON: &str = "poweredOn";
/// The power state of a virtual machine that is powered off.
pub const POWERED_OFF: &str = "poweredOff";
/// The power state of a suspended virtual machine.
pub const SUSPENDED: &str = "suspended";

/// Virtual machine network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineNetworkInterface {
    /// Network type: `nsx-t`, `vsphere-distributed`, or empty for a vCenter network selected by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub network_type: Option<String>,
    /// Network name. Defaults to the default network. Each network can be used by one adapter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub network_name: Option<String>,
    /// NetworkInterface object in group netoperator.vmware.com for this network adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<NetworkInterfaceProviderReference>,
    /// Adapter type: `vmxnet3`, `vmxnet2`, `e1000`, `e1000e` or `pcnet32`. Defaults to `vmxnet3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ethernet_card_type: Option<String>,
}

/// Reference to a network provider object for a network adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiGroup", "kind", "name"]))]
pub struct NetworkInterfaceProviderReference {
    /// Object API group.
    #[schemars(length(max = 253))]
    pub api_group: String,
    /// Object API version.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_version: Option<String>,
    /// Object kind.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Object name.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// Additional disk, or new size for a disk in the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct VirtualMachineVolume {
    /// Volume name, unique in the virtual machine.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// PersistentVolumeClaim whose disk is attached. Mutually exclusive with vSphereVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolume>,
    /// Disk that belongs to the virtual machine itself, or new size for a disk in the image. Mutually exclusive with
    /// persistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_sphere_volume: Option<VSphereVolume>,
    /// Unit number of a new disk on SCSI controller 0: 0 to 15 except 7, which is reserved for the controller. Only for
    /// disks that belong to the virtual machine itself. Defaults to the first free number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 15))]
    pub unit_number: Option<i32>,
}

/// PersistentVolumeClaim that a disk belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claimName"]))]
pub struct PersistentVolumeClaimVolume {
    /// PersistentVolumeClaim name, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
    /// Must be false or unset, because disks can't be attached read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Instance storage: the claim uses storage that is local to the host and is deleted with the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_volume_claim: Option<InstanceVolumeClaim>,
}

/// Claim on storage that is local to the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["storageClass", "size"]))]
pub struct InstanceVolumeClaim {
    /// Storage class name.
    #[schemars(length(max = 253))]
    pub storage_class: String,
    /// Disk size.
    pub size: Quantity,
}

/// Disk that belongs to the virtual machine itself, or new size for a disk in the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VSphereVolume {
    /// Disk size, under the key `ephemeral-storage`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4))]
    pub capacity: BTreeMap<String, Quantity>,
    /// vSphere device key of the disk in the image. If not set, a new disk is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_key: Option<i32>,
    /// Storage class for a new disk. Defaults to the virtual machine's storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

/// Readiness probe. Exactly one action must be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Action that opens a TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Action that checks the VMware Tools heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_heartbeat: Option<GuestHeartbeatAction>,
    /// Timeout for one attempt, in seconds. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60))]
    pub timeout_seconds: Option<i32>,
    /// Probe interval, in seconds. Defaults to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub period_seconds: Option<i32>,
}

/// Probe action that opens a TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct TcpSocketAction {
    /// Port number, or the name of a port in spec.ports.
    pub port: IntOrString,
    /// Virtual machine IP address. Defaults to its first address. Other hosts aren't probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Probe action that checks the VMware Tools heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestHeartbeatAction {
    /// Minimum heartbeat status: `green` or `yellow`. Defaults to `green`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["yellow", "green"]))]
    pub threshold_status: Option<String>,
}

/// Disk provisioning and changed block tracking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineAdvancedOptions {
    /// Disk provisioning, if the storage class doesn't define it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_volume_provisioning_options: Option<VolumeProvisioningOptions>,
    /// If true, vSphere tracks changed blocks, for backups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_block_tracking: Option<bool>,
}

/// Disk provisioning. thinProvisioned and eagerZeroed are mutually exclusive. Defaults to vSphere's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeProvisioningOptions {
    /// If true, space is allocated only when it is written. `false` means thick provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thin_provisioned: Option<bool>,
    /// If true, space is allocated and zeroed immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eager_zeroed: Option<bool>,
}

/// Values of [`VirtualMachineStatus::phase`].
pub mod vm_phase {
    /// The virtual machine is being created.
    pub const CREATING: &str = "Creating";
    /// The virtual machine exists in vCenter.
    pub const CREATED: &str = "Created";
    /// The virtual machine is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The phase isn't known.
    pub const UNKNOWN: &str = "Unknown";
}

/// Observed virtual machine state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachineStatus {
    /// Host on which the virtual machine runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Host name that the guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Power state: `poweredOn`, `poweredOff` or `suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// Phase: `Creating`, `Created`, `Deleting`, `Deleted` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Virtual machine conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// First address that the guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ip: Option<String>,
    /// Addresses that services, machines and probes use. They are assigned by the network provider or are in a
    /// configured range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoint_addresses: Vec<String>,
    /// Last known endpoint addresses, while the guest reports none. Other virtual machines can't use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_addresses: Vec<String>,
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
    /// Network adapter states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterfaceStatus>,
    /// vSphere zone in which the virtual machine is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Time of the last requested restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restart_time: Option<String>,
    /// Virtual hardware version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<i32>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Observed volume state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "attached", "diskUUID", "error"]))]
pub struct VirtualMachineVolumeStatus {
    /// Volume name.
    pub name: String,
    /// True if the disk is attached.
    pub attached: bool,
    /// Disk UUID in vSphere.
    #[serde(rename = "diskUUID")]
    pub disk_uuid: String,
    /// Reason why the disk isn't attached.
    pub error: String,
}

/// Observed network adapter state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["connected"]))]
pub struct NetworkInterfaceStatus {
    /// True if the adapter is connected.
    pub connected: bool,
    /// Adapter MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IP addresses with prefix lengths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
}
