//! A VM as it shall be.

use super::customization::CustomizationSpec;
use super::device::{DeviceChange, NicBacking};
use super::disk::{DiskLocator, DiskMoveType};
use super::extra_config::ExtraConfig;
use super::profile::profiles;
use super::raw::BaseConfig;
use super::vapp::VAppConfigSpec;
use crate::{MoRef, Object, Value};

/// Settings of a VM; what is `None` or empty stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigSpec {
    /// Refuses the change if the VM's version is another by now.
    pub change_version: Option<String>,
    /// The name in the inventory.
    pub name: Option<String>,
    /// The BIOS UUID, which the guest sees.
    pub uuid: Option<String>,
    /// The UUID by which vCenter distinguishes VMs.
    pub instance_uuid: Option<String>,
    /// The guest operating system's id.
    pub guest_id: Option<String>,
    /// The notes.
    pub annotation: Option<String>,
    /// The package of the customisation that waits for the guest's next start; an empty one takes it off.
    pub pending_customization: Option<String>,
    /// Virtual CPUs.
    pub num_cpus: Option<u32>,
    /// How many of them a socket has; what is left out stays as it is, and must divide them.
    pub num_cores_per_socket: Option<u32>,
    /// Memory.
    pub memory_mib: Option<i64>,
    /// Network adapters and other devices.
    pub device_change: Vec<DeviceChange>,
    /// CPU in MHz.
    pub cpu_allocation: Option<Allocation>,
    /// Memory in MiB.
    pub memory_allocation: Option<Allocation>,
    /// ExtraConfig; an empty value removes the key.
    pub extra_config: ExtraConfig,
    /// OVF properties.
    pub v_app_config: Option<VAppConfigSpec>,
    /// Drops the OVF environment, so that cloud-init does not prefer it to guestinfo.
    pub v_app_config_removed: Option<bool>,
    /// Changed block tracking.
    pub change_tracking_enabled: Option<bool>,
    /// `bios` or `efi`.
    pub firmware: Option<String>,
    /// Whose VM it is.
    pub managed_by: Option<ManagedBy>,
    /// Storage policies of the home, by id. Disks have their own.
    pub profiles: Vec<String>,
    /// Settings below all these, which hold where nothing here is given.
    pub base: Option<BaseConfig>,
}

/// Who manages a VM, as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedBy {
    /// The extension's key.
    pub extension_key: String,
    /// The type within the extension.
    pub kind: String,
}

/// What of a resource is guaranteed and what is allowed; MHz for CPU, MiB for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// What is guaranteed.
    pub reservation: Option<i64>,
    /// Whether a pool may take from its parent to guarantee it (pools only).
    pub expandable: Option<bool>,
    /// What is allowed at most; -1 for no limit.
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

/// Where a VM shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelocateSpec {
    /// The datastore of its home and disks; the source's by default.
    pub datastore: Option<MoRef>,
    /// How its disks come about.
    pub disk_move_type: Option<DiskMoveType>,
    /// The resource pool; a clone of a template needs one.
    pub pool: Option<MoRef>,
    /// The host; only a cluster without DRS needs one.
    pub host: Option<MoRef>,
    /// Disks of the source that come about otherwise than the rest.
    pub disks: Vec<DiskLocator>,
    /// The networks of the source's NICs. All other changes of devices belong to the settings: here they are ignored.
    pub nics: Vec<NicBacking>,
    /// Storage policies of the home, by id. Disks have their own.
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

/// A clone as it shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloneSpec {
    /// Where it shall be.
    pub location: RelocateSpec,
    /// Whether it becomes a template.
    pub template: bool,
    /// What differs from the source.
    pub config: Option<ConfigSpec>,
    /// What the guest is given at its first power-on.
    pub customization: Option<CustomizationSpec>,
    /// Whether it is powered on in the same task.
    pub power_on: bool,
    /// The snapshot it starts from; a linked clone needs one.
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

/// A name as vCenter stores it: `%`, `/` and `\` are written as escapes.
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

/// The name that a person gave, from the one that vCenter stores.
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
