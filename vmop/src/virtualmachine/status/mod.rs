//! Computes the status of a VirtualMachine: all fields and conditions, in one pure function.

mod deletion;
#[cfg(test)]
mod hold_up_tests;
mod informational;
mod outcome;
mod summary;

use api::vmop::{NetworkInterfaceStatus, VirtualMachine, VirtualMachineStatus, vm_phase};
use vsphere::Vm;

use super::facts::Facts;
use super::identity::find::Found;
use super::nic::claims::list_kept_addresses;
use super::power::state::power_word;
use super::readiness::address;
use super::step::{hardware_version, last_restart};
use super::storage::disks;
use summary::all_conditions;
pub use summary::describe_question;

pub use deletion::{blocked_status, let_go_status};
pub use informational::paused_status;
pub use outcome::{Outcome, StepProgress, describe_overdue};

/// Computes the status of `vm`. The conditions don't have transition times yet.
pub fn compute_status(
    vm: &VirtualMachine,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
) -> VirtualMachineStatus {
    let old = vm.status.clone().unwrap_or_default();
    let vsphere_vm = match (outcome, facts.map(|facts| &facts.found)) {
        (
            Outcome::Done(Some(vsphere_vm))
            | Outcome::Underway(StepProgress { vsphere_vm: Some(vsphere_vm), overdue: _ }),
            _,
        ) => Some(*vsphere_vm),
        (_, Some(Found::Ours(vsphere_vm) | Found::Moved(vsphere_vm))) => Some(&**vsphere_vm),
        _ => None,
    };
    let probe = facts.and_then(|facts| facts.runtime.probe.as_ref());
    let mut status = match vsphere_vm {
        Some(vsphere_vm) => VirtualMachineStatus {
            zone: facts.and_then(|facts| facts.runtime.zone.clone()).or(old.zone.clone()),
            endpoint_addresses: facts.map_or_else(|| old.endpoint_addresses.clone(), endpoint_addresses),
            ..build_observed_status(vm, vsphere_vm, facts.and_then(|facts| facts.runtime.host.clone()))
        },
        None => keep_old_status(&old, facts),
    };
    if status.phase.as_deref() != Some(vm_phase::CREATING) {
        let has_left =
            |facts: &Facts| facts.runtime.address_conflict.is_some() || matches!(facts.found, Found::Lost(_));
        status.kept_addresses =
            list_kept_addresses(&old, &status.endpoint_addresses, facts.is_some_and(has_left));
    }
    if let (Some(vsphere_vm), Some(known)) = (vsphere_vm, facts.and_then(|facts| facts.disks.as_ref())) {
        status.volumes = disks::report_volumes(vm, vsphere_vm, &known.devices);
    }
    if let (Some(_), Some(volumes)) = (vsphere_vm, facts.and_then(|facts| facts.volumes.as_ref())) {
        status.volumes.extend(volumes.status(vm));
    }
    status.observed_generation = vm.metadata.generation;
    status.conditions = all_conditions(vm, &old, vsphere_vm, facts, outcome, probe);
    status
}

fn endpoint_addresses(facts: &Facts) -> Vec<String> {
    facts.runtime.endpoint_addresses.iter().map(ToString::to_string).collect()
}

fn build_observed_status(vm: &VirtualMachine, vsphere_vm: &Vm, host: Option<String>) -> VirtualMachineStatus {
    let deleting = vm.metadata.deletion_timestamp.is_some();
    VirtualMachineStatus {
        host: host.or_else(|| vsphere_vm.host.as_ref().map(|host| host.id().to_owned())),
        host_name: vsphere_vm.guest.host_name.clone(),
        power_state: vsphere_vm.power_state.map(|state| power_word(state).to_owned()),
        phase: Some(if deleting { vm_phase::DELETING } else { vm_phase::CREATED }.to_owned()),
        conditions: Vec::new(),
        vm_ip: address(vsphere_vm).map(str::to_owned),
        endpoint_addresses: Vec::new(),
        kept_addresses: Vec::new(),
        unique_id: Some(vsphere_vm.moref.id().to_owned()),
        bios_uuid: vsphere_vm.uuid.map(|uuid| uuid.to_string()),
        instance_uuid: vsphere_vm.instance_uuid.map(|uuid| uuid.to_string()),
        volumes: Vec::new(),
        change_block_tracking: vsphere_vm.change_tracking,
        network_interfaces: vsphere_vm.guest.nics.iter().map(interface).collect(),
        zone: None,
        last_restart_time: last_restart(vsphere_vm).map(|at| at.to_string()),
        hardware_version: hardware_version(vsphere_vm).and_then(|version| version.try_into().ok()),
        observed_generation: None,
    }
}

/// Returns the status if the VM can't be observed. The old status is kept, unless the VM is known not to exist.
fn keep_old_status(old: &VirtualMachineStatus, facts: Option<&Facts>) -> VirtualMachineStatus {
    match facts.map(|facts| &facts.found) {
        Some(Found::Absent | Found::Claimed(_)) => VirtualMachineStatus {
            phase: Some(vm_phase::CREATING.to_owned()),
            ..VirtualMachineStatus::default()
        },
        Some(Found::Lost(_)) => VirtualMachineStatus {
            power_state: None,
            vm_ip: None,
            endpoint_addresses: Vec::new(),
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

fn interface(nic: &vsphere::inventory::GuestNic) -> NetworkInterfaceStatus {
    NetworkInterfaceStatus {
        connected: nic.connected,
        mac_address: Some(nic.mac.clone()).filter(|mac| !mac.is_empty()),
        ip_addresses: nic.addresses.clone(),
    }
}
