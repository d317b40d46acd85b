//! Disks and their controllers: reading, adding, growing and removing them.

use std::borrow::Cow;

use super::profile::profiles;
use crate::exact::exact;
use crate::{MoRef, Object, Value};

/// A virtual disk of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualDisk {
    /// The device key.
    pub key: i32,
    /// The key of the disk's controller.
    pub controller: Option<i32>,
    /// The unit number on the controller.
    pub unit: Option<i32>,
    /// The capacity in bytes.
    pub capacity: u64,
    /// The datastore path of the disk file, such as `[ds0] cp-0/cp-0.vmdk`.
    pub file: Option<String>,
    /// The datastore that stores the file.
    pub datastore: Option<MoRef>,
    /// The UUID that the guest sees if `disk.enableUUID` is set.
    pub uuid: Option<String>,
    /// The parent files, nearest first. A linked clone's parents include the template's disks.
    pub parents: Vec<String>,
    /// The first-class disk ID, if the disk is a first-class disk, such as a persistent volume's disk.
    pub first_class: Option<String>,
    /// True if space is allocated on the first write.
    pub thin: Option<bool>,
    /// True if the disk was zeroed when it was created.
    pub eager: Option<bool>,
    /// The disk mode: `persistent` for an ordinary disk.
    pub mode: Cow<'static, str>,
}

impl VirtualDisk {
    /// Returns the device object that identifies this disk in a request.
    pub(crate) fn device(&self) -> Object {
        existing(self, self.capacity)
    }

    /// Returns true if snapshots exclude the disk.
    pub fn is_independent(&self) -> bool {
        self.mode.starts_with("independent")
    }

    /// Reads a disk; returns `None` for any other device.
    pub fn read(device: &Value) -> Option<Self> {
        if device.type_name() != "VirtualDisk" {
            return None;
        }
        let backing = device.get("backing");
        let text = |name: &str| backing.get(name).as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let bytes = number(device.get("capacityInBytes"))
            .or_else(|| Some(number(device.get("capacityInKB"))? << 10))
            .unwrap_or_default();
        let first_class = device.get("vDiskId").get("id").as_str().map(str::to_owned);
        Some(Self {
            key: key(device.get("key"))?,
            controller: key(device.get("controllerKey")),
            unit: key(device.get("unitNumber")),
            capacity: bytes,
            file: text("fileName"),
            datastore: backing.get("datastore").as_moref().cloned(),
            uuid: text("uuid"),
            parents: chain(backing),
            first_class,
            thin: backing.get("thinProvisioned").as_bool(),
            eager: backing.get("eagerlyScrub").as_bool(),
            mode: match backing.get("diskMode").as_str() {
                None | Some("" | PERSISTENT) => PERSISTENT.into(),
                Some(other) => other.to_owned().into(),
            },
        })
    }
}

const PERSISTENT: &str = "persistent";

fn number(value: &Value) -> Option<u64> {
    value.as_i64().and_then(|number| number.try_into().ok()).filter(|number| *number > 0)
}

fn key(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| number.try_into().ok())
}

fn chain(backing: &Value) -> Vec<String> {
    let bases = std::iter::successors(Some(backing.get("parent")), |base| Some(base.get("parent")));
    exact(bases.map_while(|base| base.get("fileName").as_str()).map(str::to_owned))
}

/// A disk controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskController {
    /// The device key.
    pub key: i32,
    /// The device type, such as `ParaVirtualSCSIController`.
    pub kind: &'static str,
    /// The bus number among controllers of the same bus type.
    pub bus: i32,
    /// The unit number that the controller itself occupies, so disks can't use it.
    pub reserved_unit: Option<i32>,
}

impl DiskController {
    /// Reads a disk controller; returns `None` for any other device.
    pub fn read(device: &Value) -> Option<Self> {
        let (kind, _) = DISK_CONTROLLERS.iter().find(|known| known.0 == device.type_name())?;
        Some(Self {
            key: key(device.get("key"))?,
            kind,
            bus: key(device.get("busNumber"))?,
            reserved_unit: key(device.get("scsiCtlrUnitNumber")).or_else(|| is_scsi(kind).then_some(7)),
        })
    }

