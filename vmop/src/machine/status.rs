//! What a VirtualMachine says of itself: every field and every condition, in one pure function.

use api::conditions::{self, Condition, ERROR, INFO, WARNING, vmop as known};
use api::vmop::{
    NetworkInterfaceStatus, POWERED_OFF, POWERED_ON, SUSPENDED, VirtualMachine, VirtualMachineStatus,
    vm_phase,
};
use vsphere::Vm;
use vsphere::inventory::PowerState;

use super::Error;
use super::disks;
use super::needs::{Needs, Unmet};
use super::plan::{Blocked, Facts, Found, wanted_power};
use crate::probe::Verdict;

/// Condition types that vm-operator added after v1alpha1 and that say more finely what is missing.
pub mod finer {
    /// The class is there and bound.
    pub const CLASS: &str = "VirtualMachineClassReady";
    /// The image is there and can be cloned.
    pub const IMAGE: &str = "VirtualMachineImageReady";
    /// The storage class may be used.
    pub const STORAGE: &str = "VirtualMachineStorageReady";
    /// The networks are realised.
    pub const NETWORK: &str = "VirtualMachineNetworkReady";
    /// The guest's data is there.
    pub const BOOTSTRAP: &str = "VirtualMachineBootstrapReady";
    /// Folder and pool are known.
    pub const PLACEMENT: &str = "VirtualMachineConditionPlacementReady";
    /// The machine is in the power state that was asked for.
    pub const POWER: &str = "VirtualMachinePowerStateSynced";
    /// The guest has an address.
    pub const ADDRESS: &str = "VirtualMachineAddressReady";
}

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
        Some(machine) => present(vm, machine, facts.and_then(|facts| facts.host.clone())),
        None => absent(&old, facts),
    };
    if let (Some(machine), Some(hardware)) = (machine, facts.and_then(|facts| facts.hardware.as_ref())) {
        status.volumes = disks::status(vm, machine, &hardware.devices);
    }
    status.observed_generation = vm.metadata.generation;
    status.conditions = conditions(vm, &old, machine, facts, outcome, probe);
    status
}

