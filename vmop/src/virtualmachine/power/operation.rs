//! Power operations and restarts: immediately through vCenter, or through the guest, which may take time.

use api::names::annotation;
use api::vmop::VirtualMachine;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use vsphere::Vm;
use vsphere::inventory::{PowerState, ToolsState};

use super::state::{power_word, wanted_power};
use crate::virtualmachine::step::{PowerMode, Step, last_restart};

/// The time after which a `trySoft` operation becomes hard, as in vm-operator.
pub const SOFT_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The minimum interval between two distinct restart requests.
const NEXT: SignedDuration = SignedDuration::from_micros(1);

/// The method for a power operation or a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerOperation {
    /// vCenter carries out the operation immediately.
    Hard,
    /// The guest is asked. vCenter carries out the operation at the given time, or never if the time is `None`.
    Guest(Option<Timestamp>),
    /// The guest should be asked, but VMware Tools aren't running.
    ToolsNotRunning,
}

/// Returns the method for bringing the VM into `state`. `mode` is the mode in the spec.
pub fn power_operation(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    state: PowerState,
    mode: PowerMode,
    now: Timestamp,
) -> PowerOperation {
    // Only a running guest can be asked, and only to shut down or to stand by.
    if state == PowerState::On || vsphere_vm.power_state != Some(PowerState::On) {
        return PowerOperation::Hard;
    }
    match (mode, tools_running(vsphere_vm)) {
        (PowerMode::Hard, _) | (PowerMode::TrySoft, false) => PowerOperation::Hard,
        (PowerMode::Soft, true) => PowerOperation::Guest(None),
        (PowerMode::Soft, false) => PowerOperation::ToolsNotRunning,
        (PowerMode::TrySoft, true) => {
            let until =
                guest_asked_since(vm, state, now).unwrap_or(now).saturating_add(SOFT_TIMEOUT).unwrap_or(now);
            if now < until { PowerOperation::Guest(Some(until)) } else { PowerOperation::Hard }
        }
    }
}

/// Returns true if VMware Tools are running, so that the guest can receive requests.
pub fn tools_running(vsphere_vm: &Vm) -> bool {
    vsphere_vm.guest.tools == Some(ToolsState::Running)
}

/// Returns when the guest was asked to bring the VM into `state`. A future time is ignored: the clock was set back.
pub fn guest_asked_since(vm: &VirtualMachine, state: PowerState, now: Timestamp) -> Option<Timestamp> {
    let (of, since) = vm.annotations().get(annotation::SOFT_POWER)?.split_once(' ')?;
    since.parse().ok().filter(|since| of == power_word(state) && *since <= now)
}

/// Returns the annotation value which records that the guest was asked for `state` at this time.
pub fn soft_power_note(state: PowerState, since: Timestamp) -> String {
    format!("{} {since}", power_word(state))
}

/// Returns the time of the requested restart if the time can be parsed and the restart hasn't been done yet.
pub fn pending_restart(vm: &VirtualMachine, vsphere_vm: &Vm) -> Option<Timestamp> {
    let asked: Timestamp = vm.spec.next_restart_time.as_deref()?.parse().ok()?;
    last_restart(vsphere_vm).is_none_or(|last| last < asked).then_some(asked)
}

/// Returns the time of the pending restart if it is due. A time directly after the last restart is due even if the clock was
/// set back.
pub fn restart_due(vm: &VirtualMachine, vsphere_vm: &Vm, now: Timestamp) -> Option<Timestamp> {
    let next = last_restart(vsphere_vm).and_then(|last| last.checked_add(NEXT).ok());
    pending_restart(vm, vsphere_vm).filter(|asked| *asked <= now || Some(*asked) == next)
}

/// Returns the time that replaces `now` in a restart request. The time is always later than the last restart, even if the clock
/// was set back.
pub fn restart_now(vm: &VirtualMachine, now: Timestamp) -> Timestamp {
    let last = vm.status.as_ref().and_then(|status| status.last_restart_time.as_deref()?.parse().ok());
    let next = last.and_then(|last: Timestamp| last.checked_add(NEXT).ok());
    next.map_or(now, |next| next.max(now))
}

/// Returns the restart step if a restart is due and, for a soft restart, VMware Tools are running.
pub fn restart_step(vm: &VirtualMachine, vsphere_vm: &Vm, now: Timestamp) -> Option<Step> {
    let asked = restart_due(vm, vsphere_vm, now)?;
    let mode = match (PowerMode::of(vm.spec.restart_mode.as_deref()), tools_running(vsphere_vm)) {
        (PowerMode::Hard, _) | (PowerMode::TrySoft, false) => PowerMode::Hard,
        (PowerMode::Soft | PowerMode::TrySoft, true) => PowerMode::Soft,
        (PowerMode::Soft, false) => return None,
    };
    Some(Step::Restart(mode, asked))
}

