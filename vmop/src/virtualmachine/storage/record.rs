//! Records which disks are the VM's own, by UUID and file, because foreign disks may be attached to the same controller slots
//! later.
//!
//! ExtraConfig lists the controller slots of the VM's own disks, because the UUIDs of a clone's disks are only known after the
//! clone. The object records which disks were first found there, in the same write that records that the VM exists. After a
//! crash before this write, the slots decide.

use std::collections::BTreeMap;

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use vsphere::{Devices, VirtualDisk, Vm};

use super::marks::{find_slot, parse_marks};

/// The first observed state of one of the VM's own disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedDisk {
    /// The disk's UUID, which doesn't change when the disk is moved.
    pub uuid: String,
    /// The disk's file when it was recorded, such as `[ds1] cp-0/cp-0.vmdk`.
    pub file: String,
}

/// The VM's own disks, by the controller slot in which each was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskRecord(BTreeMap<String, RecordedDisk>);

impl DiskRecord {
    /// Parses the record in the VirtualMachine's annotation. An invalid record counts as empty, so that disks are judged by
    /// their slots.
    pub fn of(vm: &VirtualMachine) -> Self {
        let written = vm.annotations().get(annotation::DISKS);
        Self(written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// Returns the serialized record after adding the own disks that it lacks, or `None` if it is complete or the VM's devices
    /// aren't known.
    pub fn complete_record(&self, vsphere_vm: &Vm) -> Option<String> {
        let devices = vsphere_vm.devices.as_deref().filter(|_| vsphere_vm.is_available())?;
        let mut all = self.0.clone();
        for mark in parse_marks(vsphere_vm).into_iter().filter(|mark| !self.0.contains_key(&mark.place)) {
            let hangs_there = |disk: &&VirtualDisk| find_slot(devices, disk).as_deref() == Some(&mark.place);
            let there =
                devices.disks.iter().find(hangs_there).filter(|disk| self.is_own(vsphere_vm, devices, disk));
            if let Some((disk, uuid)) = there.and_then(|disk| Some((disk, disk.uuid.clone()?))) {
                all.insert(mark.place, RecordedDisk { uuid, file: disk.file.clone().unwrap_or_default() });
            }
        }
        (all != self.0).then(|| serde_json::to_string(&all).unwrap_or_default())
    }

    /// Returns true if the disk belongs to the VM: it was created for the VM and must be destroyed with it. First-class disks
    /// never belong to the VM. A recorded disk belongs to the VM, unless it is a copy of the recorded file.
    ///
    /// An unrecorded disk belongs to the VM only if its slot is marked and isn't recorded for another disk, and if the disk's
    /// file is in the folder of the VM's files. A file on another datastore must have the VM's name in its path instead.
    pub fn is_own(&self, vsphere_vm: &Vm, devices: &Devices, disk: &VirtualDisk) -> bool {
        if disk.first_class.is_some() {
            // Persistent volumes never belong to the VM, in any slot.
            return false;
        }
        let recorded = self.0.values().find(|recorded| disk.uuid.as_deref() == Some(&recorded.uuid));
        if let Some(recorded) = recorded {
            return is_at(disk, &recorded.file) || !has_twin_at(devices, disk, &recorded.file);
        }
        let Some(place) = find_slot(devices, disk) else { return false };
        let Some(mark) = parse_marks(vsphere_vm).into_iter().find(|mark| mark.place == place) else {
            return false;
        };
        let is_elsewhere = mark.elsewhere && has_name_of(vsphere_vm, disk);
        !self.0.contains_key(&place) && (in_home_folder(devices, disk) || is_elsewhere)
    }

    /// Returns the UUID of the disk that was recorded for the slot, if there is one.
    pub fn uuid_at(&self, place: &str) -> Option<&str> {
        self.0.get(place).map(|recorded| recorded.uuid.as_str())
    }

    /// Returns the disks that don't belong to the VM.
    pub fn foreign(&self, vsphere_vm: &Vm, devices: &Devices) -> Vec<VirtualDisk> {
        devices.disks.iter().filter(|disk| !self.is_own(vsphere_vm, devices, disk)).cloned().collect()
    }
}

/// Returns true if the disk is in the file, or is a snapshot delta on top of it.
fn is_at(disk: &VirtualDisk, file: &str) -> bool {
    disk.file.as_deref() == Some(file) || disk.parents.iter().any(|parent| parent == file)
}

/// Returns true if another disk has the same UUID and uses the file. Then this disk is a copy of the file.
fn has_twin_at(devices: &Devices, disk: &VirtualDisk, file: &str) -> bool {
    devices.disks.iter().any(|other| other.key != disk.key && other.uuid == disk.uuid && is_at(other, file))
}

/// Returns true if the disk's file is in the same folder as the VM's first disk.
fn in_home_folder(devices: &Devices, disk: &VirtualDisk) -> bool {
    let folder =
        |disk: &VirtualDisk| disk.file.as_deref().and_then(|file| Some(file.rsplit_once('/')?.0.to_owned()));
    let home = devices.disks.first().and_then(folder);
    home.is_some() && folder(disk) == home
}

/// Returns true if the disk's file or folder has the VM's name, optionally with a numeric suffix, as vCenter names new disks.
fn has_name_of(vsphere_vm: &Vm, disk: &VirtualDisk) -> bool {
    let Some((_, path)) = disk.file.as_deref().and_then(|file| file.split_once("] ")) else { return false };
    let is_name = |part: &str| {
        let rest = part.strip_prefix(vsphere_vm.name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('_').is_some_and(is_number))
    };
    let (folder, file) = path.rsplit_once('/').unwrap_or_default();
    is_name(folder) || is_name(file.trim_end_matches(".vmdk"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vsphere::DiskController;

    use super::*;
    use crate::testing::fixtures;
    use crate::virtualmachine::storage::marks::DISKS;

    fn disk(unit: i32, uuid: &str, file: &str) -> VirtualDisk {
        VirtualDisk {
            key: 2000 + unit,
            controller: Some(1000),
            unit: Some(unit),
            file: Some(format!("[ds1] {file}.vmdk")),
            uuid: Some(uuid.to_owned()),
            ..VirtualDisk::default()
        }
    }

    fn vsphere_vm(disks: &[VirtualDisk]) -> Vm {
        let controller =
            DiskController { key: 1000, kind: "ParaVirtualSCSIController", bus: 0, reserved_unit: Some(7) };
        let devices = Devices { disks: disks.to_vec(), controllers: vec![controller], ..Devices::default() };
        let mut vsphere_vm = fixtures::vsphere_vm();
        vsphere_vm.extra_config.insert(DISKS.to_owned(), "scsi0:0 scsi0:1=data".to_owned());
        vsphere_vm.devices = Some(Arc::new(devices));
        vsphere_vm
    }

    fn record(text: Option<String>) -> DiskRecord {
        let mut vm = fixtures::virtual_machine();
        vm.metadata.annotations = text.map(|text| [(annotation::DISKS.to_owned(), text)].into());
        DiskRecord::of(&vm)
    }

    fn foreign(record: &DiskRecord, vsphere_vm: &Vm) -> Vec<i32> {
        let foreign = record.foreign(vsphere_vm, vsphere_vm.devices.as_ref().unwrap());
        foreign.into_iter().map(|disk| disk.unit.unwrap()).collect()
    }

    #[test]
    fn own_disks_are_known_by_uuid_wherever_they_hang() {
        let made = vsphere_vm(&[disk(0, "u0", "cp-0/cp-0"), disk(1, "u1", "cp-0/cp-0_1")]);
        let kept = record(record(None).complete_record(&made));
        assert_eq!((kept.0.len(), kept.complete_record(&made)), (2, None));
        for (disks, theirs) in [
            (vec![disk(0, "u0", "cp-0/cp-0"), disk(1, "u1", "cp-0/cp-0_1")], vec![]),
            // Attached elsewhere, moved to another datastore, with a snapshot.
            (vec![disk(1, "u0", "cp-0/cp-0"), disk(4, "u1", "moved/cp-0_1-000001")], vec![]),
            // In a vacated slot: from a foreign folder and from the VM's own folder.
            (vec![disk(0, "u0", "cp-0/cp-0"), disk(1, "x", "theirs/disk")], vec![1]),
            (vec![disk(0, "u0", "cp-0/cp-0"), disk(1, "x", "cp-0/cp-0_1")], vec![1]),
            // A copy of an own disk's file beside the original.
            (
                vec![disk(0, "u0", "cp-0/cp-0"), disk(1, "u1", "cp-0/cp-0_1"), disk(2, "u1", "theirs/copy")],
                vec![2],
            ),
            // Foreign disks in both slots.
            (vec![disk(0, "x", "theirs/a"), disk(1, "y", "theirs/b")], vec![0, 1]),
        ] {
            assert_eq!(foreign(&kept, &vsphere_vm(&disks)), theirs, "{disks:?}");
        }
        let volume = VirtualDisk { first_class: Some("id".into()), ..disk(1, "u1", "cp-0/cp-0_1") };
        assert_eq!(foreign(&kept, &vsphere_vm(&[disk(0, "u0", "cp-0/cp-0"), volume])), [1]);
    }

    #[test]
    fn a_disk_on_a_datastore_of_its_own_is_the_vms() {
        let on = |file: &str| VirtualDisk { file: Some(file.to_owned()), ..disk(1, "u1", "") };
        for (file, theirs) in [
            ("[ds2] cp-0/cp-0.vmdk", vec![]),
            ("[ds2] cp-0_1/cp-0.vmdk", vec![]),
            ("[vsan] 5f3c/cp-0_1.vmdk", vec![]),
            ("[ds2] cp-01/cp-01.vmdk", vec![1]),
            ("[ds2] theirs/disk.vmdk", vec![1]),
        ] {
            let mut made = vsphere_vm(&[disk(0, "u0", "cp-0/cp-0"), on(file)]);
            assert_eq!(foreign(&record(None), &made), [1], "nothing says that it may lie elsewhere");
            made.extra_config.insert(DISKS.to_owned(), "scsi0:0 scsi0:1@=data".to_owned());
            assert_eq!(foreign(&record(None), &made), theirs, "{file}");
            let kept = record(record(None).complete_record(&made));
            assert_eq!(kept.0.contains_key("scsi0:1"), theirs.is_empty(), "{file}");
            assert_eq!(foreign(&kept, &made), theirs, "{file}");
        }
    }

    #[test]
    fn without_a_record_places_count_in_the_vms_own_folder_alone() {
        let none = record(None);
        assert_eq!(record(Some("no record".into())), none);
        let disks = [disk(0, "u0", "cp-0/cp-0"), disk(1, "x", "theirs/disk"), disk(2, "y", "cp-0/cp-0_2")];
        let mut made = vsphere_vm(&disks);
        assert_eq!(foreign(&none, &made), [1, 2]);
        let kept = record(none.complete_record(&made));
        assert_eq!(kept.0.keys().collect::<Vec<_>>(), ["scsi0:0"], "what may be another's is not recorded");
        made.extra_config.remove(DISKS);
        assert_eq!(foreign(&none, &made), [0, 1, 2], "without marks, no disk is destroyed");
        made.connection_state = "disconnected".into();
        assert_eq!(none.complete_record(&made), None);
    }
}
