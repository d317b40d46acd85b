//! The devices of VMs, read once per configuration version.

use std::sync::Arc;

use vsphere::inventory::Presence;
use vsphere::{Devices, Error, MoRef, Vm};

use crate::vcenter::connection::VCenter;

/// Entries of destroyed VMs are removed each time the cache size reaches a multiple of this number.
const SWEEP: usize = 256;

impl VCenter {
    /// Discards the VM's cached devices.
    pub fn forget_devices(&self, vm: &MoRef) {
        self.devices.0.lock().remove(vm);
    }

    /// Returns the VM's devices. Reads them only if the VM's configuration changed.
    pub async fn devices(&self, vm: &Vm) -> Result<Arc<Devices>, Error> {
        let known = self.devices.0.lock().get(&vm.moref).cloned();
        if let Some(known) = known.filter(|known| known.change_version == vm.change_version) {
            return Ok(known);
        }
        let devices = Arc::new(self.client.devices(&vm.moref).await?);
        let mut all = self.devices.0.lock();
        all.insert(vm.moref.clone(), Arc::clone(&devices));
        if all.len().is_multiple_of(SWEEP) {
            all.retain(|vm, _| self.inventory.vm(vm) != Presence::Absent);
        }
        Ok(devices)
    }
}
