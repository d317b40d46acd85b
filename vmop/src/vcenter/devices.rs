//! The devices of machines of which somebody asked, read once per version of their settings.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use vsphere::inventory::Presence;
use vsphere::{Devices, Error, MoRef, Vm};

use super::VCenter;

/// So many more are kept before those of machines that are gone are let go.
const SWEEP: usize = 256;

#[derive(Default)]
pub(super) struct DeviceCache(Mutex<HashMap<MoRef, Arc<Devices>>>);

impl VCenter {
    /// What is remembered of the machine's devices is out of date.
    pub fn forget_devices(&self, machine: &MoRef) {
        self.hardware.0.lock().remove(machine);
    }

    /// The machine's devices; one call where its settings changed since the last time.
    pub async fn devices(&self, machine: &Vm) -> Result<Arc<Devices>, Error> {
        let known = self.hardware.0.lock().get(&machine.moref).cloned();
        if let Some(known) = known.filter(|known| known.change_version == machine.change_version) {
            return Ok(known);
        }
        let devices = Arc::new(self.client.devices(&machine.moref).await?);
        let mut all = self.hardware.0.lock();
        all.insert(machine.moref.clone(), Arc::clone(&devices));
        if all.len().is_multiple_of(SWEEP) {
            all.retain(|machine, _| self.inventory.vm(machine) != Presence::Absent);
        }
        Ok(devices)
    }
}