    /// Returns the number of units, including the unit that the controller itself occupies.
    pub fn places(&self) -> i32 {
        DISK_CONTROLLERS.iter().find(|known| known.0 == self.kind).map_or(0, |known| known.1)
    }

    /// Returns true for a SCSI controller.
    pub fn is_scsi(&self) -> bool {
        is_scsi(self.kind)
    }
}

const DISK_CONTROLLERS: &[(&str, i32)] = &[
    ("ParaVirtualSCSIController", 16),
    ("VirtualLsiLogicController", 16),
    ("VirtualLsiLogicSASController", 16),
    ("VirtualBusLogicController", 16),
    ("VirtualAHCIController", 30),
    ("VirtualNVMEController", 15),
    ("VirtualIDEController", 2),
];

fn is_scsi(kind: &str) -> bool {
    kind == "ParaVirtualSCSIController" || kind.contains("Logic")
}

/// The space allocation for a new disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskProvisioning {
    /// Uses the default of the datastore or the storage policy.
    #[default]
    Default,
    /// Allocates space on the first write.
    Thin,
    /// Allocates all space at creation and zeroes it on the first write.
    Thick,
    /// Allocates and zeroes all space at creation.
    EagerZeroed,
}

impl DiskProvisioning {
    fn onto(self, backing: Object) -> Object {
        match self {
            Self::Default => backing,
            Self::Thin => backing.with("thinProvisioned", true),
            Self::Thick => backing.with("thinProvisioned", false),
            Self::EagerZeroed => backing.with("thinProvisioned", false).with("eagerlyScrub", true),
        }
    }
}

/// A change to a VM's disks or their controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// Adds a paravirtual SCSI controller.
    AddController {
        /// A negative key, unique in the spec.
        key: i32,
        /// The bus number among SCSI controllers.
        bus: i32,
    },
    /// Adds an empty disk with a new file.
    Create {
        /// A negative key, unique in the spec.
        key: i32,
        /// The key of the disk's controller, which the same spec may add.
        controller: i32,
        /// The unit number on the controller.
        unit: i32,
        /// The capacity in bytes.
        capacity: u64,
        /// The space allocation.
        provisioning: DiskProvisioning,
        /// The datastore name; `None` for the VM home's datastore.
        datastore: Option<String>,
        /// The storage policy IDs.
        profiles: Vec<String>,
    },
    /// Grows the disk to a new capacity in bytes.
    Grow(VirtualDisk, u64),
    /// Removes the disk from the VM and keeps its file.
    Detach(VirtualDisk),
    /// Removes the disk from the VM and deletes its file.
    Destroy(VirtualDisk),
}

/// The parts of a `VirtualDeviceConfigSpec` for a disk change. `profiles` contains storage policy IDs.
pub(super) struct DiskChangeFields {
    pub operation: &'static str,
    pub file_operation: Option<&'static str>,
    pub device: Object,
    pub profiles: Vec<String>,
}

impl From<DiskChange> for DiskChangeFields {
    fn from(change: DiskChange) -> Self {
        let plain = |operation, file_operation, device| Self {
            operation,
            file_operation,
            device,
            profiles: Vec::new(),
        };
        match change {
            DiskChange::AddController { key, bus } => plain("add", None, controller(key, bus)),
            DiskChange::Create { key, controller, unit, capacity, provisioning, datastore, profiles } => {
                // vCenter derives the datastore from the name in brackets alone.
                let file = datastore.map_or_else(String::new, |name| format!("[{name}]"));
                let backing = Object::new(FLAT).with("fileName", file).with("diskMode", PERSISTENT);
                let device = Object::new("VirtualDisk")
                    .with("key", key)
                    .with("backing", provisioning.onto(backing))
                    .with("controllerKey", controller)
                    .with("unitNumber", unit);
                let device = sized(device, capacity);
                Self { operation: "add", file_operation: Some("create"), device, profiles }
            }
            DiskChange::Grow(disk, capacity) => plain("edit", None, existing(&disk, capacity)),
            DiskChange::Detach(disk) => plain("remove", None, existing(&disk, disk.capacity)),
            DiskChange::Destroy(disk) => plain("remove", Some("destroy"), existing(&disk, disk.capacity)),
        }
    }
}

