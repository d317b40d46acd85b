//! What is as it should be, need by need, and the sum of it.

use api::conditions::{self, Condition, ERROR, INFO, WARNING, vmop as known};
use api::names::annotation;
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use jiff::Timestamp;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::probe::ProbeResult;
use crate::unmet::Unmet;
use crate::virtualmachine::Error;
use crate::virtualmachine::needs::Needs;
use crate::virtualmachine::plan::{Blocked, Facts, Found};
use crate::virtualmachine::power;
use crate::virtualmachine::power::Way;
use crate::virtualmachine::status::{Outcome, address, aside};
use crate::virtualmachine::step::Mode;

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
    /// The machine has its class's size.
    pub const CLASS_SYNCED: &str = "VirtualMachineClassConfigurationSynced";
    /// The machine has the virtual hardware that was asked for.
    pub const COMPUTE_SYNCED: &str = "VirtualMachineComputeConfigSynced";
    /// The machine's disks rest on no template.
    pub const DISK_PROMOTION: &str = "VirtualMachineDiskPromotionSynced";
    /// The machine lies where it should.
    pub const LOCATION: &str = "VirtualMachineLocationValid";
    /// The machine is not left alone.
    pub const RECONCILE: &str = "VirtualMachineReconcileReady";
    /// What the guest says of its own bootstrap.
    pub const GUEST_BOOTSTRAP: &str = "GuestBootstrap";
    /// The restart that was asked for is done.
    pub const RESTART: &str = "VirtualMachineRestarted";
    /// The machine is in the power state that was asked for.
    pub const POWER: &str = "VirtualMachinePowerStateSynced";
    /// The guest has an address.
    pub const ADDRESS: &str = "VirtualMachineAddressReady";
}

/// Every condition, without times; `Ready` first.
pub(super) fn conditions(
    vm: &VirtualMachine,
    old: &VirtualMachineStatus,
    machine: Option<&Vm>,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
    probe: Option<&ProbeResult>,
) -> Vec<Condition> {
    let mut all = match (machine, facts.map(|facts| &facts.found)) {
        (Some(machine), _) => existing(vm, machine, facts, outcome),
        (None, Some(Found::Nothing(nothing))) => missing(&nothing.needs, outcome),
        _ => stopped(vm, old, facts, outcome),
    };
    // A machine out of sight is as it was, and so is one whose probe has not answered since our start.
    let unasked = probe == Some(&ProbeResult::Unknown);
    let last = conditions::find(&old.conditions, conditions::READY)
        .filter(|last| machine.is_none() || (unasked && probed(last)));
    let summed: Vec<_> = all.iter().filter(|condition| !aside::is_aside(vm, &condition.type_)).collect();
    let ready = ready(&summed, machine, last, outcome, probe);
    all.insert(0, ready);
    if let Some(machine) = machine {
        all.extend(aside::conditions(vm, machine, facts));
    }
    aside::protected(vm, &mut all);
    all
}

/// Everything that had to be there is: the machine was made of it.
fn existing(
    vm: &VirtualMachine,
    machine: &Vm,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
) -> Vec<Condition> {
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
    all.push(power_synced(vm, machine, facts, outcome));
    if power::wanted(vm) == PowerState::On {
        all.push(match address(machine) {
            Some(_) => Condition::is_true(finer::ADDRESS),
            None => Condition::is_false(finer::ADDRESS, INFO, "WaitingForAddress", unaddressed(machine)),
        });
    }
    all
}

/// Why there may be no address; since when there is none, the condition's time tells.
fn unaddressed(machine: &Vm) -> &'static str {
    if power::hears(machine) {
        "VMware Tools run, and the guest has no address that others can use. If this lasts, check that the network has DHCP or the guest a static address"
    } else {
        "The guest has not reported an address yet. If this lasts, check that the network has DHCP and that the image has VMware Tools"
    }
}

