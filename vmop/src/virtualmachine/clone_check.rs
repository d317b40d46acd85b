//! Whether a clone has the devices that its settings asked for. No client, no clock.
//!
//! vCenter's texts disagree about which part of a clone's specification it reads devices from, and it does not say what it
//! ignores. So the first VMs of a process whose clones change devices by their settings are created off, with a note; before
//! they run, their devices are read, and what lacks is asked for again. Once one had all of a kind, later clones with changes
//! of that kind are powered on in the one call.

use api::vmop::VirtualMachine;
use vsphere::Vm;

use super::clone::ClonePlan;
use super::facts::Facts;
use super::nic::change::{unchecked, unchecked_note};
use super::storage::disks;
use crate::vcenter::DeviceKinds;

/// Has the VM created off, and noted as one to be checked, unless `proven` has all kinds of devices that its settings
/// change. Whether it is to be checked.
pub fn hold_for_check(clone: &mut ClonePlan, proven: DeviceKinds) -> bool {
    let Some(config) = &mut clone.spec.config else { return false };
    let kinds = DeviceKinds::of(&config.device_change);
    if kinds.within(proven) {
        return false;
    }
    let (key, note) = unchecked_note(kinds);
    config.extra_config.retain(|(other, _)| *other != key);
    config.extra_config.push((key, note));
    clone.spec.power_on = false;
    true
}

/// The kinds of devices of which the VM has got all that its clone asked for, as far as it was checked.
pub fn proven(vm: &VirtualMachine, vsphere_vm: &Vm, facts: &Facts) -> DeviceKinds {
    let Some(asked) = unchecked(vsphere_vm) else { return DeviceKinds::default() };
    let nics = matches!(&facts.nic_change, Ok(Some(change)) if change.step().is_none());
    let has_disks = |known: &super::storage::observe::DiskFacts| {
        let storage = known.storage.as_ref().ok().cloned().unwrap_or_default();
        let change = disks::changes(vm, vsphere_vm, &known.devices, &storage);
        change.is_ok_and(|change| change.is_none_or(|spec| spec.device_change.is_empty()))
    };
    DeviceKinds {
        nics: asked.nics && nics,
        disks: asked.disks && facts.disks.as_ref().is_some_and(has_disks),
    }
}
