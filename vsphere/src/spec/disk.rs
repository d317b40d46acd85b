//! Disks and their controllers, as they are read, added, grown and removed.

use std::borrow::Cow;

use super::profile::profiles;
use crate::exact::exact;
use crate::{MoRef, Object, Value};

/// A virtual disk that a VM has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The device's key.
    pub key: i32,
    /// Key of the controller that it hangs on.
    pub controller: Option<i32>,
    /// Its place on that controller.
    pub unit: Option<i32>,
    /// What the guest sees, in bytes.
    pub capacity: u64,
    /// Its file, such as `[ds0] cp-0/cp-0.vmdk`.
    pub file: Option<String>,
    /// Where the file lies.
    pub datastore: Option<MoRef>,
    /// The UUID that the guest sees with `disk.enableUUID`.
    pub uuid: Option<String>,
    /// The files that it rests on, nearest first; a linked clone rests on its template's.
    pub parents: Vec<String>,
    /// Id of the first-class disk that it is, such as a persistent volume's.
    pub first_class: Option<String>,
    /// Whether space is taken only as it is written.
    pub thin: Option<bool>,
    /// Whether all of it was zeroed when it was made.
    pub eager: Option<bool>,
    /// `persistent` for an ordinary disk.
    pub mode: Cow<'static, str>,
}

impl Disk {
    /// The device as a call names it.
    pub(crate) fn device(&self) -> Object {
        existing(self, self.capacity)
    }

    /// Returns true if snapshots leave the disk out.
    pub fn is_independent(&self) -> bool {
        self.mode.starts_with("independent")
    }

    /// Reads a disk; `None` for any other device.
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

/// What disks hang on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The device's key.
    pub key: i32,
    /// The device's type, such as `ParaVirtualSCSIController`.
    pub kind: &'static str,
    /// Its number among controllers of its bus.
    pub bus: i32,
    /// Its own place on the bus, which no disk can have.
    pub reserved_unit: Option<i32>,
}

impl Controller {
    /// Reads a disk controller; `None` for any other device.
    pub fn read(device: &Value) -> Option<Self> {
        let (kind, _) = DISK_CONTROLLERS.iter().find(|known| known.0 == device.type_name())?;
        Some(Self {
            key: key(device.get("key"))?,
            kind,
            bus: key(device.get("busNumber"))?,
            reserved_unit: key(device.get("scsiCtlrUnitNumber")).or_else(|| is_scsi(kind).then_some(7)),
        })
    }

    /// How many places for disks it has, its own included.
    pub fn places(&self) -> i32 {
        DISK_CONTROLLERS.iter().find(|known| known.0 == self.kind).map_or(0, |known| known.1)
    }

    /// Whether it is one of the SCSI controllers.
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

/// How a new disk takes its space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provisioning {
    /// As the datastore or the policy has it.
    #[default]
    Default,
    /// As it is written.
    Thin,
    /// All at once, zeroed when it is written.
    Thick,
    /// All at once, zeroed now.
    EagerZeroed,
}

impl Provisioning {
    fn onto(self, backing: Object) -> Object {
        match self {
            Self::Default => backing,
            Self::Thin => backing.with("thinProvisioned", true),
            Self::Thick => backing.with("thinProvisioned", false),
            Self::EagerZeroed => backing.with("thinProvisioned", false).with("eagerlyScrub", true),
        }
    }
}

/// A change of a VM's disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// A paravirtual SCSI controller comes.
    AddController {
        /// A negative key, unlike every other in the same spec.
        key: i32,
        /// Its number among SCSI controllers.
        bus: i32,
    },
    /// An empty disk comes, with a new file.
    Create {
        /// A negative key, unlike every other in the same spec.
        key: i32,
        /// Key of its controller, which may be a new one's.
        controller: i32,
        /// Its place there.
        unit: i32,
        /// Bytes.
        capacity: u64,
        /// How it takes its space.
        provisioning: Provisioning,
        /// The datastore's name; `None` for the VM's.
        datastore: Option<String>,
        /// Storage policies, by id.
        profiles: Vec<String>,
    },
    /// The disk grows to so many bytes.
    Grow(Disk, u64),
    /// The disk goes; its file stays.
    Detach(Disk),
    /// The disk goes, and its file with it.
    Destroy(Disk),
}

/// The operation, the file operation, the device, and the policies of a disk's change.
pub(super) struct Change {
    pub operation: &'static str,
    pub file_operation: Option<&'static str>,
    pub device: Object,
    pub profiles: Vec<String>,
}

impl From<DiskChange> for Change {
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
                // vCenter takes the datastore from the name alone.
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

fn existing(disk: &Disk, capacity: u64) -> Object {
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

/// How a clone's disks come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMoveType {
    /// A linked clone: an empty disk on top of the snapshot's.
    CreateNewChildDiskBacking,
    /// A full clone with one disk of its own.
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

/// How one disk of a template becomes a clone's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLocator {
    /// Key of the template's disk.
    pub key: i32,
    /// The datastore.
    pub datastore: MoRef,
    /// How it comes about; `None` as the VM's others.
    pub move_type: Option<DiskMoveType>,
    /// How it takes its space.
    pub provisioning: Provisioning,
    /// Storage policies, by id.
    pub profiles: Vec<String>,
}

impl From<DiskLocator> for Value {
    fn from(disk: DiskLocator) -> Self {
        let backing = (disk.provisioning != Provisioning::Default).then(|| {
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
        insta::assert_debug_snapshot!(Disk::read(&device.into()).unwrap());
        assert_eq!(Disk::read(&Object::new("VirtualVmxnet3").with("key", 4000).into()), None);
    }

    #[test]
    fn a_scsi_controller_keeps_a_place_for_itself() {
        let device: Value =
            Object::new("ParaVirtualSCSIController").with("key", 1000).with("busNumber", 0).into();
        let read = Controller::read(&device).unwrap();
        assert_eq!((read.places(), read.reserved_unit, read.is_scsi()), (16, Some(7), true));
    }
}
