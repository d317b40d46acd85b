//! Device changes that give a clone the wanted NICs in place of its template's NICs.

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::{DeviceChange, NicBacking, VirtualNic};

use super::adapter::Nic;

/// Returns true if the VM must not have NICs, even if its template has some: the spec doesn't name interfaces, and an
/// annotation disables the default NIC.
pub fn without_nics(vm: &VirtualMachine) -> bool {
    vm.spec.network_interfaces.is_empty() && vm.annotations().contains_key(annotation::NO_DEFAULT_NIC)
}

/// The NIC changes of a clone, split by the part of the clone specification from which vCenter reads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloneNics {
    /// The networks of template NICs that are reused, for the relocate spec.
    pub backings: Vec<NicBacking>,
    /// All other changes, for the config spec.
    pub changes: Vec<DeviceChange>,
}

/// Plans the change from the template's NICs to the wanted ones: reconnects NICs of the right kind, and replaces or adds others.
///
/// Without wanted NICs, the template's NICs are kept, or removed if `none` is true.
pub fn clone_nics(present: &[VirtualNic], wanted: &[Nic], none: bool) -> CloneNics {
    let mut nics = CloneNics::default();
    if wanted.is_empty() && !none {
        return nics;
    }
    let mut new_keys = new_keys();
    for (at, nic) in wanted.iter().enumerate() {
        let here = present.get(at);
        if let Some(same) = here.filter(|here| here.kind == nic.kind) {
            nics.backings.push(NicBacking { key: same.key, kind: nic.kind, backing: nic.backing.clone() });
            if nic.mac.is_some() || nic.external_id.is_some() || !same.connects {
                nics.changes.push(DeviceChange::Edit(build_virtual_nic(same.key, nic)));
            }
            continue;
        }
        nics.changes.extend(here.map(build_removal));
        nics.changes.extend(new_keys.next().map(|key| DeviceChange::Add(build_virtual_nic(key, nic))));
    }
    nics.changes.extend(present.iter().skip(wanted.len()).map(build_removal));
    nics
}

/// Returns up to 100 device keys for new NICs. Passthrough devices use keys from -200 downwards.
pub fn new_keys() -> impl Iterator<Item = i32> {
    (-199..=-100).rev()
}

pub fn build_virtual_nic(key: i32, nic: &Nic) -> VirtualNic {
    VirtualNic {
        key,
        kind: nic.kind,
        backing: Some(nic.backing.clone()),
        mac: nic.mac.clone(),
        address: None,
        external_id: nic.external_id.clone(),
        connects: true,
    }
}

pub fn build_removal(nic: &VirtualNic) -> DeviceChange {
    DeviceChange::Remove(VirtualNic {
        backing: None,
        mac: None,
        address: None,
        external_id: None,
        ..nic.clone()
    })
}
