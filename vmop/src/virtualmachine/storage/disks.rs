//! VM disks: the image's disks and the VM's own vSphere volumes.
//!
//! The VM's ExtraConfig marks the controller slots of the disks that we created, and an annotation of the VirtualMachine
//! records which disks were found there ([`super::record`]). A disk that someone else attached must never be destroyed with the
//! VM.

use api::vmop::{LARGEST_DISK_MIB, VirtualMachine, VirtualMachineVolume, VirtualMachineVolumeStatus};
use vsphere::{
    ConfigSpec, DeviceChange, Devices, DiskChange, DiskLocator, DiskMoveType, DiskProvisioning, MoRef,
    VirtualDisk, Vm,
};

use crate::device_check::{changing_note, unchecked};
use crate::virtualmachine::storage::class::Storage;

#[cfg(test)]
mod tests;

use crate::virtualmachine::storage::marks::{DISKS, DiskMark, find_slot, format_marks, parse_marks};
use crate::virtualmachine::storage::places::{DiskSlot, DiskSlots, NEW_CONTROLLER};
use crate::virtualmachine::storage::record::DiskRecord;

/// The annotation, as in vm-operator, that selects a full clone (`direct`) or a linked clone (`linked`).
pub const FAST_DEPLOY: &str = "vmoperator.vmware.com/fast-deploy";
/// The key for the size in [`api::vmop::VSphereVolume::capacity`].
const SIZE: &str = "ephemeral-storage";
/// The first device key of new disks. Further keys decrease.
const NEW_DISK: i32 = -1000;

/// The plan for a clone's disks.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Linked clones or full copies of the template's disks.
    pub move_type: DiskMoveType,
    /// Settings for disks that differ from the clone's defaults.
    pub locators: Vec<DiskLocator>,
    /// Disks to grow or to add.
    pub changes: Vec<DeviceChange>,
    /// The value for ExtraConfig key [`DISKS`].
    pub mark: String,
}

/// Plans the disks of a new VM. `direct` is true if disks are fully copied by default instead of linked. The error is a message
/// that the user can act on.
///
/// The function is long because controller slots are assigned in one order: image disks, grown disks, new disks.
pub fn plan_disks(
    vm: &VirtualMachine,
    template: &Devices,
    storage: &Storage,
    direct: bool,
) -> Result<Layout, String> {
    let provisioning = read_provisioning(vm)?;
    let encrypts = storage.policy.as_ref().is_some_and(|policy| policy.encrypts);
    let mut marks: Vec<DiskMark> =
        template.disks.iter().filter_map(|disk| DiskMark::of(template, disk, None)).collect();
    let (mut grown, mut created) = (Vec::new(), Vec::new());
    for (volume, size, key) in list_sized_volumes(vm)? {
        match key.map(|key| find_disk(volume, key, &template.disks)).transpose()? {
            Some(disk) if size < disk.capacity => return Err(describe_small_volume(volume, disk)),
            Some(disk) => {
                marks.retain(|mark| DiskMark::of(template, disk, None).as_ref() != Some(mark));
                marks.extend(DiskMark::of(template, disk, Some(volume)));
                if size > disk.capacity {
                    grown.push(DiskChange::Grow(disk.clone(), size));
                }
            }
            None => created.push((volume, size)),
        }
    }
    let full = read_clone_mode(vm).unwrap_or(direct)
        || encrypts
        || !grown.is_empty()
        || matches!(provisioning, DiskProvisioning::Thick | DiskProvisioning::EagerZeroed);
    if let Some(disk) = template.disks.iter().find(|disk| !full && lies_elsewhere(disk, storage)) {
        return Err(describe_moved_disk(disk));
    }
    let (new, new_marks) = new_disks(template, storage, provisioning, &created)?;
    marks.extend(new_marks);
    let policies = storage.policy.iter().map(|policy| policy.id.clone()).collect::<Vec<_>>();
    let datastore = |disk: &VirtualDisk| storage.datastore.clone().or_else(|| disk.datastore.clone());
    // Only a locator sets a disk's policy. The location's policy applies to the VM home.
    let own_way = full && provisioning != DiskProvisioning::Default || !policies.is_empty();
    let move_type = if full { FULL } else { DiskMoveType::CreateNewChildDiskBacking };
    let locator = |disk: &VirtualDisk, datastore: MoRef| DiskLocator {
        key: disk.key,
        datastore,
        move_type: Some(move_type),
        provisioning: if full { provisioning } else { DiskProvisioning::Default },
        profiles: policies.clone(),
    };
    let disks = template.disks.iter().filter(|_| own_way);
    Ok(Layout {
        move_type,
        locators: disks.filter_map(|disk| Some(locator(disk, datastore(disk)?))).collect(),
        changes: grown.into_iter().chain(new).map(DeviceChange::Disk).collect(),
        mark: format_marks(&marks),
    })
}

