//! The one call that makes a machine: everything it is to be, in one specification.

use api::names::annotation;
use api::vmop::{POWERED_ON, VirtualMachine};
use kube::ResourceExt;
use uuid::Uuid;
use vsphere::{
    BaseConfig, CloneSpec, ConfigSpec, DeviceChange, DiskMoveType, MoRef, RelocateSpec, VirtualNic,
};

use crate::templates::Template;
use crate::vcenter::mark::Mark;
use crate::vcenter::{Placement, mark};
use crate::virtualmachine::bootstrap::Bootstrap;
use crate::virtualmachine::nic::change;
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::size::class::{MMIO, MMIO_SIZE, Size};
use crate::virtualmachine::storage::class::Storage;
use crate::virtualmachine::storage::disks::Layout;
use crate::virtualmachine::storage::marks::DISKS;

/// Who a machine is, in vCenter and for its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The BIOS UUID, which the guest sees.
    pub bios: Uuid,
    /// The UUID by which vCenter tells machines apart.
    pub instance: Uuid,
}

/// A machine to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// What it is cloned from.
    pub template: MoRef,
    /// The folder: with the name, the lock against a second one.
    pub folder: MoRef,
    /// Its name.
    pub name: String,
    /// Everything else.
    pub spec: CloneSpec,
}

/// What goes into a machine, all of it settled.
pub struct Parts<'a> {
    /// Who it is.
    pub identity: Identity,
    /// Whose it is.
    pub mark: &'a Mark,
    /// Its size.
    pub size: &'a Size,
    /// What it is cloned from.
    pub template: &'a Template,
    /// Its network cards.
    pub cards: &'a [Card],
    /// What the guest is told.
    pub bootstrap: &'a Bootstrap,
    /// Where it lies.
    pub place: &'a Placement,
    /// What its disks lie on.
    pub storage: &'a Storage,
    /// How its disks come about.
    pub disks: Layout,
}

/// The machine of `vm`, made of these parts.
pub fn intent(vm: &VirtualMachine, parts: &Parts<'_>) -> Intent {
    let location = RelocateSpec {
        datastore: parts.storage.datastore.clone(),
        disk_move_type: Some(parts.disks.move_type),
        pool: Some(parts.place.pool.clone()),
        disks: parts.disks.locators.clone(),
        device_change: cards(&parts.template.devices.nics, parts.cards, without_cards(vm))
            .into_iter()
            .chain(parts.disks.changes.clone())
            .collect(),
        profiles: policies(parts.storage),
        ..RelocateSpec::default()
    };
    let spec = CloneSpec {
        location,
        template: false,
        config: Some(config(vm, parts)),
        customization: parts.bootstrap.customization.clone(),
        power_on: wants_power(vm),
        snapshot: Some(parts.template.snapshot.clone()),
    };
    Intent {
        template: parts.template.moref.clone(),
        folder: parts.place.folder.clone(),
        name: vm.name_any(),
        spec,
    }
}

/// Whether the machine is to run.
pub fn wants_power(vm: &VirtualMachine) -> bool {
    vm.spec.power_state.as_deref().is_none_or(|state| state.is_empty() || state == POWERED_ON)
}

/// Whether the machine shall have no network card, whatever its template has.
pub fn without_cards(vm: &VirtualMachine) -> bool {
    vm.spec.network_interfaces.is_empty() && vm.annotations().contains_key(annotation::NO_DEFAULT_NIC)
}

/// The policy of the machine's home and disks.
fn policies(storage: &Storage) -> Vec<String> {
    storage.policy.iter().map(|policy| policy.id.clone()).collect()
}

