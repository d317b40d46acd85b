//! Checks that a clone has the devices that its specification requested. The functions use neither a client nor a clock.
//!
//! The vSphere documentation is inconsistent about which part of a clone specification defines devices, and vCenter doesn't
//! report ignored parts. Therefore a clone with device changes is at first created powered off, with a note in its ExtraConfig.
//! Before power-on, the devices of such a clone are read, and missing ones are requested again. Once a clone has received all
//! requested devices of a kind (NICs or disks), the kind is proven: the clone call powers on later clones that change only
//! proven kinds. Each vCenter connection begins without proven kinds.
//!
//! The note and the hash of the spec's interfaces share one ExtraConfig key, so a VM has either a note or the hash.

use api::vmop::VirtualMachine;
use sha2::{Digest, Sha256};
use vsphere::{CloneSpec, DeviceChange, Vm};

/// The ExtraConfig key. Its value is a note, or a hash of the interfaces in the spec when the VM got its NICs.
const INTERFACES: &str = "layercake.networkInterfaces";
/// The note on a clone whose devices aren't checked yet. The requested device kinds follow this word.
const UNCHECKED: &str = "unchecked";
/// The note on a VM whose NICs are being changed, or whose missing devices were requested again.
const CHANGING: &str = "changing";

/// The device kinds that a clone specification changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceKinds {
    /// NICs are added, removed or edited beyond their network.
    pub nics: bool,
    /// Disks are added or grown.
    pub disks: bool,
}

impl DeviceKinds {
    /// Returns the device kinds that these changes concern.
    fn of(changes: &[DeviceChange]) -> Self {
        changes.iter().fold(Self::default(), |kinds, change| match change {
            DeviceChange::Add(_) | DeviceChange::Edit(_) | DeviceChange::Remove(_) => {
                Self { nics: true, ..kinds }
            }
            DeviceChange::Disk(_) => Self { disks: true, ..kinds },
            DeviceChange::Other { .. } => kinds,
        })
    }

    /// Returns true if `those` contains all kinds in `self`.
    pub fn within(self, those: Self) -> bool {
        (!self.nics || those.nics) && (!self.disks || those.disks)
    }

    /// Returns the device kinds that are in `self` or in `those`.
    #[must_use]
    pub fn and(self, those: Self) -> Self {
        Self { nics: self.nics || those.nics, disks: self.disks || those.disks }
    }
}

/// Keeps the clone powered off, with a note that its devices are unchecked, unless `proven` contains all device kinds that the
/// clone changes. Returns true if the clone must be checked.
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

/// Returns the device kinds in `complete` that the clone requested. For these kinds, the clone proves that clones get their
/// devices.
pub fn proven(vsphere_vm: &Vm, complete: DeviceKinds) -> DeviceKinds {
    let asked = unchecked(vsphere_vm).unwrap_or_default();
    DeviceKinds { nics: asked.nics && complete.nics, disks: asked.disks && complete.disks }
}

/// Returns the note (ExtraConfig key and value) for a clone that requested changes to these device kinds.
pub fn unchecked_note(kinds: DeviceKinds) -> (String, String) {
    let words = [(kinds.nics, " nics"), (kinds.disks, " disks")];
    let words = words.into_iter().filter_map(|(asked, word)| asked.then_some(word));
    (INTERFACES.to_owned(), [UNCHECKED].into_iter().chain(words).collect())
}

/// Returns the device kinds that the clone requested, or `None` if its devices don't have to be checked.
pub fn unchecked(vsphere_vm: &Vm) -> Option<DeviceKinds> {
    let kinds = vsphere_vm.extra_config.get(INTERFACES)?.strip_prefix(UNCHECKED)?;
    Some(DeviceKinds { nics: kinds.contains("nics"), disks: kinds.contains("disks") })
}

/// Returns the note (ExtraConfig key and value) for a VM whose devices were requested again. Such a VM no longer proves that a
/// clone gets the devices.
pub fn changing_note() -> (String, String) {
    (INTERFACES.to_owned(), CHANGING.to_owned())
}

/// Returns true if the spec's NICs were already requested, by the clone or a later change.
pub fn were_asked_for(vsphere_vm: &Vm) -> bool {
    let changing = vsphere_vm.extra_config.get(INTERFACES).is_some_and(|note| note == CHANGING);
    changing || unchecked(vsphere_vm).is_some_and(|asked| asked.nics)
}

/// Returns the ExtraConfig key and value that record that the VM got the NICs in its spec. The value is a hash of the
/// interfaces.
pub fn nics_note(vm: &VirtualMachine) -> (String, String) {
    // Serializing a list of strings and numbers can't fail.
    let named = serde_json::to_vec(&vm.spec.network_interfaces).unwrap_or_default();
    (INTERFACES.to_owned(), api::names::hex(&Sha256::digest(named)[..8]))
}

/// Returns true if the interfaces in the spec changed since the VM got its NICs. Returns false if that wasn't recorded.
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
