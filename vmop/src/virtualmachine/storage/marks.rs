//! Marks in a VM's ExtraConfig that list the controller slots of the disks that we created.

use std::fmt::Write;

use api::vmop::VirtualMachineVolume;
use vsphere::{Devices, VirtualDisk, Vm};

/// The ExtraConfig key for the list of the disks that we created.
pub const DISKS: &str = "layercake.disks";

/// A disk that we created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskMark {
    /// The controller slot of the disk, such as `scsi0:1`.
    pub place: String,
    /// The disk's volume; `None` for an image disk.
    pub volume: Option<String>,
    /// True if the disk was created on another datastore, outside the folder of the VM's other files.
    pub elsewhere: bool,
}

/// The suffix of a slot whose disk is on another datastore.
const ELSEWHERE: char = '@';

impl DiskMark {
    /// Returns the mark for a disk; `None` if its controller slot is unknown.
    pub fn of(devices: &Devices, disk: &VirtualDisk, volume: Option<&VirtualMachineVolume>) -> Option<Self> {
        let volume = volume.map(|volume| volume.name.clone());
        Some(Self { place: find_slot(devices, disk)?, volume, elsewhere: false })
    }
}

/// Returns a disk's slot as bus type, controller number and unit, such as `scsi0:1`. A clone's disks keep their slots.
pub fn find_slot(devices: &Devices, disk: &VirtualDisk) -> Option<String> {
    let controller = devices.controllers.iter().find(|controller| Some(controller.key) == disk.controller)?;
    let bus = match controller.kind {
        "VirtualAHCIController" => "sata",
        "VirtualNVMEController" => "nvme",
        "VirtualIDEController" => "ide",
        _ => "scsi",
    };
    Some(format!("{bus}{}:{}", controller.bus, disk.unit?))
}

/// Formats the marks for ExtraConfig.
pub fn format_marks(marks: &[DiskMark]) -> String {
    let mut text = String::new();
    for DiskMark { place, volume, elsewhere } in marks {
        let space = if text.is_empty() { "" } else { " " };
        let own = if *elsewhere { ELSEWHERE.to_string() } else { String::new() };
        // Writing to a string can't fail.
        let _ = match volume {
            Some(volume) => write!(text, "{space}{place}{own}={volume}"),
            None => write!(text, "{space}{place}{own}"),
        };
    }
    text
}

/// Parses the VM's marks.
pub fn parse_marks(vsphere_vm: &Vm) -> Vec<DiskMark> {
    let text = vsphere_vm.extra_config.get(DISKS).map(String::as_str).unwrap_or_default();
    let parsed = text.split(' ').filter(|word| !word.is_empty()).map(|word| {
        let (place, volume) =
            word.split_once('=').map_or((word, None), |(place, volume)| (place, Some(volume)));
        let stripped = place.strip_suffix(ELSEWHERE);
        DiskMark {
            place: stripped.unwrap_or(place).to_owned(),
            volume: volume.map(str::to_owned),
            elsewhere: stripped.is_some(),
        }
    });
    parsed.collect()
}