const FLAT: &str = "VirtualDiskFlatVer2BackingInfo";

fn controller(key: i32, bus: i32) -> Object {
    Object::new("ParaVirtualSCSIController")
        .with("key", key)
        .with("busNumber", bus)
        .with("sharedBus", "noSharing")
}

fn existing(disk: &VirtualDisk, capacity: u64) -> Object {
    let backing = disk.file.as_deref().map(|file| {
        Object::new(FLAT)
            .with("fileName", file)
            .with_some("datastore", disk.datastore.clone())
            .with("diskMode", disk.mode.as_ref())
    });
    let device = Object::new("VirtualDisk")
        .with("key", disk.key)
        .with_some("backing", backing)
        .with_some("controllerKey", disk.controller)
        .with_some("unitNumber", disk.unit);
    sized(device, capacity)
}

fn sized(device: Object, capacity: u64) -> Object {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    device.with("capacityInKB", signed(capacity >> 10)).with("capacityInBytes", signed(capacity))
}

/// The method for creating a clone's disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMoveType {
    /// A linked clone: an empty child disk on top of the snapshot's disk.
    CreateNewChildDiskBacking,
    /// A full clone: an independent disk that doesn't share files with the source.
    MoveAllDiskBackingsAndDisallowSharing,
}

impl DiskMoveType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CreateNewChildDiskBacking => "createNewChildDiskBacking",
            Self::MoveAllDiskBackingsAndDisallowSharing => "moveAllDiskBackingsAndDisallowSharing",
        }
    }
}

/// Settings for cloning one disk of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLocator {
    /// The device key of the source's disk.
    pub key: i32,
    /// The target datastore.
    pub datastore: MoRef,
    /// The method for creating the disk; `None` for the clone's default.
    pub move_type: Option<DiskMoveType>,
    /// The space allocation.
    pub provisioning: DiskProvisioning,
    /// The storage policy IDs.
    pub profiles: Vec<String>,
}

impl From<DiskLocator> for Value {
    fn from(disk: DiskLocator) -> Self {
        let backing = (disk.provisioning != DiskProvisioning::Default).then(|| {
            let backing = Object::new(FLAT).with("fileName", "").with("diskMode", PERSISTENT);
            disk.provisioning.onto(backing)
        });
        Object::new("VirtualMachineRelocateSpecDiskLocator")
            .with("diskId", disk.key)
            .with("datastore", disk.datastore)
            .with_some("diskMoveType", disk.move_type.map(DiskMoveType::name))
            .with_some("diskBackingInfo", backing)
            .with_list("profile", profiles(disk.profiles))
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_read_with_the_chain_it_rests_on() {
        let flat = |file: &str| Object::new(FLAT).with("fileName", file).with("diskMode", PERSISTENT);
        let root = flat("[ds0] golden/golden.vmdk");
        let middle = flat("[ds0] golden/golden-000001.vmdk").with("parent", root);
        let top = flat("[ds0] cp-0/cp-0.vmdk")
            .with("datastore", MoRef::datastore("datastore-1"))
            .with("thinProvisioned", true)
            .with("uuid", "6000c29a")
            .with("parent", middle);
        let device = Object::new("VirtualDisk")
            .with("key", 2000)
            .with("backing", top)
            .with("controllerKey", 1000)
            .with("unitNumber", 0)
            .with("capacityInKB", 1024);
        insta::assert_debug_snapshot!(VirtualDisk::read(&device.into()).unwrap());
        assert_eq!(VirtualDisk::read(&Object::new("VirtualVmxnet3").with("key", 4000).into()), None);
    }

    #[test]
    fn a_scsi_controller_keeps_a_place_for_itself() {
        let device: Value =
            Object::new("ParaVirtualSCSIController").with("key", 1000).with("busNumber", 0).into();
        let read = DiskController::read(&device).unwrap();
        assert_eq!((read.places(), read.reserved_unit, read.is_scsi()), (16, Some(7), true));
    }
}
