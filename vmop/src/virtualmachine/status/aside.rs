//! What is said beside the sum: of the guest, of a size to come, of where a machine lies. `Ready` does not wait for it.

use api::conditions::{self, Condition, ERROR, INFO, WARNING, vmop as known};
use api::names::annotation;
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use kube::ResourceExt;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::pause;
use crate::vcenter::Placement;
use crate::vcenter::settings::PromoteDisks;
use crate::virtualmachine::plan::Facts;
use crate::virtualmachine::power;
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::size::resize;
use crate::virtualmachine::size::resize::Sized;
use crate::virtualmachine::status::conditions::finer;
use crate::virtualmachine::step::Mode;
use crate::virtualmachine::storage::promotion::{Promotion, State};

/// What the guest says by itself: `true|false[,reason[,message]]`.
const BOOTSTRAP: &str = "guestinfo.vmservice.bootstrap.condition";
const PAUSED: &str = "VirtualMachineReconcilePaused";
const RUNNING: &str = "VirtualMachineReconcileRunning";

/// What is to be said of a machine that is there, beside the sum.
pub(super) fn conditions(vm: &VirtualMachine, machine: &Vm, facts: Option<&Facts>) -> Vec<Condition> {
    let size = facts.and_then(|facts| facts.size.as_ref());
    let place = facts.and_then(|facts| facts.place.as_ref());
    let promotion = facts.and_then(|facts| facts.promotion.as_ref());
    let restart = facts.and_then(|facts| restarted(vm, machine, facts.now));
    let said = [
        Some(tools(machine)),
        customized(machine),
        bootstrapped(machine),
        size.map(|size| sized(vm, machine, size)),
        hardware(vm, machine),
        place.map(|place| located(machine, place)),
        promotion.map(|promotion| promoted(vm, machine, promotion)),
        restart,
        Some(reconciled(vm, Some(machine))),
    ];
    said.into_iter().flatten().collect()
}

/// Whether a condition is said beside the sum.
pub(super) fn is_aside(vm: &VirtualMachine, type_: &str) -> bool {
    const ASIDE: [&str; 9] = [
        known::VIRTUAL_MACHINE_TOOLS,
        known::GUEST_CUSTOMIZATION,
        finer::GUEST_BOOTSTRAP,
        finer::CLASS_SYNCED,
        finer::COMPUTE_SYNCED,
        finer::LOCATION,
        finer::DISK_PROMOTION,
        finer::RESTART,
        finer::RECONCILE,
    ];
    ASIDE.contains(&type_)
        || vm.annotations().keys().any(|key| key.strip_prefix(annotation::PROTECTED_CONDITION) == Some(type_))
}

/// Conditions that an admin adds by annotation; those that are computed stand.
pub(super) fn protected(vm: &VirtualMachine, all: &mut Vec<Condition>) {
    for (key, value) in vm.annotations() {
        let Some(type_) = key.strip_prefix(annotation::PROTECTED_CONDITION) else { continue };
        let mut parts = value.splitn(4, ';').map(str::trim);
        let mut part = || parts.next().unwrap_or_default();
        let (named, status, reason, message) = (part(), part(), part(), part());
        let known = [conditions::TRUE, conditions::FALSE, "Unknown"].contains(&status);
        if named != type_ || !known || conditions::find(all, type_).is_some() {
            continue;
        }
        all.push(Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            severity: (status == conditions::FALSE).then(|| INFO.to_owned()),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            message: Some(message.to_owned()).filter(|message| !message.is_empty()),
            ..Condition::default()
        });
    }
}

/// The status of an object that somebody asked us to leave alone: as it was, and that it is left alone.
pub fn left_alone(vm: &VirtualMachine) -> VirtualMachineStatus {
    let mut status = vm.status.clone().unwrap_or_default();
    status.conditions.retain(|condition| condition.type_ != finer::RECONCILE);
    status.conditions.push(reconciled(vm, None));
    status
}

fn reconciled(vm: &VirtualMachine, machine: Option<&Vm>) -> Condition {
    match pause::label(vm, machine) {
        None => Condition { reason: Some(RUNNING.to_owned()), ..Condition::is_true(finer::RECONCILE) },
        Some(by) => {
            let what = if by == "admin" { "ExtraConfig key in vCenter" } else { "annotation on this object" };
            let message =
                format!("The machine is left alone, as {by} asked. Take the {what} off to end that");
            Condition::is_false(finer::RECONCILE, INFO, PAUSED, message)
        }
    }
}

