//! Composes the single call that creates a VM. Each aspect contributes a part of the clone specification.

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{BaseConfig, CloneSpec, ConfigSpec, DiskMoveType, MoRef, RelocateSpec};

use super::bootstrap::data::Bootstrap;
use super::identity::uuids::Identity;
use super::nic::adapter::Nic;
use super::nic::device_changes::{clone_nics, without_nics};
use super::power::state::wants_power_on;
use super::size::class::{MMIO, MMIO_SIZE, Size};
use super::step::fill_defaults;
use super::storage::class::Storage;
use super::storage::disks::Layout;
use super::storage::marks::DISKS;
use crate::device_check::nics_note;
use crate::templates::GoldenTemplate;
use crate::vcenter::Placement;
use crate::vcenter::endpoints;
use crate::vcenter::mark::{self, Mark};

/// The plan for the clone call that creates a VM.
#[derive(Clone, Debug, PartialEq)]
pub struct ClonePlan {
    /// The template to clone.
    pub template: MoRef,
    /// The folder. vCenter rejects a second VM with the same name in a folder, so the folder and the name together prevent
    /// duplicate VMs.
    pub folder: MoRef,
    pub name: String,
    pub spec: CloneSpec,
}

/// The resolved parts from which a clone is composed.
pub struct CloneParts<'a> {
    pub identity: Identity,
    /// The mark for the new VM.
    pub mark: &'a Mark,
    pub size: &'a Size,
    pub template: &'a GoldenTemplate,
    pub nics: &'a [Nic],
    pub bootstrap: &'a Bootstrap,
    pub placement: &'a Placement,
    pub storage: &'a Storage,
    /// The plan for the disks: linked, copied, grown or added.
    pub disks: Layout,
}

/// Composes the clone for `vm` from its parts.
pub fn compose_clone(vm: &VirtualMachine, parts: &CloneParts<'_>) -> ClonePlan {
    let nics = clone_nics(&parts.template.devices.nics, parts.nics, without_nics(vm));
    let device_change = nics.changes.into_iter().chain(parts.disks.changes.clone()).collect();
    let location = RelocateSpec {
        datastore: parts.storage.datastore.clone(),
        disk_move_type: Some(parts.disks.move_type),
        pool: Some(parts.placement.pool.clone()),
        disks: parts.disks.locators.clone(),
        nics: nics.backings,
        profiles: policies(parts.storage),
        ..RelocateSpec::default()
    };
    let spec = CloneSpec {
        location,
        template: false,
        config: Some(ConfigSpec { device_change, ..config(vm, parts) }),
        customization: parts.bootstrap.customization.clone(),
        power_on: wants_power_on(vm),
        snapshot: Some(parts.template.snapshot.clone()),
    };
    ClonePlan {
        template: parts.template.moref.clone(),
        folder: parts.placement.folder.clone(),
        name: vm.name_any(),
        spec,
    }
}

/// Returns the ID of the storage policy for the VM home files, or an empty list without a policy. The disk locators name the
/// policy again.
fn policies(storage: &Storage) -> Vec<String> {
    storage.policy.iter().map(|policy| policy.id.clone()).collect()
}

fn config(vm: &VirtualMachine, parts: &CloneParts<'_>) -> ConfigSpec {
    let name = format!("{}/{}", vm.namespace().unwrap_or_default(), vm.name_any());
    let fixed = [("disk.enableUUID", "TRUE")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let (v_app_config, v_app_config_removed) = parts.bootstrap.v_app_config();
    let extra_config = fixed
        .into_iter()
        .chain(parts.mark.extra_config())
        .chain(endpoints::extra_config(vm))
        .chain([(mark::BASE, base(parts)), (DISKS, parts.disks.mark.as_str())].map(owned))
        .chain([nics_note(vm)])
        .chain(memory_mapped_io(vm, parts.size))
        .chain(parts.bootstrap.entries())
        .collect();
    ConfigSpec {
        uuid: Some(parts.identity.bios.to_string()),
        instance_uuid: Some(parts.identity.instance.to_string()),
        annotation: Some(format!("VirtualMachine {name}. Change it there, not here.")),
        num_cpus: Some(parts.size.cpus),
        num_cores_per_socket: parts.size.cores_per_socket(),
        memory_mib: Some(parts.size.memory_mib),
        // Set explicit defaults, so that settings that the class omits aren't inherited from the template.
        cpu_allocation: Some(fill_defaults(parts.size.cpu)),
        memory_allocation: Some(fill_defaults(parts.size.memory)),
        extra_config,
        v_app_config,
        v_app_config_removed,
        firmware: firmware(vm),
        managed_by: Some(mark::managed_by()),
        profiles: policies(parts.storage),
        base: parts.size.config.clone(),
        ..ConfigSpec::default()
    }
}

/// Returns the requested firmware, if the value is valid.
fn firmware(vm: &VirtualMachine) -> Option<String> {
    let asked = vm.annotations().get(annotation::FIRMWARE)?;
    Some(asked.clone()).filter(|firmware| matches!(firmware.as_str(), "bios" | "efi"))
}

/// Returns the requested memory-mapped I/O options if the class has passthrough devices. If the requested size is 0, the values
/// are empty, which removes the options.
fn memory_mapped_io(vm: &VirtualMachine, size: &Size) -> Vec<(String, String)> {
    let passthrough = size.config.as_ref().is_some_and(BaseConfig::has_passthrough);
    let asked = vm.annotations().get(annotation::MMIO_SIZE).map(|size| size.trim());
    let options = match asked.filter(|size| passthrough && !size.is_empty()) {
        None => return Vec::new(),
        Some("0") => [(MMIO, ""), (MMIO_SIZE, "")],
        Some(size) => [(MMIO, "TRUE"), (MMIO_SIZE, size)],
    };
    options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Returns the template name if the VM's disks are linked to the template, or an empty string.
fn base<'a>(parts: &CloneParts<'a>) -> &'a str {
    match parts.disks.move_type {
        DiskMoveType::CreateNewChildDiskBacking => &parts.template.name,
        DiskMoveType::MoveAllDiskBackingsAndDisallowSharing => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn an_object_chooses_its_firmware() {
        assert_eq!(firmware(&fixtures::virtual_machine()), None);
        for (value, taken) in [("efi", Some("efi")), ("bios", Some("bios")), ("coreboot", None)] {
            assert_eq!(firmware(&fixtures::annotated(annotation::FIRMWARE, value)).as_deref(), taken);
        }
    }

    #[test]
    fn an_object_sizes_the_memory_of_its_passed_through_devices() {
        let passthrough = json!({ "hardware": { "cpus": 2, "memory": "4Gi",
            "devices": { "vgpuDevices": [{ "profileName": "grid_v100-4q" }] } } });
        let plain = json!({ "hardware": { "cpus": 2, "memory": "4Gi" } });
        let size = |spec: &serde_json::Value| {
            let class = json!({ "metadata": { "name": "gpu" }, "spec": spec });
            crate::virtualmachine::size::class::parse_size(&serde_json::from_value(class).unwrap(), 0)
                .unwrap()
        };
        let asked = |value: &str, spec| {
            let options = memory_mapped_io(&fixtures::annotated(annotation::MMIO_SIZE, value), &size(spec));
            options.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(asked("128", &passthrough), ["TRUE", "128"]);
        assert_eq!(asked("0", &passthrough), ["", ""]);
        assert_eq!(asked("128", &plain), [""; 0]);
        let unasked = memory_mapped_io(&fixtures::virtual_machine(), &size(&passthrough));
        assert!(unasked.is_empty(), "the class's own stands");
    }
}
