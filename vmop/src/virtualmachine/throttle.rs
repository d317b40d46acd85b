//! Decides whether a status is written early or postponed.
//!
//! Each status costs a write. If two hundred VMs are cloned at once, an early status for each costs two hundred writes that the
//! next statuses make obsolete. So only one VM per interval gets an early status. A VM that takes very long always gets one.

use std::time::{Duration, Instant};

use api::conditions::{self, TRUE};
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use jiff::Timestamp;
use parking_lot::Mutex;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use super::condition_types::GUEST_BOOTSTRAP;
use super::error::{Blocked, Error};
use super::facts::Facts;
use super::identity::find::Found;
use super::readiness::address;

/// The time after which a slow step gets an early status, if the throttle admits it.
const SLOW: Duration = Duration::from_secs(2);
/// The time after which a slow step always gets a status.
const LONG: Duration = Duration::from_mins(1);
/// The minimum interval between early statuses.
const INTERVAL: Duration = Duration::from_secs(10);

/// The successive delays before an early status. The boolean is true if the status is then written without asking the throttle.
pub const WAITS: [(Duration, bool); 2] = [(SLOW, false), (LONG.saturating_sub(SLOW), true)];

/// Limits early statuses to one per interval, across all VMs.
#[derive(Default)]
pub struct StatusThrottle(Mutex<Option<Instant>>);

impl StatusThrottle {
    /// Returns true if an early status may be written now. The next early status may be written after the interval.
    pub fn admit(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        if last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
            return false;
        }
        *last = Some(now);
        true
    }
}

/// Returns how long the status of a new VirtualMachine can wait, if the cause of the error only needs time. Returns `None` if
/// the status must be written now.
pub fn quiet_after_error(vm: &VirtualMachine, error: &Error, now: Timestamp) -> Option<Duration> {
    let passing = match error {
        Error::Blocked(Blocked::Unmet(unmet)) => unmet.underway,
        Error::Unsettled(_) => true,
        _ => false,
    };
    let unreported = vm.status.as_ref().is_none_or(|status| status.conditions.is_empty());
    let created = vm.metadata.creation_timestamp.as_ref()?.0;
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    (passing && unreported && age < LONG).then(|| LONG.saturating_sub(age))
}

/// Returns how long the status of a new VM without an address can wait, because the VM may get an address soon. Returns `None`
/// for other VMs.
pub fn quiet_while_booting(vm: &VirtualMachine, created: Option<&Vm>, facts: &Facts) -> Option<Duration> {
    let new = matches!(facts.found, Found::Absent) && vm.status.is_none();
    let boots = created?.power_state == Some(PowerState::On) && address(created?).is_none();
    (new && boots).then_some(SLOW)
}

/// Returns true if the only news is that the guest booted as expected. Such a status can wait for the next one.
pub fn can_wait(old: Option<&VirtualMachineStatus>, new: &VirtualMachineStatus) -> bool {
    let (Some(old), Some(booted)) = (old, conditions::find(&new.conditions, GUEST_BOOTSTRAP)) else {
        return false;
    };
    if booted.status != TRUE || conditions::find(&old.conditions, GUEST_BOOTSTRAP).is_some() {
        return false;
    }
    let mut rest = new.clone();
    rest.conditions.retain(|condition| condition.type_ != GUEST_BOOTSTRAP);
    rest == *old
}

#[cfg(test)]
mod tests {
    use api::conditions::Condition;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::testing::fixtures;
    use crate::unmet::Unmet;

    #[test]
    fn one_in_a_while_gets_an_early_status() {
        let (throttle, began) = (StatusThrottle::default(), Instant::now());
        let admitted = [0, 1, 9, 10, 11].map(|second| throttle.admit(began + Duration::from_secs(second)));
        assert_eq!(admitted, [true, false, false, true, false]);
    }

    #[test]
    fn a_new_object_gets_no_status_of_what_only_takes_time() {
        let mut vm = fixtures::virtual_machine();
        let now: Timestamp = "2026-11-21T13:00:00Z".parse().unwrap();
        let ago = |second| Some(Time(Timestamp::from_second(now.as_second() - second).unwrap()));
        let passing = Error::Blocked(Blocked::Unmet(Unmet::underway("Deploying", "it is being deployed")));
        let wrong = Error::Blocked(Blocked::Unmet(Unmet::wrong("Missing", "it is missing")));
        vm.metadata.creation_timestamp = ago(20);
        assert_eq!(quiet_after_error(&vm, &passing, now), Some(Duration::from_secs(40)));
        assert_eq!(quiet_after_error(&vm, &wrong, now), None);
        vm.metadata.creation_timestamp = ago(60);
        assert_eq!(quiet_after_error(&vm, &passing, now), None);
        vm.metadata.creation_timestamp = ago(20);
        vm.status.get_or_insert_default().conditions = vec![Condition::is_true("Ready")];
        assert_eq!(quiet_after_error(&vm, &passing, now), None);
    }

    #[test]
    fn good_news_of_a_boot_come_with_the_next_status() {
        let condition = |type_: &str| Condition::is_true(type_);
        let status = |conditions: &[Condition]| VirtualMachineStatus {
            conditions: conditions.to_vec(),
            ..VirtualMachineStatus::default()
        };
        let (ready, booted) = (condition("Ready"), condition(GUEST_BOOTSTRAP));
        let failed = Condition::is_false(GUEST_BOOTSTRAP, "Warning", "BootstrapFailed", "x");
        let old = status(std::slice::from_ref(&ready));
        let new = status(&[ready.clone(), booted.clone()]);
        assert!(can_wait(Some(&old), &new));
        assert!(!can_wait(None, &new), "the first status");
        assert!(!can_wait(Some(&status(&[])), &new), "Ready has changed, too");
        assert!(!can_wait(Some(&old), &status(&[ready.clone(), failed.clone()])));
        assert!(!can_wait(Some(&status(&[ready, failed])), &new), "it has recovered");
    }

    #[test]
    fn a_vm_that_was_just_created_has_a_moment_to_get_its_address() {
        let (mut vm, mut made) = (fixtures::virtual_machine(), fixtures::unmarked_vm("vm-1", "cp-0"));
        let mut facts = fixtures::facts_of_creation(fixtures::needs());
        made.power_state = Some(PowerState::On);
        assert_eq!(quiet_while_booting(&vm, Some(&made), &facts), Some(SLOW));
        made.guest.ip = Some("10.0.0.1".into());
        assert_eq!(quiet_while_booting(&vm, Some(&made), &facts), None);
        made.guest.ip = None;
        made.power_state = Some(PowerState::Off);
        assert_eq!(quiet_while_booting(&vm, Some(&made), &facts), None);
        made.power_state = Some(PowerState::On);
        vm.status = Some(VirtualMachineStatus::default());
        assert_eq!(quiet_while_booting(&vm, Some(&made), &facts), None);
        vm.status = None;
        facts.found = Found::Ours(std::sync::Arc::new(made.clone()));
        assert_eq!(quiet_while_booting(&vm, Some(&made), &facts), None);
    }
}
