//! Specs for configuring, relocating and cloning VMs.

use super::customization::CustomizationSpec;
use super::device::{DeviceChange, NicBacking};
use super::disk::{DiskLocator, DiskMoveType};
use super::extra_config::ExtraConfig;
use super::profile::profiles;
use super::raw::BaseConfig;
use super::vapp::VAppChange;
use crate::{MoRef, Object, Value};

/// A change to a VM's settings. Fields that are `None` or empty keep the current value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigSpec {
    /// The expected `changeVersion`. vCenter rejects the change if the VM's version differs.
    pub change_version: Option<String>,
    /// The VM's inventory name.
    pub name: Option<String>,
    /// The BIOS UUID, which the guest sees.
    pub uuid: Option<String>,
    /// The UUID by which vCenter distinguishes VMs.
    pub instance_uuid: Option<String>,
    /// The ID of the guest operating system.
    pub guest_id: Option<String>,
    /// The VM's notes, which vCenter shows.
    pub annotation: Option<String>,
    /// The customization package that is pending for the guest's next start. An empty string removes the pending
    /// package.
    pub pending_customization: Option<String>,
    /// The number of virtual CPUs.
    pub num_cpus: Option<u32>,
    /// The number of cores per socket. `None` keeps the VM's current number. Either number must divide the number of CPUs.
    pub num_cores_per_socket: Option<u32>,
    /// The memory in MiB.
    pub memory_mib: Option<i64>,
    /// Changes to network adapters and other devices.
    pub device_change: Vec<DeviceChange>,
    /// The CPU allocation in MHz.
    pub cpu_allocation: Option<Allocation>,
    /// The memory allocation in MiB.
    pub memory_allocation: Option<Allocation>,
    /// Changes to ExtraConfig. An empty value removes the key.
    pub extra_config: ExtraConfig,
    /// Changes to OVF properties.
    pub v_app_config: Option<VAppChange>,
    /// Removes the OVF environment, so that cloud-init doesn't prefer it over guestinfo.
    pub v_app_config_removed: Option<bool>,
    /// Enables or disables changed block tracking.
    pub change_tracking_enabled: Option<bool>,
    /// The firmware: `bios` or `efi`.
    pub firmware: Option<String>,
    /// The extension that manages the VM.
    pub managed_by: Option<ManagedBy>,
    /// Storage policy IDs for the VM home. Disks specify their own policies.
    pub profiles: Vec<String>,
    /// Settings with lower priority than all other fields.
    pub base: Option<BaseConfig>,
}

/// The extension that manages a VM, as shown in vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedBy {
    /// The extension's key.
    pub extension_key: String,
    /// The managed VM's type, defined by the extension.
    pub kind: String,
}

/// A resource reservation and limit, in MHz for CPU and MiB for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The guaranteed amount.
    pub reservation: Option<i64>,
    /// True if a resource pool may reserve capacity from its parent. Applies to pools only.
    pub expandable: Option<bool>,
    /// The maximum amount; -1 means unlimited.
    pub limit: Option<i64>,
}

impl From<Allocation> for Value {
    fn from(allocation: Allocation) -> Self {
        Object::new("ResourceAllocationInfo")
            .with_some("reservation", allocation.reservation)
            .with_some("expandableReservation", allocation.expandable)
            .with_some("limit", allocation.limit)
            .into()
    }
}

impl From<ManagedBy> for Value {
    fn from(managed_by: ManagedBy) -> Self {
        Object::new("ManagedByInfo")
            .with("extensionKey", managed_by.extension_key)
            .with("type", managed_by.kind)
            .into()
    }
}

fn pending(package: String) -> Object {
    Object::new("ToolsConfigInfo").with("pendingCustomization", package)
}

