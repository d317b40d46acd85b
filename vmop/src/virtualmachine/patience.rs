//! When to tell of what only takes time, and when to look again.
//!
//! A status costs a write. Of two hundred machines that are being cloned at once, each would cost one more to say what
//! the next one says better. So the first in a while is told of soon, and every one that takes really long.

use std::time::{Duration, Instant};

use api::vmop::VirtualMachine;
use jiff::Timestamp;
use kit::Next;
use parking_lot::Mutex;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::virtualmachine::plan::{Blocked, Facts, Found};
use crate::virtualmachine::{Error, power, status};

/// What takes longer is told of, if nothing like it was a while ago.
const SLOW: Duration = Duration::from_secs(2);
/// What takes longer is told of whatever it costs.
const LONG: Duration = Duration::from_mins(1);
/// Between two that are told of early.
const A_WHILE: Duration = Duration::from_secs(10);

/// How long to wait, and whether everybody is told of then.
pub const WAITS: [(Duration, bool); 2] = [(SLOW, false), (LONG.saturating_sub(SLOW), true)];

/// Whether this one may be told of early; the next may in a while.
pub fn early(last: &Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut last = last.lock();
    if last.is_some_and(|last| now.duration_since(last) < A_WHILE) {
        return false;
    }
    *last = Some(now);
    true
}

/// How long a new object may stay silent about something that only takes time; `None` where it must be told of.
pub fn silent(vm: &VirtualMachine, error: &Error, now: Timestamp) -> Option<Duration> {
    let passing = match error {
        Error::Blocked(Blocked::Unmet(unmet)) => unmet.underway,
        Error::Unsettled(_) => true,
        _ => false,
    };
    let untold = vm.status.as_ref().is_none_or(|status| status.conditions.is_empty());
    let created = vm.metadata.creation_timestamp.as_ref()?.0;
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    (passing && untold && age < LONG).then(|| LONG.saturating_sub(age))
}

/// How long nothing is said of a machine that was just made and has no address yet: it may have one in a moment.
pub fn booting(vm: &VirtualMachine, made: Option<&Vm>, facts: &Facts) -> Option<Duration> {
    let new = matches!(facts.found, Found::Nothing(_)) && vm.status.is_none();
    let boots = made?.power_state == Some(PowerState::On) && status::address(made?).is_none();
    (new && boots).then_some(SLOW)
}

/// When to look at the machine again, if nothing happens before.
pub fn next(vm: &VirtualMachine, changed: Option<&Vm>, facts: &Facts) -> Next {
    let machine = match (changed, &facts.found) {
        (Some(machine), _) => machine,
        (None, Found::Ours(machine)) => machine,
        _ => return Next::OnChange,
    };
    match power::next(vm, machine, facts.now) {
        Some(wait) => {
            Next::After(Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(100)))
        }
        None => Next::OnChange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;
    use crate::unmet::Unmet;
    use crate::virtualmachine::plan::Nothing;

    #[test]
    fn one_in_a_while_is_told_of_early() {
        let (last, began) = (Mutex::default(), Instant::now());
        let told = [0, 1, 9, 10, 11].map(|second| early(&last, began + Duration::from_secs(second)));
        assert_eq!(told, [true, false, false, true, false]);
    }

    #[test]
    fn a_new_object_is_silent_about_what_only_takes_time() {
        let mut vm = fixtures::virtual_machine();
        let now: Timestamp = "2026-11-21T13:00:00Z".parse().unwrap();
        let time = |second| {
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                Timestamp::from_second(now.as_second() - second).unwrap(),
            )
        };
        let passing = Error::Blocked(Blocked::Unmet(Unmet::underway("Deploying", "it is being deployed")));
        let wrong = Error::Blocked(Blocked::Unmet(Unmet::wrong("Missing", "it is missing")));
        vm.metadata.creation_timestamp = Some(time(20));
        assert_eq!(silent(&vm, &passing, now), Some(Duration::from_secs(40)));
        assert_eq!(silent(&vm, &wrong, now), None);
        vm.metadata.creation_timestamp = Some(time(60));
        assert_eq!(silent(&vm, &passing, now), None);
        vm.metadata.creation_timestamp = Some(time(20));
        vm.status = Some(api::vmop::VirtualMachineStatus {
            conditions: vec![api::conditions::Condition::is_true("Ready")],
            ..api::vmop::VirtualMachineStatus::default()
        });
        assert_eq!(silent(&vm, &passing, now), None);
    }

    #[test]
    fn a_machine_that_was_just_made_has_a_moment_to_get_its_address() {
        let (mut vm, mut made) = (fixtures::virtual_machine(), fixtures::unmarked_vm("vm-1", "cp-0"));
        let nothing = Nothing { needs: fixtures::needs(), asks: Vec::new(), direct: false };
        let mut facts = fixtures::facts(Found::Nothing(Box::new(nothing)));
        made.power_state = Some(PowerState::On);
        assert_eq!(booting(&vm, Some(&made), &facts), Some(SLOW));
        made.guest.ip = Some("10.0.0.1".into());
        assert_eq!(booting(&vm, Some(&made), &facts), None);
        made.guest.ip = None;
        made.power_state = Some(PowerState::Off);
        assert_eq!(booting(&vm, Some(&made), &facts), None);
        made.power_state = Some(PowerState::On);
        vm.status = Some(api::vmop::VirtualMachineStatus::default());
        assert_eq!(booting(&vm, Some(&made), &facts), None);
        vm.status = None;
        facts.found = Found::Ours(std::sync::Arc::new(made.clone()));
        assert_eq!(booting(&vm, Some(&made), &facts), None);
    }
}