/// Returns true if the template's disk is known to be on a different datastore than the VM.
fn lies_elsewhere(disk: &VirtualDisk, storage: &Storage) -> bool {
    disk.datastore.is_some() && storage.datastore.is_some() && disk.datastore != storage.datastore
}

fn describe_moved_disk(disk: &VirtualDisk) -> String {
    format!(
        "The disk {} of the image's template is no longer on the VM's datastore, and vCenter does not guarantee linked disks across datastores. Move the template back to its datastore, or set the annotation {FAST_DEPLOY}: direct",
        disk.file.as_deref().unwrap_or_default()
    )
}

const FULL: DiskMoveType = DiskMoveType::MoveAllDiskBackingsAndDisallowSharing;

/// Returns the clone mode that the annotation requests; true means full copies.
fn read_clone_mode(vm: &VirtualMachine) -> Option<bool> {
    let annotations = vm.metadata.annotations.as_ref()?;
    match annotations.get(FAST_DEPLOY)?.as_str() {
        "direct" => Some(true),
        "linked" => Some(false),
        _ => None,
    }
}

fn read_provisioning(vm: &VirtualMachine) -> Result<DiskProvisioning, String> {
    let advanced = vm.spec.advanced_options.as_ref();
    let Some(options) = advanced.and_then(|options| options.default_volume_provisioning_options.as_ref())
    else {
        return Ok(DiskProvisioning::Default);
    };
    match (options.thin_provisioned, options.eager_zeroed) {
        (Some(true), Some(true)) => Err("spec.advancedOptions.defaultVolumeProvisioningOptions sets both thinProvisioned and eagerZeroed. Set only one of them".to_owned()),
        (Some(true), _) => Ok(DiskProvisioning::Thin),
        (_, Some(true)) => Ok(DiskProvisioning::EagerZeroed),
        (Some(false), _) => Ok(DiskProvisioning::Thick),
        (None, _) => Ok(DiskProvisioning::Default),
    }
}

/// A volume, its size in bytes, and the device key of the image disk that it refers to.
type SizedVolume<'a> = (&'a VirtualMachineVolume, u64, Option<i32>);

/// Returns the volumes that are the VM's own disks, with their sizes.
fn list_sized_volumes(vm: &VirtualMachine) -> Result<Vec<SizedVolume<'_>>, String> {
    let mut sized = Vec::new();
    for volume in &vm.spec.volumes {
        let Some(own) = &volume.v_sphere_volume else { continue };
        let bad = |why: &str| {
            format!(
                "spec.volumes: the capacity of {} {why}. Set {SIZE} to a quantity such as 20Gi",
                volume.name
            )
        };
        let size = own.capacity.get(SIZE).ok_or_else(|| bad("is missing"))?;
        let mib = size.mib().map_err(|error| bad(&error.to_string()))?;
        if mib > LARGEST_DISK_MIB {
            return Err(bad("is more than 62Ti, the limit of a virtual disk"));
        }
        let mib = u64::try_from(mib).ok().filter(|mib| *mib > 0).ok_or_else(|| bad("is not positive"))?;
        sized.push((volume, mib << 20, own.device_key));
    }
    Ok(sized)
}

/// Returns the disk that a volume refers to by key. Fails if the key is unknown, because ignoring it would add a second, empty
/// disk.
fn find_disk<'a>(
    volume: &VirtualMachineVolume,
    key: i32,
    disks: &'a [VirtualDisk],
) -> Result<&'a VirtualDisk, String> {
    disks.iter().find(|disk| disk.key == key).ok_or_else(|| {
        let keys: Vec<_> = disks.iter().map(|disk| disk.key.to_string()).collect();
        let known = if keys.is_empty() { "no disk".to_owned() } else { format!("only {}", keys.join(", ")) };
        format!(
            "spec.volumes: {} has the deviceKey {key}, but the image has {known}. Use the key of one of its disks, or leave deviceKey out to add a disk",
            volume.name
        )
    })
}

