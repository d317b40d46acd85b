//! Things that many tests start from.

use std::collections::BTreeMap;

use vsphere::inventory::{Guest, PowerState};
use vsphere::{Allocation, MoRef, Vm};

/// A running machine that nobody marked.
pub fn vm(id: &str, name: &str) -> Vm {
    Vm {
        moref: MoRef::vm(id),
        name: name.to_owned(),
        folder: Some(MoRef::folder("group-v9")),
        pool: Some(MoRef::pool("resgroup-9")),
        host: Some(MoRef::host("host-1")),
        template: false,
        power_state: Some(PowerState::On),
        connection_state: "connected".to_owned(),
        uuid: None,
        instance_uuid: None,
        managed_by: None,
        extra_config: BTreeMap::new(),
        guestinfo: BTreeMap::new(),
        num_cpus: 2,
        memory_mib: 4096,
        cpu_allocation: Allocation::default(),
        memory_allocation: Allocation::default(),
        change_version: String::new(),
        hardware_version: "vmx-19".to_owned(),
        guest: Guest::default(),
    }
}