impl From<ConfigSpec> for Value {
    fn from(spec: ConfigSpec) -> Self {
        let options: Vec<Object> = spec
            .extra_config
            .iter()
            .map(|(key, value)| {
                Object::new("OptionValue")
                    .with("key", key.as_str())
                    .with("value", Value::any_string(value.as_str()))
            })
            .collect();
        let own = Object::new("VirtualMachineConfigSpec")
            .with_some("changeVersion", spec.change_version)
            .with_some("name", spec.name.as_deref().map(escape_name))
            .with_some("uuid", spec.uuid)
            .with_some("instanceUuid", spec.instance_uuid)
            .with_some("guestId", spec.guest_id)
            .with_some("annotation", spec.annotation)
            .with_some("tools", spec.pending_customization.map(pending))
            .with_some("numCPUs", spec.num_cpus)
            .with_some("numCoresPerSocket", spec.num_cores_per_socket)
            .with_some("memoryMB", spec.memory_mib)
            .with_list("deviceChange", spec.device_change)
            .with_some("cpuAllocation", spec.cpu_allocation)
            .with_some("memoryAllocation", spec.memory_allocation)
            .with_list("extraConfig", options)
            .with_some("vAppConfig", spec.v_app_config)
            .with_some("vAppConfigRemoved", spec.v_app_config_removed)
            .with_some("changeTrackingEnabled", spec.change_tracking_enabled)
            .with_some("firmware", spec.firmware)
            .with_some("managedBy", spec.managed_by)
            .with_list("vmProfile", profiles(spec.profiles));
        match spec.base {
            Some(base) => base.below(&own).into(),
            None => own.into(),
        }
    }
}

/// The target location of a VM. Fields that are `None` or empty use vCenter's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelocateSpec {
    /// The datastore for the VM home and disks. Default: the source's datastore.
    pub datastore: Option<MoRef>,
    /// The method for creating the disks.
    pub disk_move_type: Option<DiskMoveType>,
    /// The resource pool, which is required to clone a template.
    pub pool: Option<MoRef>,
    /// The host, which only a cluster without DRS requires.
    pub host: Option<MoRef>,
    /// Settings for individual disks of the source that differ from the default.
    pub disks: Vec<DiskLocator>,
    /// The networks for the source's NICs. vCenter ignores other device changes here, so add them to
    /// [`ConfigSpec::device_change`].
    pub nics: Vec<NicBacking>,
    /// Storage policy IDs for the VM home. Disks specify their own policies.
    pub profiles: Vec<String>,
}

impl From<RelocateSpec> for Value {
    fn from(spec: RelocateSpec) -> Self {
        Object::new("VirtualMachineRelocateSpec")
            .with_some("datastore", spec.datastore)
            .with_some("diskMoveType", spec.disk_move_type.map(DiskMoveType::name))
            .with_some("pool", spec.pool)
            .with_some("host", spec.host)
            .with_list("disk", spec.disks)
            .with_list("deviceChange", spec.nics)
            .with_list("profile", profiles(spec.profiles))
            .into()
    }
}

/// The parameters for cloning a VM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloneSpec {
    /// The clone's location.
    pub location: RelocateSpec,
    /// True if the clone becomes a template.
    pub template: bool,
    /// The settings that differ from the source.
    pub config: Option<ConfigSpec>,
    /// The guest customization for the first power-on.
    pub customization: Option<CustomizationSpec>,
    /// True if the same task powers on the clone.
    pub power_on: bool,
    /// The snapshot to clone, which a linked clone requires.
    pub snapshot: Option<MoRef>,
}

impl From<CloneSpec> for Value {
    fn from(spec: CloneSpec) -> Self {
        Object::new("VirtualMachineCloneSpec")
            .with("location", spec.location)
            .with("template", spec.template)
            .with_some("config", spec.config)
            .with_some("customization", spec.customization)
            .with("powerOn", spec.power_on)
            .with_some("snapshot", spec.snapshot)
            .into()
    }
}

/// Escapes a name as vCenter stores it: `%`, `/` and `\` become `%25`, `%2f` and `%5c`.
pub(crate) fn escape_name(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            '/' => escaped.push_str("%2f"),
            '\\' => escaped.push_str("%5c"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Decodes a name as vCenter stores it into the name that the user entered.
pub fn unescape_name(name: &str) -> String {
    if !name.contains('%') {
        return name.to_owned();
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let (c, taken) = match rest.get(at..at + 3) {
            Some("%25") => ('%', 3),
            Some("%2f" | "%2F") => ('/', 3),
            Some("%5c" | "%5C") => ('\\', 3),
            _ => ('%', 1),
        };
        plain.push(c);
        rest = &rest[at + taken..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_survive_escaping(name in ".*") {
            prop_assert_eq!(unescape_name(&escape_name(&name)), name);
        }
    }
}