fn describe_small_volume(volume: &VirtualMachineVolume, disk: &VirtualDisk) -> String {
    format!(
        "spec.volumes: {} is smaller than its disk {}, which has {} MiB. Disks can't shrink: set a larger capacity",
        volume.name,
        disk.key,
        disk.capacity >> 20
    )
}

/// Plans empty disks for the volumes, in the controller slots that the volumes name or in free slots. Adds a controller if the
/// existing ones are full.
fn new_disks(
    devices: &Devices,
    storage: &Storage,
    provisioning: DiskProvisioning,
    volumes: &[(&VirtualMachineVolume, u64)],
) -> Result<(Vec<DiskChange>, Vec<DiskMark>), String> {
    let (mut changes, mut marks) = (Vec::new(), Vec::new());
    let mut places = DiskSlots::of(devices);
    // Assign named slots first. The other volumes get the remaining slots.
    let mut given = std::collections::BTreeMap::new();
    for (volume, _) in volumes {
        if let Some(unit) = volume.unit_number {
            given.insert(volume.name.as_str(), places.take(volume, unit)?);
        }
    }
    for (at, (volume, size)) in (0i32..).zip(volumes) {
        let DiskSlot { controller, bus, unit } = match given.get(volume.name.as_str()) {
            Some(place) => *place,
            None => places.take_free(volume)?,
        };
        let class = volume.v_sphere_volume.as_ref().and_then(|own| own.storage_class.as_deref());
        let lies_on = storage.of_class(class);
        marks.push(DiskMark {
            place: format!("scsi{bus}:{unit}"),
            volume: Some(volume.name.clone()),
            elsewhere: lies_on.datastore.is_some(),
        });
        changes.push(DiskChange::Create {
            key: NEW_DISK - at,
            controller,
            unit,
            capacity: *size,
            provisioning,
            datastore: lies_on.datastore,
            profiles: lies_on.policy.into_iter().map(|policy| policy.id).collect(),
        });
    }
    let controller = places.added().map(|bus| DiskChange::AddController { key: NEW_CONTROLLER, bus });
    Ok((controller.into_iter().chain(changes).collect(), marks))
}

/// Returns the VM's own volumes that exist, with their disks.
fn find_own_volumes<'a>(
    record: &DiskRecord,
    vsphere_vm: &Vm,
    devices: &'a Devices,
) -> Vec<(String, &'a VirtualDisk)> {
    let at = |wanted: &str| own_disk_at(wanted, record, vsphere_vm, devices);
    let named = parse_marks(vsphere_vm).into_iter().filter_map(|mark| Some((mark.volume?, at(&mark.place)?)));
    named.collect()
}

/// Returns the VM's own disk for the slot `wanted`. If a disk was recorded for the slot, this is that disk, even if it is
/// attached elsewhere now. Otherwise it is the VM's own disk that is attached to the slot.
fn own_disk_at<'a>(
    wanted: &str,
    record: &DiskRecord,
    vsphere_vm: &Vm,
    devices: &'a Devices,
) -> Option<&'a VirtualDisk> {
    let own = |disk: &&VirtualDisk| record.is_own(vsphere_vm, devices, disk);
    match record.uuid_at(wanted) {
        Some(uuid) => devices.disks.iter().filter(own).find(|disk| disk.uuid.as_deref() == Some(uuid)),
        None => {
            devices.disks.iter().filter(own).find(|disk| find_slot(devices, disk).as_deref() == Some(wanted))
        }
    }
}

/// Returns the status of the VM's own volumes, with the disk UUIDs of the volumes that exist.
pub fn report_volumes(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    devices: &Devices,
) -> Vec<VirtualMachineVolumeStatus> {
    let there = find_own_volumes(&DiskRecord::of(vm), vsphere_vm, devices);
    let own = vm.spec.volumes.iter().filter(|volume| volume.v_sphere_volume.is_some());
    own.map(|volume| {
        let disk = there.iter().find(|(name, _)| *name == volume.name).map(|(_, disk)| *disk);
        VirtualMachineVolumeStatus {
            name: volume.name.clone(),
            attached: disk.is_some(),
            disk_uuid: disk.and_then(|disk| disk.uuid.clone()).unwrap_or_default(),
            error: String::new(),
        }
    })
    .collect()
}

