//! Checks that a clone has the devices that its settings asked for. No client, no clock.
//!
//! vCenter's texts disagree about which part of a clone's specification it reads devices from, and it does not say what it
//! ignores. So the first VMs of a process whose clones change devices by their settings are created off, with a note; before
//! they run, their devices are read, and what lacks is asked for again. Once one had all of a kind, later clones with changes
//! of that kind are powered on in the one call.
//!
//! The note and the hash of the spec's interfaces use the same ExtraConfig key, so a VM has one or the other.

use api::vmop::VirtualMachine;
use sha2::{Digest, Sha256};
use vsphere::{CloneSpec, DeviceChange, Vm};

/// ExtraConfig: which interfaces the spec named when the VM got its NICs.
const INTERFACES: &str = "layercake.networkInterfaces";
/// The note of a clone whose devices have not been compared with what it asked for; the kinds that it asked for follow.
const UNCHECKED: &str = "unchecked";
/// The note of a VM whose NICs are being changed, or that is asked once more for what a clone did not bring.
const CHANGING: &str = "changing";

/// Kinds of devices that a clone's settings change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceKinds {
    /// Network adapters come, go, or get more than another network.
    pub nics: bool,
    /// Disks come or grow.
    pub disks: bool,
}

impl DeviceKinds {
    /// The kinds that these changes are of.
    fn of(changes: &[DeviceChange]) -> Self {
        changes.iter().fold(Self::default(), |kinds, change| match change {
            DeviceChange::Add(_) | DeviceChange::Edit(_) | DeviceChange::Remove(_) => {
                Self { nics: true, ..kinds }
            }
            DeviceChange::Disk(_) => Self { disks: true, ..kinds },
            DeviceChange::Other { .. } => kinds,
        })
    }

    /// Whether all of these are among those.
    pub fn within(self, those: Self) -> bool {
        (!self.nics || those.nics) && (!self.disks || those.disks)
    }

    /// These and those.
    #[must_use]
    pub fn and(self, those: Self) -> Self {
        Self { nics: self.nics || those.nics, disks: self.disks || those.disks }
    }
}

/// Has the VM created off, and noted as one to be checked, unless `proven` has all kinds of devices that its settings
/// change. Whether it is to be checked.
pub fn hold_for_check(clone: &mut CloneSpec, proven: DeviceKinds) -> bool {
    let Some(config) = &mut clone.config else { return false };
    let kinds = DeviceKinds::of(&config.device_change);
    if kinds.within(proven) {
        return false;
    }
    let (key, note) = unchecked_note(kinds);
    config.extra_config.retain(|(other, _)| *other != key);
    config.extra_config.push((key, note));
    clone.power_on = false;
    true
}

/// Returns the kinds of devices that the clone asked for and that are complete.
pub fn proven(vsphere_vm: &Vm, complete: DeviceKinds) -> DeviceKinds {
    let asked = unchecked(vsphere_vm).unwrap_or_default();
    DeviceKinds { nics: asked.nics && complete.nics, disks: asked.disks && complete.disks }
}

/// The note of a clone that asked for changes of these kinds of devices.
pub fn unchecked_note(kinds: DeviceKinds) -> (String, String) {
    let words = [(kinds.nics, " nics"), (kinds.disks, " disks")];
    let words = words.into_iter().filter_map(|(asked, word)| asked.then_some(word));
    (INTERFACES.to_owned(), [UNCHECKED].into_iter().chain(words).collect())
}

/// The kinds of devices that the clone asked for, if nobody compared what it got yet.
pub fn unchecked(vsphere_vm: &Vm) -> Option<DeviceKinds> {
    let kinds = vsphere_vm.extra_config.get(INTERFACES)?.strip_prefix(UNCHECKED)?;
    Some(DeviceKinds { nics: kinds.contains("nics"), disks: kinds.contains("disks") })
}

/// The note that the VM is asked for devices, and the clone is no proof of them any more.
pub fn changing_note() -> (String, String) {
    (INTERFACES.to_owned(), CHANGING.to_owned())
}

/// Whether the NICs of its spec were asked for already, by its clone or by a change.
pub fn were_asked_for(vsphere_vm: &Vm) -> bool {
    let changing = vsphere_vm.extra_config.get(INTERFACES).is_some_and(|note| note == CHANGING);
    changing || unchecked(vsphere_vm).is_some_and(|asked| asked.nics)
}

/// The note that the VM has the NICs of its spec.
pub fn nics_note(vm: &VirtualMachine) -> (String, String) {
    // A list of strings and numbers can't fail to serialise.
    let named = serde_json::to_vec(&vm.spec.network_interfaces).unwrap_or_default();
    (INTERFACES.to_owned(), api::names::hex(&Sha256::digest(named)[..8]))
}

/// Whether the spec names other interfaces than the VM got its NICs for. Where nobody noted them, it does not.
pub fn nics_differ(vm: &VirtualMachine, vsphere_vm: &Vm) -> bool {
    vsphere_vm.extra_config.get(INTERFACES).is_some_and(|was| !was.is_empty() && *was != nics_note(vm).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn a_vm_whose_interfaces_nobody_noted_keeps_its_nics() {
        let (mut vm, mut vsphere_vm) = (fixtures::virtual_machine(), fixtures::vsphere_vm());
        assert!(!nics_differ(&vm, &vsphere_vm));
        vsphere_vm.extra_config.extend([nics_note(&vm)]);
        assert!(!nics_differ(&vm, &vsphere_vm));
        vm.spec.network_interfaces = serde_json::from_value(serde_json::json!([{}, {}])).unwrap();
        assert!(nics_differ(&vm, &vsphere_vm));
    }
}
