//! Records VM events with the reasons that vm-operator uses.

use api::conditions::{self, Condition, READY, vmop as known};
use api::vmop::VirtualMachine;
use kit::events::Events;

const CREATE_SUCCESS: &str = "CreateSuccess";
const CREATE_FAILURE: &str = "CreateFailure";
/// The reason for failures after the VM was created.
const UPDATE_FAILURE: &str = "UpdateFailure";
/// The reason for the event that the VM is gone.
pub const DELETE_SUCCESS: &str = "DeleteSuccess";
const DELETE_FAILURE: &str = "DeleteFailure";

/// A Kubernetes event about a VM. `note` is its message.
#[derive(Debug, PartialEq, Eq)]
struct VmEvent {
    warns: bool,
    reason: String,
    note: String,
}

/// Records events for the changes between two sets of conditions. `warns` returns true for the severities that need a warning.
pub fn record(
    vm: &VirtualMachine,
    old: &[Condition],
    new: &[Condition],
    warns: impl Fn(&str) -> bool,
    events: &Events,
) {
    let deleted = vm.metadata.deletion_timestamp.is_some();
    for VmEvent { warns, reason, note } in list_condition_changes(deleted, old, new, warns) {
        if warns {
            events.warning(vm, &reason, note);
        } else {
            events.normal(vm, &reason, note);
        }
    }
}

fn list_condition_changes(
    deleted: bool,
    old: &[Condition],
    new: &[Condition],
    warns: impl Fn(&str) -> bool,
) -> Vec<VmEvent> {
    let failure = failure_reason(deleted, new);
    let changed: Vec<_> =
        new.iter().filter(|condition| !old.iter().any(|old| is_same(old, condition))).collect();
    let ready = conditions::holds(new, READY);
    let just_made = changed.iter().any(|condition| {
        condition.type_ == known::VIRTUAL_MACHINE_CREATED && condition.status == conditions::TRUE
    });
    let events = changed.into_iter().filter_map(|condition| {
        let (reason, message) = (condition.reason.as_deref(), condition.message.as_deref());
        let so = condition.status == conditions::TRUE;
        match condition.type_.as_ref() {
            known::VIRTUAL_MACHINE_CREATED if so => Some(VmEvent {
                warns: false,
                reason: CREATE_SUCCESS.to_owned(),
                note: format!("The VM was created in vCenter{}", if ready { ", and is ready" } else { "" }),
            }),
            // The creation event already says that the VM is ready.
            READY if so && just_made => None,
            READY if condition.severity.as_deref().is_some_and(&warns) => Some(VmEvent {
                warns: true,
                reason: failure.to_owned(),
                note: [reason, message].into_iter().flatten().collect::<Vec<_>>().join(": "),
            }),
            READY => Some(VmEvent {
                warns: false,
                reason: reason.filter(|reason| !reason.is_empty()).unwrap_or(READY).to_owned(),
                note: message.map_or_else(|| format!("{READY} is {}", condition.status), str::to_owned),
            }),
            _ => None,
        }
    });
    events.collect()
}

/// Returns true if the change from one condition to the other doesn't need a new event. The severity is compared too: when a
/// cause that was expected needs action, such as a volume that can't be attached, only the severity changes.
fn is_same(old: &Condition, new: &Condition) -> bool {
    let known = |condition: &Condition| {
        let Condition { type_, status, severity, reason, last_transition_time: _, message: _ } =
            condition.clone();
        (type_, status, severity, reason)
    };
    known(old) == known(new)
}

fn failure_reason(deleted: bool, conditions: &[Condition]) -> &'static str {
    match (deleted, conditions::holds(conditions, known::VIRTUAL_MACHINE_CREATED)) {
        (true, _) => DELETE_FAILURE,
        (false, true) => UPDATE_FAILURE,
        (false, false) => CREATE_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use api::conditions::{ERROR, INFO, WARNING};

    use super::*;

    #[test]
    fn events_have_the_reasons_of_vm_operator() {
        let ready = |severity: &str, reason: &str| Condition::is_false(READY, severity, reason, "so it is");
        let created = Condition::is_true(known::VIRTUAL_MACHINE_CREATED);
        let not_created =
            Condition::is_false(known::VIRTUAL_MACHINE_CREATED, INFO, "WaitingForPrerequisites", "");
        let missing = ready(ERROR, known::VIRTUAL_MACHINE_CLASS_NOT_FOUND);
        let warns = |severity: &str| severity != INFO;
        let recorded = |deleted: bool, old: &[Condition], new: &[Condition]| -> Vec<(bool, String)> {
            let events = list_condition_changes(deleted, old, new, warns).into_iter();
            events.map(|event| (event.warns, format!("{} {}", event.reason, event.note))).collect()
        };
        let one = |warns: bool, text: &str| vec![(warns, text.to_owned())];
        let waits = [missing.clone(), not_created];
        let missed = "CreateFailure VirtualMachineClassNotFound: so it is";
        assert_eq!(recorded(false, &[], &waits), one(true, missed));
        assert!(recorded(false, &waits, &waits).is_empty(), "the same again is no news");
        let booting = [ready(INFO, "WaitingForIP"), created.clone()];
        let (waiting, made) = ("WaitingForIP so it is", "CreateSuccess The VM was created in vCenter");
        assert_eq!(recorded(false, &waits, &booting), [one(false, waiting), one(false, made)].concat());
        let up = [Condition::is_true(READY), created.clone()];
        assert_eq!(recorded(false, &booting, &up), one(false, "Ready Ready is True"));
        let both = "CreateSuccess The VM was created in vCenter, and is ready";
        assert_eq!(recorded(false, &waits, &up), one(false, both));
        let (attaching, failed) = (ready(INFO, "VolumesNotAttached"), ready(ERROR, "VolumesNotAttached"));
        let attaching = [attaching, created.clone()];
        let (waits_for_it, fails) =
            ("VolumesNotAttached so it is", "UpdateFailure VolumesNotAttached: so it is");
        assert_eq!(recorded(false, &booting, &attaching), one(false, waits_for_it), "the normal course");
        assert_eq!(recorded(false, &attaching, &[failed, created.clone()]), one(true, fails));
        let ill = [ready(WARNING, "NotFound"), created];
        assert_eq!(recorded(false, &up, &ill), one(true, "UpdateFailure NotFound: so it is"));
        assert_eq!(recorded(true, &up, &ill), one(true, "DeleteFailure NotFound: so it is"));
    }
}
