//! What a VirtualMachine says of itself: every field and every condition, in one pure function.

mod aside;
mod conditions;

use api::vmop::{NetworkInterfaceStatus, VirtualMachine, VirtualMachineStatus, vm_phase};
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::virtualmachine::plan::{Facts, Found};
use crate::virtualmachine::storage::disks;
use crate::virtualmachine::{Error, power, step};

pub use aside::left_alone;

/// What a pass came to.
pub enum Outcome<'a> {
    /// It came through; the machine as it is now.
    Done(Option<&'a Vm>),
    /// It is at it, and it takes a while.
    Underway,
    /// It did not come through.
    Stopped(&'a Error),
}

/// The status of `vm`, its conditions without times.
pub fn status(vm: &VirtualMachine, facts: Option<&Facts>, outcome: &Outcome<'_>) -> VirtualMachineStatus {
    let old = vm.status.clone().unwrap_or_default();
    let machine = match (outcome, facts.map(|facts| &facts.found)) {
        (Outcome::Done(Some(machine)), _) => Some(*machine),
        (_, Some(Found::Ours(machine) | Found::Moved(machine))) => Some(&**machine),
        _ => None,
    };
    let probe = facts.and_then(|facts| facts.probe.as_ref());
    let mut status = match machine {
        Some(machine) => VirtualMachineStatus {
            zone: facts.and_then(|facts| facts.zone.clone()).or(old.zone.clone()),
            ..present(vm, machine, facts.and_then(|facts| facts.host.clone()))
        },
        None => absent(&old, facts),
    };
    if let (Some(machine), Some(hardware)) = (machine, facts.and_then(|facts| facts.hardware.as_ref())) {
        status.volumes = disks::status(vm, machine, &hardware.devices);
    }
    if let (Some(_), Some(volumes)) = (machine, facts.and_then(|facts| facts.volumes.as_ref())) {
        status.volumes.extend(volumes.status(vm));
    }
    status.observed_generation = vm.metadata.generation;
    status.conditions = conditions::conditions(vm, &old, machine, facts, outcome, probe);
    status
}

fn present(vm: &VirtualMachine, machine: &Vm, host: Option<String>) -> VirtualMachineStatus {
    let deleting = vm.metadata.deletion_timestamp.is_some();
    VirtualMachineStatus {
        host: host.or_else(|| machine.host.as_ref().map(|host| host.id().to_owned())),
        host_name: machine.guest.host_name.clone(),
        power_state: machine.power_state.map(|state| power::word(state).to_owned()),
        phase: Some(if deleting { vm_phase::DELETING } else { vm_phase::CREATED }.to_owned()),
        conditions: Vec::new(),
        vm_ip: address(machine).map(str::to_owned),
        unique_id: Some(machine.moref.id().to_owned()),
        bios_uuid: machine.uuid.map(|uuid| uuid.to_string()),
        instance_uuid: machine.instance_uuid.map(|uuid| uuid.to_string()),
        volumes: Vec::new(),
        change_block_tracking: machine.change_tracking,
        network_interfaces: machine.guest.nics.iter().map(interface).collect(),
        zone: None,
        last_restart_time: step::last_restart(machine).map(|at| at.to_string()),
        hardware_version: step::hardware_version(machine).and_then(|version| version.try_into().ok()),
        observed_generation: None,
    }
}

/// Without a machine at hand what was said of it stands, unless it is known to be gone.
fn absent(old: &VirtualMachineStatus, facts: Option<&Facts>) -> VirtualMachineStatus {
    match facts.map(|facts| &facts.found) {
        Some(Found::Nothing(_) | Found::Anothers(_)) => VirtualMachineStatus {
            phase: Some(vm_phase::CREATING.to_owned()),
            ..VirtualMachineStatus::default()
        },
        Some(Found::Lost(_)) => VirtualMachineStatus {
            power_state: None,
            vm_ip: None,
            host: None,
            network_interfaces: Vec::new(),
            phase: Some(vm_phase::UNKNOWN.to_owned()),
            ..old.clone()
        },
        _ => {
            let phase = old.phase.clone().unwrap_or_else(|| vm_phase::CREATING.to_owned());
            VirtualMachineStatus { phase: Some(phase), ..old.clone() }
        }
    }
}

/// The address that the guest reports, unless it is one that only the guest itself can use.
pub fn address(machine: &Vm) -> Option<&str> {
    if machine.power_state != Some(PowerState::On) {
        return None;
    }
    let ip = machine.guest.ip.as_deref()?;
    let usable = match ip.parse::<std::net::IpAddr>().ok()? {
        std::net::IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        std::net::IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    };
    usable.then_some(ip)
}

fn interface(nic: &vsphere::inventory::GuestNic) -> NetworkInterfaceStatus {
    NetworkInterfaceStatus {
        connected: nic.connected,
        mac_address: Some(nic.mac.clone()).filter(|mac| !mac.is_empty()),
        ip_addresses: nic.addresses.clone(),
    }
}