fn power_synced(
    vm: &VirtualMachine,
    machine: &Vm,
    facts: Option<&Facts>,
    outcome: &Outcome<'_>,
) -> Condition {
    let wanted = power::word(power::wanted(vm));
    match (outcome, machine.power_state) {
        (Outcome::Stopped(error), _) if machine.power_state != Some(power::wanted(vm)) => {
            let message = format!("The machine can't be brought to {wanted}: {}", error.advised());
            Condition::is_false(finer::POWER, ERROR, error.reason(), message)
        }
        (_, None) => {
            let message =
                format!("vCenter says that the machine is {}. Check its host", machine.connection_state);
            Condition::is_unknown(finer::POWER, "Unreachable", message)
        }
        (_, Some(is)) if is == power::wanted(vm) => Condition::is_true(finer::POWER),
        (_, Some(is)) => power_pending(vm, machine, is, facts.map_or(Timestamp::MIN, |facts| facts.now)),
    }
}

/// Why the machine is not yet in the power state that is wanted.
fn power_pending(vm: &VirtualMachine, machine: &Vm, is: PowerState, now: Timestamp) -> Condition {
    let (wanted, is_word) = (power::wanted(vm), power::word(is));
    let word = power::word(wanted);
    let checks = power::checks(vm, annotation::POWER_ON_CHECK);
    if wanted == PowerState::On && !checks.is_empty() {
        let message = format!(
            "The machine is {is_word}, and is not powered on while the object has the annotation {}. Who set it takes it off",
            checks.join(", ")
        );
        return Condition::is_false(finer::POWER, INFO, "PowerOnHeldBack", message);
    }
    if is == PowerState::Off && wanted == PowerState::Suspended {
        let message = "The machine is off, and only a running machine can be suspended. Power it on first";
        return Condition::is_false(finer::POWER, INFO, "PoweredOff", message);
    }
    match power::way(vm, machine, wanted, Mode::into_state(vm, wanted), now) {
        Way::Deaf => {
            let message = format!(
                "The machine is {is_word}: its guest is to be asked, as the spec says (soft), and VMware Tools don't run in it. Start them, or choose trySoft or hard"
            );
            Condition::is_false(finer::POWER, WARNING, known::VIRTUAL_MACHINE_TOOLS_NOT_RUNNING, message)
        }
        Way::Ask(until) => {
            let then = match until {
                Some(_) => format!(
                    "; vCenter does it if the guest has not within {} minutes",
                    power::PATIENCE.as_mins()
                ),
                None => ". If this lasts, look at the guest, or choose trySoft or hard".to_owned(),
            };
            let message = format!("The guest is asked to bring the machine to {word}{then}");
            Condition::is_false(finer::POWER, INFO, "WaitingForGuest", message)
        }
        Way::Hard => Condition::is_false(
            finer::POWER,
            INFO,
            "PowerStateChanging",
            format!("The machine is {is_word}, and is being brought to {word}"),
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
    let lost = matches!(found, Some(Found::Lost(_)));
    let said_anew = |type_: &str| match type_ {
        conditions::READY | known::VIRTUAL_MACHINE_CREATED => true,
        finer::POWER | finer::ADDRESS => lost,
        type_ => lost && aside::is_aside(vm, type_),
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
    let wanted = power::word(power::wanted(vm));
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
    all: &[&Condition],
    machine: Option<&Vm>,
    last: Option<&Condition>,
    outcome: &Outcome<'_>,
    probe: Option<&ProbeResult>,
) -> Condition {
    let bad = |severity: Option<&str>| {
        all.iter().find(|condition| {
            condition.status != conditions::TRUE
                && severity.is_none_or(|severity| condition.severity.as_deref() == Some(severity))
        })
    };
    if let Some(cause) = bad(Some(ERROR)).or_else(|| bad(Some(WARNING))).or_else(|| bad(None)) {
        let mut sum = (*cause).clone();
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
        None | Some(ProbeResult::Answers) => Condition::is_true(conditions::READY),
        Some(ProbeResult::Unknown) => Condition::is_unknown(
            conditions::READY,
            known::UNKNOWN,
            "The readiness probe has not answered yet",
        ),
        Some(ProbeResult::NoAnswer(why)) => Condition::is_false(
            conditions::READY,
            INFO,
            known::NOT_READY,
            format!("The readiness probe fails: {why}"),
        ),
    }
}
