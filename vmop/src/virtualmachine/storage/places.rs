//! Assigns SCSI controller slots to disks: the slots that a spec names, and free slots.

use api::vmop::VirtualMachineVolume;
use vsphere::Devices;

/// The device key of a new controller. New NICs start at -100 and new disks at -1000.
pub const NEW_CONTROLLER: i32 = -10;
/// The number of units on an added controller.
const UNITS: i32 = 16;
/// The unit that the controller itself occupies.
const OWN_UNIT: i32 = 7;

/// A disk's slot on a SCSI controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSlot {
    /// The controller's device key.
    pub controller: i32,
    /// The controller's number among the SCSI controllers.
    pub bus: i32,
    /// The unit number on the controller.
    pub unit: i32,
}

/// The occupied and assigned controller slots of a VM.
pub struct DiskSlots<'a> {
    devices: &'a Devices,
    taken: Vec<(i32, i32)>,
    /// The bus number for an added controller; `None` if all four bus numbers are in use.
    new_bus: Option<i32>,
}

impl<'a> DiskSlots<'a> {
    /// Starts the slot assignment for a VM with these devices.
    pub fn of(devices: &'a Devices) -> Self {
        let is_there = |bus: i32| {
            devices.controllers.iter().any(|controller| controller.is_scsi() && controller.bus == bus)
        };
        Self { devices, taken: Vec::new(), new_bus: (0..4).find(|bus| !is_there(*bus)) }
    }

    /// Assigns the `unit` that the volume names on SCSI controller 0. Fails with a message if a disk can't use that unit.
    pub fn take(&mut self, volume: &VirtualMachineVolume, unit: i32) -> Result<DiskSlot, String> {
        let name = &volume.name;
        let there =
            self.devices.controllers.iter().find(|controller| controller.is_scsi() && controller.bus == 0);
        let (key, places, reserved) = there.map_or((NEW_CONTROLLER, UNITS, Some(OWN_UNIT)), |controller| {
            (controller.key, controller.places(), controller.reserved_unit)
        });
        if !(0..places).contains(&unit) || reserved == Some(unit) {
            return Err(format!(
                "spec.volumes: {name} has unit number {unit} on SCSI controller 0, which no disk can have. Use a number from 0 to {} except {OWN_UNIT}, or none",
                places - 1
            ));
        }
        let used =
            self.devices.disks.iter().any(|disk| disk.controller == Some(key) && disk.unit == Some(unit));
        if used || self.taken.contains(&(key, unit)) {
            return Err(format!(
                "spec.volumes: {name} has unit number {unit} on SCSI controller 0, which another disk of the image or another volume already has. Use a free number, or none; nodes of a cluster need an image whose only disk has unit number 0"
            ));
        }
        self.taken.push((key, unit));
        Ok(DiskSlot { controller: key, bus: 0, unit })
    }

    /// Assigns the first free slot, on a new controller if the existing ones are full. Fails with a message if another
    /// controller can't be added.
    pub fn take_free(&mut self, volume: &VirtualMachineVolume) -> Result<DiskSlot, String> {
        let place = if let Some((key, unit)) = self.devices.free_place(&self.taken) {
            let bus = self.devices.controllers.iter().find(|controller| controller.key == key);
            Some(DiskSlot { controller: key, bus: bus.map_or(0, |controller| controller.bus), unit })
        } else {
            let is_free = |unit: &i32| *unit != OWN_UNIT && !self.taken.contains(&(NEW_CONTROLLER, *unit));
            let unit = (0..UNITS).find(is_free);
            self.new_bus.zip(unit).map(|(bus, unit)| DiskSlot { controller: NEW_CONTROLLER, bus, unit })
        };
        let place = place.ok_or_else(|| {
            format!(
                "spec.volumes: there is no free unit number for {}: all disk controllers are full. Remove some volumes",
                volume.name
            )
        })?;
        self.taken.push((place.controller, place.unit));
        Ok(place)
    }

    /// Returns the bus number of the controller to add, if one is needed.
    pub fn added(&self) -> Option<i32> {
        self.new_bus.filter(|_| self.taken.iter().any(|(key, _)| *key == NEW_CONTROLLER))
    }
}
