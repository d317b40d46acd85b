//! A VM's virtual hardware.

use crate::exact::exact;
use crate::spec::{DiskController, VirtualDisk, VirtualNic};
use crate::{Client, Error, Kind, MoRef, Result, Value};

const DEVICES: &str = "config.hardware.device";
const VERSION: &str = "config.changeVersion";

/// A VM's devices at one version of its settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// The VM's `changeVersion`. As long as this version doesn't change, the devices don't change either.
    pub change_version: String,
    /// The disks, in device order.
    pub disks: Vec<VirtualDisk>,
    /// The network adapters, in device order.
    pub nics: Vec<VirtualNic>,
    /// The disk controllers.
    pub controllers: Vec<DiskController>,
}

impl Devices {
    /// Reads the devices in a VM's device list. `change_version` is the VM's `changeVersion` with which the list was read.
    pub fn read(change_version: &str, devices: &Value) -> Self {
        let devices = devices.items();
        Self {
            change_version: change_version.to_owned(),
            disks: exact(devices.iter().filter_map(VirtualDisk::read)),
            nics: exact(devices.iter().filter_map(VirtualNic::read)),
            controllers: exact(devices.iter().filter_map(DiskController::read)),
        }
    }

    /// Returns the controller key and unit number of a free SCSI unit, or `None` if all units are taken.
    ///
    /// `taken` lists further units, as controller key and unit number, that the caller has already assigned to new
    /// disks.
    pub fn free_place(&self, taken: &[(i32, i32)]) -> Option<(i32, i32)> {
        self.controllers.iter().filter(|controller| controller.is_scsi()).find_map(|controller| {
            let used = |unit: i32| {
                controller.reserved_unit == Some(unit)
                    || taken.contains(&(controller.key, unit))
                    || self
                        .disks
                        .iter()
                        .any(|disk| disk.controller == Some(controller.key) && disk.unit == Some(unit))
            };
            (0..controller.places()).find(|unit| !used(*unit)).map(|unit| (controller.key, unit))
        })
    }
}

impl Client {
    /// Reads the virtual hardware of a VM or a template in one call.
    pub async fn devices(&self, vm: &MoRef) -> Result<Devices> {
        let read = self.retrieve(std::slice::from_ref(vm), &[DEVICES, VERSION]).await?;
        let Some(read) = read.first() else {
            let missing = Kind::NotFound { missing: Some(vm.clone()) };
            return Err(Error::new("RetrievePropertiesEx", missing).on(vm));
        };
        if read.get(DEVICES).items().is_empty() {
            // Every VM has devices. An empty list means that vCenter can't read them now, which must not look like a VM
            // without disks.
            return Err(Error::new("RetrievePropertiesEx", Kind::InvalidState).on(vm));
        }
        Ok(Devices::read(read.get(VERSION).as_str().unwrap_or_default(), read.get(DEVICES)))
    }

    /// Reads the network adapters of a VM or a template, in device order.
    pub async fn read_nics(&self, vm: &MoRef) -> Result<Vec<VirtualNic>> {
        Ok(self.devices(vm).await?.nics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_round_what_is_taken_and_the_controller_itself() {
        let controller =
            DiskController { key: 1000, kind: "ParaVirtualSCSIController", bus: 0, reserved_unit: Some(7) };
        let disk = |unit| VirtualDisk { controller: Some(1000), unit: Some(unit), ..VirtualDisk::default() };
        let mut devices = Devices { controllers: vec![controller], ..Devices::default() };
        assert_eq!(devices.free_place(&[]), Some((1000, 0)));
        devices.disks = (0..6).map(disk).collect();
        assert_eq!(devices.free_place(&[(1000, 6)]), Some((1000, 8)));
        devices.disks = (0..16).map(disk).collect();
        assert_eq!(devices.free_place(&[]), None);
        assert_eq!(Devices::default().free_place(&[]), None);
    }
}