/// Returns the delay until a guest's timeout ends or a requested restart is due, because the VM must be checked again then.
/// Returns `None` if neither is pending.
pub fn next_look(vm: &VirtualMachine, vsphere_vm: &Vm, now: Timestamp) -> Option<SignedDuration> {
    let wanted = wanted_power(vm);
    let at = if vsphere_vm.power_state == Some(wanted) {
        pending_restart(vm, vsphere_vm).filter(|at| wanted == PowerState::On && *at > now)
    } else {
        match power_operation(vm, vsphere_vm, wanted, PowerMode::into_state(vm, wanted), now) {
            PowerOperation::Guest(until) => until,
            PowerOperation::Hard | PowerOperation::ToolsNotRunning => None,
        }
    };
    at.map(|at| at.duration_since(now).max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{self, at};
    use crate::virtualmachine::step::restart_note;

    #[test]
    fn a_clock_that_is_set_back_stops_neither_a_restart_nor_the_end_of_a_guests_time() {
        let mut vm = fixtures::virtual_machine();
        let mut vsphere_vm = fixtures::vsphere_vm();
        vsphere_vm.extra_config.extend([restart_note(at(60))]);
        vm.status.get_or_insert_default().last_restart_time = Some(at(60).to_string());
        let asked = restart_now(&vm, at(0));
        vm.spec.next_restart_time = Some(asked.to_string());
        assert_eq!(restart_due(&vm, &vsphere_vm, at(0)), Some(asked));
        vsphere_vm.extra_config.extend([restart_note(asked)]);
        assert_eq!(restart_due(&vm, &vsphere_vm, at(0)), None, "it was done");
        assert_eq!(restart_now(&vm, at(61)), at(61));

        let note = soft_power_note(PowerState::Off, at(60));
        vm.annotations_mut().insert(annotation::SOFT_POWER.to_owned(), note);
        assert_eq!(guest_asked_since(&vm, PowerState::Off, at(0)), None);
        assert_eq!(guest_asked_since(&vm, PowerState::Off, at(61)), Some(at(60)));
    }

    #[test]
    fn a_guest_is_asked_if_it_hears_and_has_five_minutes() {
        let since = |minute| Some(soft_power_note(PowerState::Off, at(minute)));
        let other = Some(soft_power_note(PowerState::Suspended, at(-9)));
        for (mode, hears, asked, way_then) in [
            (PowerMode::Hard, true, None, PowerOperation::Hard),
            (PowerMode::Soft, true, None, PowerOperation::Guest(None)),
            (PowerMode::Soft, true, since(-60), PowerOperation::Guest(None)),
            (PowerMode::Soft, false, None, PowerOperation::ToolsNotRunning),
            (PowerMode::TrySoft, false, None, PowerOperation::Hard),
            (PowerMode::TrySoft, true, None, PowerOperation::Guest(Some(at(5)))),
            (PowerMode::TrySoft, true, since(-4), PowerOperation::Guest(Some(at(1)))),
            (PowerMode::TrySoft, true, since(-5), PowerOperation::Hard),
            (PowerMode::TrySoft, true, other, PowerOperation::Guest(Some(at(5)))),
        ] {
            let mut vm = fixtures::virtual_machine();
            vm.metadata.annotations = asked.map(|value| [(annotation::SOFT_POWER.to_owned(), value)].into());
            let mut vsphere_vm = fixtures::vsphere_vm();
            vsphere_vm.guest.tools = hears.then_some(ToolsState::Running);
            let way = |vsphere_vm: &Vm| power_operation(&vm, vsphere_vm, PowerState::Off, mode, at(0));
            assert_eq!(way(&vsphere_vm), way_then, "{mode:?} {hears}");
            vsphere_vm.power_state = Some(PowerState::Suspended);
            assert_eq!(way(&vsphere_vm), PowerOperation::Hard);
        }
    }

    #[test]
    fn a_restart_is_done_once_when_its_time_has_come() {
        let mut vm = fixtures::virtual_machine();
        vm.spec.next_restart_time = Some(at(10).to_string());
        let mut vsphere_vm = fixtures::vsphere_vm();
        assert_eq!(restart_step(&vm, &vsphere_vm, at(9)), None);
        assert_eq!(next_look(&vm, &vsphere_vm, at(9)), Some(SignedDuration::from_mins(1)));
        assert_eq!(restart_step(&vm, &vsphere_vm, at(10)), Some(Step::Restart(PowerMode::Hard, at(10))));
        vm.spec.restart_mode = Some("trySoft".into());
        assert_eq!(restart_step(&vm, &vsphere_vm, at(10)), Some(Step::Restart(PowerMode::Hard, at(10))));
        vm.spec.restart_mode = Some("soft".into());
        assert_eq!(restart_step(&vm, &vsphere_vm, at(10)), None);
        vsphere_vm.guest.tools = Some(ToolsState::Running);
        assert_eq!(restart_step(&vm, &vsphere_vm, at(10)), Some(Step::Restart(PowerMode::Soft, at(10))));
        vsphere_vm.extra_config.extend([restart_note(at(10))]);
        assert_eq!(restart_step(&vm, &vsphere_vm, at(11)), None);
        assert_eq!(next_look(&vm, &vsphere_vm, at(11)), None);
    }
}
