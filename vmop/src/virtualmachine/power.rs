//! How a machine gets into the power state that is wanted: at once by vCenter, or by the guest, which may take its time.

use api::names::annotation;
use api::vmop::{POWERED_OFF, POWERED_ON, SUSPENDED, VirtualMachine};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use vsphere::Vm;
use vsphere::inventory::{PowerState, ToolsState};

use crate::virtualmachine::clone::wants_power;
use crate::virtualmachine::step;
use crate::virtualmachine::step::{Mode, Step};

/// How long a guest has before `trySoft` becomes hard, as vm-operator has it.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// How a machine is brought into a power state, or restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// vCenter does it now.
    Hard,
    /// The guest is asked; after this time vCenter does it, or never.
    Ask(Option<Timestamp>),
    /// The guest would have to be asked, and can't: VMware Tools don't run.
    Deaf,
}

/// The power state that the spec asks for.
pub fn wanted(vm: &VirtualMachine) -> PowerState {
    if wants_power(vm) {
        PowerState::On
    } else if vm.spec.power_state.as_deref() == Some(SUSPENDED) {
        PowerState::Suspended
    } else {
        PowerState::Off
    }
}

/// The word of the API for a power state.
pub fn word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => POWERED_ON,
        PowerState::Off => POWERED_OFF,
        PowerState::Suspended => SUSPENDED,
    }
}

/// How the machine is brought into `state` in that mode.
pub fn way(vm: &VirtualMachine, machine: &Vm, state: PowerState, mode: Mode, now: Timestamp) -> Way {
    // Only a running guest can be asked, and only to end or to rest.
    if state == PowerState::On || machine.power_state != Some(PowerState::On) {
        return Way::Hard;
    }
    match (mode, hears(machine)) {
        (Mode::Hard, _) | (Mode::TrySoft, false) => Way::Hard,
        (Mode::Soft, true) => Way::Ask(None),
        (Mode::Soft, false) => Way::Deaf,
        (Mode::TrySoft, true) => {
            let until = asked_since(vm, state).unwrap_or(now).saturating_add(PATIENCE).unwrap_or(now);
            if now < until { Way::Ask(Some(until)) } else { Way::Hard }
        }
    }
}

/// Whether the guest can be asked for anything.
pub fn hears(machine: &Vm) -> bool {
    machine.guest.tools == Some(ToolsState::Running)
}

/// Since when the guest is asked to bring the machine into `state`.
pub fn asked_since(vm: &VirtualMachine, state: PowerState) -> Option<Timestamp> {
    let (of, since) = vm.annotations().get(annotation::SOFT_POWER)?.split_once(' ')?;
    since.parse().ok().filter(|_| of == word(state))
}

/// The annotation's value: the guest is asked for `state` since then.
pub fn asked(state: PowerState, since: Timestamp) -> String {
    format!("{} {since}", word(state))
}

/// The checks that hold the machine's power-on back, such as `poweron.check.vmoperator.vmware.com/backup`.
pub fn checks<'a>(vm: &'a VirtualMachine, prefix: &str) -> Vec<&'a str> {
    vm.annotations().keys().filter(|key| key.starts_with(prefix)).map(String::as_str).collect()
}

/// The restart that the spec asks for and that has not been, if its time is readable.
pub fn restart_asked(vm: &VirtualMachine, machine: &Vm) -> Option<Timestamp> {
    let asked: Timestamp = vm.spec.next_restart_time.as_deref()?.parse().ok()?;
    step::last_restart(machine).is_none_or(|last| last < asked).then_some(asked)
}

/// The restart whose time has come.
pub fn restart_due(vm: &VirtualMachine, machine: &Vm, now: Timestamp) -> Option<Timestamp> {
    restart_asked(vm, machine).filter(|asked| *asked <= now)
}