fn tools(machine: &Vm) -> Condition {
    let named = |reason: &str, condition| Condition { reason: Some(reason.to_owned()), ..condition };
    match machine.guest.tools {
        _ if power::hears(machine) => {
            let is_true = Condition::is_true(known::VIRTUAL_MACHINE_TOOLS);
            named(known::VIRTUAL_MACHINE_TOOLS_RUNNING, is_true)
        }
        None => Condition::is_unknown(
            known::VIRTUAL_MACHINE_TOOLS,
            "NoGuestInfo",
            "vCenter knows nothing of VMware Tools in this guest",
        ),
        Some(_) => {
            let message = if machine.power_state == Some(PowerState::On) {
                "VMware Tools don't run: there is no address, no heartbeat and no soft shutdown. If this lasts, check that the image has them"
            } else {
                "The machine is off"
            };
            let reason = known::VIRTUAL_MACHINE_TOOLS_NOT_RUNNING;
            Condition::is_false(known::VIRTUAL_MACHINE_TOOLS, INFO, reason, message)
        }
    }
}

/// How the guest's customisation goes; nothing where there is none.
fn customized(machine: &Vm) -> Option<Condition> {
    let customized = machine.guest.customization.as_ref()?;
    let underway =
        |reason, message: &str| Condition::is_false(known::GUEST_CUSTOMIZATION, INFO, reason, message);
    Some(match customized.status.as_str() {
        "TOOLSDEPLOYPKG_PENDING" => {
            underway(known::GUEST_CUSTOMIZATION_PENDING, "The guest is customised at its next start")
        }
        "TOOLSDEPLOYPKG_RUNNING" => {
            underway(known::GUEST_CUSTOMIZATION_RUNNING, "The guest is being customised")
        }
        "TOOLSDEPLOYPKG_SUCCEEDED" => Condition {
            reason: Some(known::GUEST_CUSTOMIZATION_SUCCEEDED.to_owned()),
            ..Condition::is_true(known::GUEST_CUSTOMIZATION)
        },
        "TOOLSDEPLOYPKG_FAILED" => {
            let why = customized.error.as_deref().unwrap_or("vCenter does not say why");
            let message = format!(
                "The guest could not be customised: {why}. Look into /var/log/vmware-imc (Windows: C:\\Windows\\Temp\\vmware-imc) in the guest"
            );
            Condition::is_false(known::GUEST_CUSTOMIZATION, ERROR, known::GUEST_CUSTOMIZATION_FAILED, message)
        }
        _ => return None,
    })
}

/// What the guest says of its own bootstrap.
fn bootstrapped(machine: &Vm) -> Option<Condition> {
    let said = machine.extra_config.get(BOOTSTRAP)?;
    let mut parts = said.splitn(3, ',').map(str::trim);
    let status = parts.next()?;
    let reason = parts.next().filter(|reason| !reason.is_empty());
    let message = parts.next().filter(|message| !message.is_empty()).map(str::to_owned);
    Some(if status.eq_ignore_ascii_case("true") {
        let reason = reason.map(str::to_owned);
        Condition { reason, message, ..Condition::is_true(finer::GUEST_BOOTSTRAP) }
    } else {
        let mut condition =
            Condition::is_false(finer::GUEST_BOOTSTRAP, WARNING, reason.unwrap_or("False"), String::new());
        condition.message = message;
        condition
    })
}

fn sized(vm: &VirtualMachine, machine: &Vm, size: &Size) -> Condition {
    let class = &vm.spec.class_name;
    let at_power_off =
        |what: &str| format!("{what}. PowerOffRequired: the machine gets its size when it is powered off");
    let (reason, message) = match resize::sized(vm, machine, size) {
        Sized::Synced => return Condition::is_true(finer::CLASS_SYNCED),
        Sized::Renamed => ("ClassNameChanged", at_power_off(&format!("The class is now {class}"))),
        Sized::Follows => ("SameClassResize", at_power_off(&format!("The class {class} was changed"))),
        Sized::Updated => (
            "ClassUpdated",
            format!(
                "The class {class} was changed after the machine was made, and the machine keeps its size. To have it follow, annotate the object with {}",
                annotation::SAME_CLASS_RESIZE
            ),
        ),
    };
    Condition::is_false(finer::CLASS_SYNCED, INFO, reason, message)
}

