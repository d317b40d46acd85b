//! Which disks of a VM we made, kept in its ExtraConfig by their places.

use std::fmt::Write;

use api::vmop::VirtualMachineVolume;
use vsphere::{Devices, Disk, Vm};

/// ExtraConfig: the disks that we made.
pub const DISKS: &str = "layercake.disks";

/// A disk that we made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Such as `scsi0:1`.
    pub place: String,
    /// The volume that it is; `None` for the image's.
    pub volume: Option<String>,
    /// It was made on a datastore of its own, outside the folder of the VM's other files.
    pub elsewhere: bool,
}

/// Follows the place of a disk on a datastore of its own.
const ELSEWHERE: char = '@';

impl Mark {
    /// The mark of a disk.
    pub fn of(devices: &Devices, disk: &Disk, volume: Option<&VirtualMachineVolume>) -> Option<Self> {
        let volume = volume.map(|volume| volume.name.clone());
        Some(Self { place: place(devices, disk)?, volume, elsewhere: false })
    }
}

/// Where a disk hangs, in words that outlast a clone: bus, controller and unit.
pub fn place(devices: &Devices, disk: &Disk) -> Option<String> {
    let controller = devices.controllers.iter().find(|controller| Some(controller.key) == disk.controller)?;
    let bus = match controller.kind {
        "VirtualAHCIController" => "sata",
        "VirtualNVMEController" => "nvme",
        "VirtualIDEController" => "ide",
        _ => "scsi",
    };
    Some(format!("{bus}{}:{}", controller.bus, disk.unit?))
}

/// The marks as one text.
pub fn written(marks: &[Mark]) -> String {
    let mut text = String::new();
    for Mark { place, volume, elsewhere } in marks {
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

/// The marks that a VM bears.
pub fn marks(vsphere_vm: &Vm) -> Vec<Mark> {
    let text = vsphere_vm.extra_config.get(DISKS).map(String::as_str).unwrap_or_default();
    let parsed = text.split(' ').filter(|word| !word.is_empty()).map(|word| {
        let (place, volume) =
            word.split_once('=').map_or((word, None), |(place, volume)| (place, Some(volume)));
        let stripped = place.strip_suffix(ELSEWHERE);
        Mark {
            place: stripped.unwrap_or(place).to_owned(),
            volume: volume.map(str::to_owned),
            elsewhere: stripped.is_some(),
        }
    });
    parsed.collect()
}