fn present(vm: &VirtualMachine, machine: &Vm, host: Option<String>) -> VirtualMachineStatus {
    let deleting = vm.metadata.deletion_timestamp.is_some();
    VirtualMachineStatus {
        host: host.or_else(|| machine.host.as_ref().map(|host| host.id().to_owned())),
        host_name: machine.guest.host_name.clone(),
        power_state: machine.power_state.map(|state| power_word(state).to_owned()),
        phase: Some(if deleting { vm_phase::DELETING } else { vm_phase::CREATED }.to_owned()),
        conditions: Vec::new(),
        vm_ip: address(machine).map(str::to_owned),
        unique_id: Some(machine.moref.id().to_owned()),
        bios_uuid: machine.uuid.map(|uuid| uuid.to_string()),
        instance_uuid: machine.instance_uuid.map(|uuid| uuid.to_string()),
        volumes: Vec::new(),
        change_block_tracking: None,
        network_interfaces: machine.guest.nics.iter().map(interface).collect(),
        zone: None,
        last_restart_time: None,
        hardware_version: machine.hardware_version.strip_prefix("vmx-").and_then(|text| text.parse().ok()),
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
        Some(Found::Lost) => VirtualMachineStatus {
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

fn power_word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => POWERED_ON,
        PowerState::Off => POWERED_OFF,
        PowerState::Suspended => SUSPENDED,
    }
}

fn conditions(
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    machine: Option<&Vm>,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
    probe: Option<&Verdict>,
) -> Vec<Condition> {
    let mut all = match (machine, facts.map(|facts| &facts.found)) {
        (Some(machine), _) => existing(vm, machine, outcome),
        (None, Some(Found::Nothing(nothing))) => missing(&nothing.needs, outcome),
        _ => stopped(vm, old, facts, outcome),
    };
    // A machine out of sight is as it was, and so is one whose probe has not answered since our start.
    let unasked = probe == Some(&Verdict::Unknown);
    let last = conditions::find(&old.conditions, conditions::READY)
        .filter(|last| machine.is_none() || (unasked && probed(last)));
    let ready = ready(&all, machine, last, outcome, probe);
    all.insert(0, ready);
    all
}

/// Everything that had to be there is: the machine was made of it.
fn existing(vm: &VirtualMachine, machine: &Vm, outcome: &Outcome<'_>) -> Vec<Condition> {
    let met = [
        known::VIRTUAL_MACHINE_PREREQ_READY,
        finer::CLASS,
        finer::IMAGE,
        finer::STORAGE,
        finer::NETWORK,
        finer::BOOTSTRAP,
        finer::PLACEMENT,
        known::VIRTUAL_MACHINE_CREATED,
    ];
    let mut all: Vec<_> = met.into_iter().map(Condition::is_true).collect();
    all.push(power(vm, machine, outcome));
    if wanted_power(vm) == PowerState::On {
        all.push(match address(machine) {
            Some(_) => Condition::is_true(finer::ADDRESS),
            None => Condition::is_false(
                finer::ADDRESS,
                INFO,
                "WaitingForAddress",
                "The guest has not reported an address yet. If this lasts, check that the network has DHCP and that the image has VMware Tools",
            ),
        });
    }
    all
}

fn power(vm: &VirtualMachine, machine: &Vm, outcome: &Outcome<'_>) -> Condition {
    let wanted = power_word(wanted_power(vm));
    match (outcome, machine.power_state) {
        (Outcome::Stopped(error), _) if machine.power_state != Some(wanted_power(vm)) => {
            let message = format!("The machine can't be brought to {wanted}: {}", error.advised());
            Condition::is_false(finer::POWER, ERROR, error.reason(), message)
        }
        (_, None) => {
            let message =
                format!("vCenter says that the machine is {}. Check its host", machine.connection_state);
            Condition::is_unknown(finer::POWER, "Unreachable", message)
        }
        (_, Some(is)) if is == wanted_power(vm) => Condition::is_true(finer::POWER),
        (_, Some(is)) => Condition::is_false(
            finer::POWER,
            INFO,
            "PowerStateChanging",
            format!("The machine is {}, and is being brought to {wanted}", power_word(is)),
        ),
    }
}

/// Each need by itself, and whether vCenter is at work.
fn missing(needs: &Needs, outcome: &Outcome<'_>) -> Vec<Condition> {
    let Needs { class, image, storage, network, bootstrap, place } = needs;
    let judged = |type_: &str, unmet: Option<&Unmet>| match unmet {
        None => Condition::is_true(type_),
        Some(unmet) => unmet_condition(type_, unmet),
    };
    let prereq = class.as_ref().err().or(image.as_ref().err());
    vec![
        judged(known::VIRTUAL_MACHINE_PREREQ_READY, prereq),
        judged(finer::CLASS, class.as_ref().err()),
        judged(finer::IMAGE, image.as_ref().err()),
        judged(finer::STORAGE, storage.as_ref().err()),
        judged(finer::NETWORK, network.as_ref().err()),
        judged(finer::BOOTSTRAP, bootstrap.as_ref().err()),
        judged(finer::PLACEMENT, place.as_ref().err()),
        created(needs, outcome),
    ]
}

fn created(needs: &Needs, outcome: &Outcome<'_>) -> Condition {
    match outcome {
        Outcome::Stopped(Error::Blocked(_)) if needs.first_unmet().is_some() => Condition::is_false(
            known::VIRTUAL_MACHINE_CREATED,
            INFO,
            "WaitingForPrerequisites",
            "The machine is made when what it needs is there",
        ),
        Outcome::Stopped(error) => stopped_by(error),
        Outcome::Underway | Outcome::Done(_) => Condition::is_false(
            known::VIRTUAL_MACHINE_CREATED,
            INFO,
            "Cloning",
            "vCenter is cloning the machine",
        ),
    }
}

fn unmet_condition(type_: &str, unmet: &Unmet) -> Condition {
    let severity = if unmet.underway { INFO } else { ERROR };
    Condition::is_false(type_, severity, unmet.reason, unmet.message.clone())
}

/// Nothing is known of the machine but why: that is told, and what was known otherwise stands.
fn stopped(
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
) -> Vec<Condition> {
    let Outcome::Stopped(error) = outcome else { return Vec::new() };
    let found = facts.map(|facts| &facts.found);
    if matches!(found, Some(Found::Unknown(_))) && made(old) {
        return unseen(vm, old, error);
    }
    let lost = matches!(found, Some(Found::Lost));
    let said_anew = |type_: &str| match type_ {
        conditions::READY | known::VIRTUAL_MACHINE_CREATED => true,
        finer::POWER | finer::ADDRESS => lost,
        _ => false,
    };
    let mut all: Vec<_> = old.conditions.iter().filter(|old| !said_anew(&old.type_)).cloned().collect();
    if let Error::Blocked(Blocked::Unmet(unmet)) = error {
        all.retain(|condition| condition.type_ != finer::PLACEMENT);
        all.push(unmet_condition(finer::PLACEMENT, unmet));
    }
    all.push(stopped_by(error));
    all
}

/// The machine is as it was, for all we know; only what is asked of it can't be done now.
fn unseen(vm: &VirtualMachine, old: &VirtualMachineStatus, error: &Error) -> Vec<Condition> {
    let wanted = power_word(wanted_power(vm));
    let asked = old.power_state.as_deref() != Some(wanted);
    let kept = old.conditions.iter().filter(|old| old.type_ != conditions::READY).cloned();
    kept.map(|condition| {
        if !asked || condition.type_ != finer::POWER {
            return condition;
        }
        let message = format!("The machine can't be brought to {wanted}: {}", error.advised());
        Condition::is_false(finer::POWER, WARNING, error.reason(), message)
    })
    .collect()
}

/// Whether `Ready` was what the probe said: everything before it was as it should be.
fn probed(last: &Condition) -> bool {
    last.status == conditions::TRUE || last.reason.as_deref() == Some(known::NOT_READY)
}

/// Whether the machine was there when the status was last written.
fn made(old: &VirtualMachineStatus) -> bool {
    conditions::holds(&old.conditions, known::VIRTUAL_MACHINE_CREATED)
}

fn stopped_by(error: &Error) -> Condition {
    let severity = match error {
        Error::Blocked(Blocked::Unmet(unmet)) if unmet.underway => INFO,
        Error::Unsettled(_) => INFO,
        Error::Vcenter(error) if error.retryable() => WARNING,
        _ => ERROR,
    };
    Condition::is_false(known::VIRTUAL_MACHINE_CREATED, severity, error.reason(), error.advised())
}

/// The sum: the first thing that is not as it should be, else what the probe says.
///
/// `last` is what it was, where nobody can look at the machine now.
fn ready(
    all: &[Condition],
    machine: Option<&Vm>,
    last: Option<&Condition>,
    outcome: &Outcome<'_>,
    probe: Option<&Verdict>,
) -> Condition {
    let bad = |severity: Option<&str>| {
        all.iter().find(|condition| {
            condition.status != conditions::TRUE
                && severity.is_none_or(|severity| condition.severity.as_deref() == Some(severity))
        })
    };
    if let Some(cause) = bad(Some(ERROR)).or_else(|| bad(Some(WARNING))).or_else(|| bad(None)) {
        let mut sum = cause.clone();
        conditions::READY.clone_into(&mut sum.type_);
        sum.last_transition_time = None;
        return sum;
    }
    if let (Some(_), Outcome::Stopped(error)) = (machine, outcome) {
        return Condition::is_false(conditions::READY, WARNING, error.reason(), error.advised());
    }
    let off = machine.is_some_and(|machine| machine.power_state != Some(PowerState::On));
    match probe {
        _ if off => {
            Condition::is_false(conditions::READY, INFO, "PoweredOff", "The machine is off, as was asked for")
        }
        _ if last.is_some() => last.cloned().unwrap_or_default(),
        None | Some(Verdict::Answers) => Condition::is_true(conditions::READY),
        Some(Verdict::Unknown) => Condition::is_unknown(
            conditions::READY,
            known::UNKNOWN,
            "The readiness probe has not answered yet",
        ),
        Some(Verdict::Silent(why)) => Condition::is_false(
            conditions::READY,
            INFO,
            known::NOT_READY,
            format!("The readiness probe fails: {why}"),
        ),
    }
}