/// Returns true if the spec requests disks that the VM's marks don't contain.
pub fn lacks_volumes(vm: &VirtualMachine, vsphere_vm: &Vm) -> bool {
    let marks = parse_marks(vsphere_vm);
    vm.spec
        .volumes
        .iter()
        .filter(|volume| volume.v_sphere_volume.is_some())
        .any(|volume| !marks.iter().any(|mark| mark.volume.as_deref() == Some(&volume.name)))
}

/// Returns the change that grows a disk to `size` bytes, or `None` if the disk already has that size. Fails if the disk would
/// have to grow and is linked to a template.
fn grow(volume: &VirtualMachineVolume, disk: &VirtualDisk, size: u64) -> Result<Option<DiskChange>, String> {
    if size > disk.capacity && !disk.parents.is_empty() {
        return Err(format!(
            "spec.volumes: {} can't grow: the disk is linked to the image's template. Promote the disk (spec.promoteDisksMode), or recreate the VM with {FAST_DEPLOY}: direct",
            volume.name
        ));
    }
    Ok((size > disk.capacity).then(|| DiskChange::Grow(disk.clone(), size)))
}

fn describe_missing_disk(volume: &VirtualMachineVolume) -> String {
    format!(
        "spec.volumes: the disk of {} is missing from the VM. Remove the volume from the spec, or attach the disk again",
        volume.name
    )
}

/// Returns the change that gives a VM the disks and sizes in its spec, or `None` if it already has them.
///
/// The function is long because marks, growth and new disks are decided per volume.
pub fn plan_disk_changes(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    devices: &Devices,
    storage: &Storage,
) -> Result<Option<ConfigSpec>, String> {
    let provisioning = read_provisioning(vm)?;
    let record = DiskRecord::of(vm);
    // The clone may lack disks that the clone call requested.
    let unchecked = unchecked(vsphere_vm).is_some();
    let mut marks = parse_marks(vsphere_vm);
    let (mut grown, mut created) = (Vec::new(), Vec::new());
    for (volume, size, key) in list_sized_volumes(vm)? {
        let known = marks.iter().find(|mark| mark.volume.as_deref() == Some(&volume.name));
        let placed = known.and_then(|mark| own_disk_at(&mark.place, &record, vsphere_vm, devices));
        // A volume that already has a disk keeps it, whatever its device key is.
        let meant = match key {
            Some(key) if known.is_none() => Some(find_disk(volume, key, &devices.disks)?),
            Some(key) => devices.disks.iter().find(|disk| disk.key == key),
            None => None,
        };
        match placed.or(meant) {
            None if known.is_some() && !unchecked => return Err(describe_missing_disk(volume)),
            None => {
                marks.retain(|mark| mark.volume.as_deref() != Some(&volume.name));
                created.push((volume, size));
            }
            Some(disk) if size < disk.capacity => return Err(describe_small_volume(volume, disk)),
            Some(disk) => {
                if known.is_none() {
                    let here = find_slot(devices, disk);
                    marks.retain(|mark| Some(&mark.place) != here.as_ref());
                    marks.extend(DiskMark::of(devices, disk, Some(volume)));
                }
                grown.extend(grow(volume, disk, size)?);
            }
        }
    }
    let before = format_marks(&super::marks::parse_marks(vsphere_vm));
    let (new, new_marks) = new_disks(devices, storage, provisioning, &created)?;
    marks.extend(new_marks);
    let mark = format_marks(&marks);
    let device_change: Vec<_> = grown.into_iter().chain(new).map(DeviceChange::Disk).collect();
    if device_change.is_empty() && mark == before {
        return Ok(None);
    }
    let lacks = unchecked && !device_change.is_empty();
    let extra_config = [(DISKS.to_owned(), mark)].into_iter().chain(lacks.then(changing_note)).collect();
    Ok(Some(ConfigSpec {
        // The slots were chosen for these devices. vCenter rejects the change if the devices have changed since then.
        change_version: Some(devices.change_version.clone()),
        device_change,
        extra_config,
        ..ConfigSpec::default()
    }))
}