fn hardware(vm: &VirtualMachine, machine: &Vm) -> Option<Condition> {
    resize::outdated(vm, machine).then(|| {
        let least = vm.spec.min_hardware_version.unwrap_or_default();
        let message = format!(
            "The machine has the virtual hardware {}, and gets vmx-{least} when it is powered off",
            machine.hardware_version
        );
        Condition::is_false(finer::COMPUTE_SYNCED, INFO, "PowerOffRequired", message)
    })
}

fn located(machine: &Vm, place: &Placement) -> Condition {
    let (folder, pool) =
        (machine.folder.as_ref() == Some(&place.folder), machine.pool.as_ref() == Some(&place.pool));
    let (reason, what) = match (pool, folder) {
        (true, true) => return Condition::is_true(finer::LOCATION),
        (false, true) => ("ResourcePoolMismatch", format!("resource pool {}", place.pool.id())),
        (true, false) => ("FolderMismatch", format!("folder {}", place.folder.id())),
        (false, false) => (
            "ResourcePoolAndFolderMismatch",
            format!("resource pool {} and the folder {}", place.pool.id(), place.folder.id()),
        ),
    };
    let message = format!("The machine was moved in vCenter: it should lie in the {what}. Move it back");
    Condition::is_false(finer::LOCATION, WARNING, reason, message)
}

/// Whether the machine's disks rest on a template still, where they shall not.
fn promoted(vm: &VirtualMachine, machine: &Vm, promotion: &Promotion) -> Condition {
    const PENDING: &str = "DiskPromotionPending";
    let is_false = |severity, reason, message: &str| {
        Condition::is_false(finer::DISK_PROMOTION, severity, reason, message)
    };
    match &promotion.state {
        State::Done | State::Unnoted => Condition::is_true(finer::DISK_PROMOTION),
        State::Due(_) if !promotion.fits(vm, machine) => {
            let when = if promotion.mode == PromoteDisks::Offline { "it is powered off" } else { "it runs" };
            let message = format!("The machine's disks rest on the image's template until {when}");
            is_false(INFO, PENDING, &message)
        }
        State::Due(_) | State::Running => is_false(
            INFO,
            "DiskPromotionRunning",
            "vCenter copies what the machine's disks rest on; the machine goes on meanwhile",
        ),
        State::Snapshots => is_false(
            INFO,
            PENDING,
            "The machine has snapshots, which rest on its linked disks. Remove them in vCenter to have the disks promoted",
        ),
        State::Passing(why) => is_false(WARNING, "DiskPromotionTransientError", why),
        State::Failed(why) => {
            let message = format!("{why}. It is tried again when this object's spec is changed");
            is_false(ERROR, "DiskPromotionTaskError", &message)
        }
    }
}

/// Said only of a restart that can't be done.
fn restarted(vm: &VirtualMachine, machine: &Vm, now: jiff::Timestamp) -> Option<Condition> {
    let asked = vm.spec.next_restart_time.as_deref().filter(|time| !time.is_empty())?;
    if asked != "now" && asked.parse::<jiff::Timestamp>().is_err() {
        let message = format!(
            "spec.nextRestartTime {asked:?} is no time. Give one such as 2026-01-31T12:00:00Z, or now"
        );
        return Some(Condition::is_false(finer::RESTART, ERROR, "InvalidSpec", message));
    }
    power::restart_due(vm, machine, now)?;
    let deaf = Mode::of(vm.spec.restart_mode.as_deref()) == Mode::Soft && !power::hears(machine);
    (deaf && machine.power_state == Some(PowerState::On)).then(|| {
        let message = "The guest is to restart by itself (soft), and VMware Tools don't run in it. Start them, or choose trySoft or hard";
        Condition::is_false(finer::RESTART, WARNING, known::VIRTUAL_MACHINE_TOOLS_NOT_RUNNING, message)
    })
}