fn config(vm: &VirtualMachine, parts: &Parts<'_>) -> ConfigSpec {
    let name = format!("{}/{}", vm.namespace().unwrap_or_default(), vm.name_any());
    let fixed = [("disk.enableUUID", "TRUE")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let (v_app_config, v_app_config_removed) = parts.bootstrap.v_app_config();
    let extra_config = fixed
        .into_iter()
        .chain(parts.mark.extra_config())
        .chain([(mark::BASE, base(parts)), (DISKS, parts.disks.mark.as_str())].map(owned))
        .chain([change::noted(vm)])
        .chain(memory_mapped_io(vm, parts.size))
        .chain(parts.bootstrap.entries())
        .collect();
    ConfigSpec {
        uuid: Some(parts.identity.bios.to_string()),
        instance_uuid: Some(parts.identity.instance.to_string()),
        annotation: Some(format!("VirtualMachine {name}. Change it there, not here.")),
        num_cpus: Some(parts.size.cpus),
        memory_mib: Some(parts.size.memory_mib),
        cpu_allocation: Some(explicit(parts.size.cpu)),
        memory_allocation: Some(explicit(parts.size.memory)),
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

/// The firmware that the object asks for, where it is one.
fn firmware(vm: &VirtualMachine) -> Option<String> {
    let asked = vm.annotations().get(annotation::FIRMWARE)?;
    Some(asked.clone()).filter(|firmware| matches!(firmware.as_str(), "bios" | "efi"))
}

/// How much memory-mapped I/O the object asks for, where its class passes devices through; blank takes an option off.
fn memory_mapped_io(vm: &VirtualMachine, size: &Size) -> Vec<(String, String)> {
    let passes = size.config.as_ref().is_some_and(BaseConfig::passes_through);
    let asked = vm.annotations().get(annotation::MMIO_SIZE).map(|size| size.trim());
    let options = match asked.filter(|size| passes && !size.is_empty()) {
        None => return Vec::new(),
        Some("0") => [(MMIO, ""), (MMIO_SIZE, "")],
        Some(size) => [(MMIO, "TRUE"), (MMIO_SIZE, size)],
    };
    options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// The template that the machine's disks rest on; empty where they are its own.
fn base<'a>(parts: &Parts<'a>) -> &'a str {
    match parts.disks.move_type {
        DiskMoveType::CreateNewChildDiskBacking => &parts.template.name,
        DiskMoveType::MoveAllDiskBackingsAndAllowSharing
        | DiskMoveType::MoveAllDiskBackingsAndDisallowSharing => "",
    }
}

/// What the class leaves out is nothing and unlimited, whatever the template has.
fn explicit(allocation: vsphere::Allocation) -> vsphere::Allocation {
    vsphere::Allocation {
        reservation: Some(allocation.reservation.unwrap_or(0)),
        limit: Some(allocation.limit.unwrap_or(-1)),
        expandable: None,
    }
}

/// Turns the template's cards into the wanted ones: re-plugs those that fit, swaps and adds the others.
///
/// Without wanted cards the template's stay as they are, unless there shall be `none`.
pub fn cards(present: &[VirtualNic], wanted: &[Card], none: bool) -> Vec<DeviceChange> {
    if wanted.is_empty() && !none {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let mut added = 0;
    for (at, card) in wanted.iter().enumerate() {
        let here = present.get(at);
        if let Some(same) = here.filter(|here| here.kind == card.kind) {
            changes.push(DeviceChange::Edit(plugged(same.key, card)));
            continue;
        }
        changes.extend(here.map(removed));
        added -= 1;
        changes.push(DeviceChange::Add(plugged(added * 100, card)));
    }
    changes.extend(present.iter().skip(wanted.len()).map(removed));
    changes
}

pub fn plugged(key: i32, card: &Card) -> VirtualNic {
    VirtualNic {
        key,
        kind: card.kind,
        backing: Some(card.backing.clone()),
        mac: card.mac.clone(),
        address: None,
        external_id: card.external_id.clone(),
    }
}

pub fn removed(card: &VirtualNic) -> DeviceChange {
    DeviceChange::Remove(VirtualNic {
        backing: None,
        mac: None,
        address: None,
        external_id: None,
        ..card.clone()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::fixtures;

    fn annotated(key: &str, value: &str) -> VirtualMachine {
        let mut vm = fixtures::virtual_machine();
        vm.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        vm
    }

    #[test]
    fn an_object_chooses_its_firmware() {
        assert_eq!(firmware(&fixtures::virtual_machine()), None);
        for (value, taken) in [("efi", Some("efi")), ("bios", Some("bios")), ("coreboot", None)] {
            assert_eq!(firmware(&annotated(annotation::FIRMWARE, value)).as_deref(), taken);
        }
    }

    #[test]
    fn an_object_sizes_the_memory_of_its_passed_through_devices() {
        let passes = json!({ "hardware": { "cpus": 2, "memory": "4Gi",
            "devices": { "vgpuDevices": [{ "profileName": "grid_v100-4q" }] } } });
        let plain = json!({ "hardware": { "cpus": 2, "memory": "4Gi" } });
        let size = |spec: &serde_json::Value| {
            let class = json!({ "metadata": { "name": "gpu" }, "spec": spec });
            crate::virtualmachine::size::class::size(&serde_json::from_value(class).unwrap(), 0).unwrap()
        };
        let asked = |value: &str, spec| {
            let options = memory_mapped_io(&annotated(annotation::MMIO_SIZE, value), &size(spec));
            options.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(asked("128", &passes), ["TRUE", "128"]);
        assert_eq!(asked("0", &passes), ["", ""]);
        assert_eq!(asked("128", &plain), [""; 0]);
        assert!(
            memory_mapped_io(&fixtures::virtual_machine(), &size(&passes)).is_empty(),
            "the class's own stands"
        );
    }
}