/// The restart that is to be done now: the machine runs, its time has come, and the guest hears where it is to be asked.
pub fn restart(vm: &VirtualMachine, machine: &Vm, now: Timestamp) -> Option<Step> {
    let asked = restart_due(vm, machine, now)?;
    let mode = match (Mode::of(vm.spec.restart_mode.as_deref()), hears(machine)) {
        (Mode::Hard, _) | (Mode::TrySoft, false) => Mode::Hard,
        (Mode::Soft | Mode::TrySoft, true) => Mode::Soft,
        (Mode::Soft, false) => return None,
    };
    Some(Step::Restart(mode, asked))
}

/// When to look again, if nothing happens before: a guest's time is up, or a restart is due.
pub fn next(vm: &VirtualMachine, machine: &Vm, now: Timestamp) -> Option<SignedDuration> {
    let wanted = wanted(vm);
    let at = if machine.power_state == Some(wanted) {
        restart_asked(vm, machine).filter(|at| wanted == PowerState::On && *at > now)
    } else {
        match way(vm, machine, wanted, Mode::into_state(vm, wanted), now) {
            Way::Ask(until) => until,
            Way::Hard | Way::Deaf => None,
        }
    };
    at.map(|at| at.duration_since(now).max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + minute * 60).unwrap()
    }

    #[test]
    fn a_guest_is_asked_if_it_hears_and_has_five_minutes() {
        let since = |minute| Some(asked(PowerState::Off, at(minute)));
        let other = Some(asked(PowerState::Suspended, at(-9)));
        for (mode, hears, asked, way_then) in [
            (Mode::Hard, true, None, Way::Hard),
            (Mode::Soft, true, None, Way::Ask(None)),
            (Mode::Soft, true, since(-60), Way::Ask(None)),
            (Mode::Soft, false, None, Way::Deaf),
            (Mode::TrySoft, false, None, Way::Hard),
            (Mode::TrySoft, true, None, Way::Ask(Some(at(5)))),
            (Mode::TrySoft, true, since(-4), Way::Ask(Some(at(1)))),
            (Mode::TrySoft, true, since(-5), Way::Hard),
            (Mode::TrySoft, true, other, Way::Ask(Some(at(5)))),
        ] {
            let mut vm = fixtures::virtual_machine();
            vm.metadata.annotations = asked.map(|value| [(annotation::SOFT_POWER.to_owned(), value)].into());
            let mut machine = fixtures::vsphere_vm();
            machine.guest.tools = hears.then_some(ToolsState::Running);
            assert_eq!(way(&vm, &machine, PowerState::Off, mode, at(0)), way_then, "{mode:?} {hears}");
            machine.power_state = Some(PowerState::Suspended);
            assert_eq!(way(&vm, &machine, PowerState::Off, mode, at(0)), Way::Hard);
        }
    }

    #[test]
    fn a_restart_is_done_once_when_its_time_has_come() {
        let mut vm = fixtures::virtual_machine();
        vm.spec.next_restart_time = Some(at(10).to_string());
        let mut machine = fixtures::vsphere_vm();
        assert_eq!(restart(&vm, &machine, at(9)), None);
        assert_eq!(next(&vm, &machine, at(9)), Some(SignedDuration::from_mins(1)));
        assert_eq!(restart(&vm, &machine, at(10)), Some(Step::Restart(Mode::Hard, at(10))));
        vm.spec.restart_mode = Some("trySoft".into());
        assert_eq!(restart(&vm, &machine, at(10)), Some(Step::Restart(Mode::Hard, at(10))));
        vm.spec.restart_mode = Some("soft".into());
        assert_eq!(restart(&vm, &machine, at(10)), None);
        machine.guest.tools = Some(ToolsState::Running);
        assert_eq!(restart(&vm, &machine, at(10)), Some(Step::Restart(Mode::Soft, at(10))));
        machine.extra_config.extend([step::restarted(at(10))]);
        assert_eq!((restart(&vm, &machine, at(11)), next(&vm, &machine, at(11))), (None, None));
    }
}
