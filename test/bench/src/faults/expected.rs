//! A trial's VMs: their desired state, the events that affected them, and the expected outcome.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::workload::{claimed_volume, condition, module_member, own_volume, vm_object};

pub const VM: &str = "VirtualMachine";
const LOST: &str = "VirtualMachineLost";
pub const ON: &str = "poweredOn";
pub const OFF: &str = "poweredOff";
/// The suspended power state. A VM that is powered off can't reach it.
pub const SUSPENDED: &str = "suspended";

/// A VM's desired state, and the events that affected it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may have been done, whatever else was")]
pub struct Expected {
    /// The power state that was requested last.
    pub power: &'static str,
    /// A user requested a restart.
    pub restarted: bool,
    pub deleted: bool,
    /// The VM was destroyed in vCenter.
    pub destroyed: bool,
    /// The time at which a foreign disk was attached to the VM in vCenter.
    pub disk_attached: Option<Instant>,
    /// The VM's volume was destroyed in vCenter and replaced by a foreign disk.
    pub disk_swapped: bool,
    /// vCenter was restored from a backup and may have lost the VM's events.
    pub history_forgotten: bool,
}

impl Expected {
    /// Returns the expectation for a new VM in this power state.
    pub fn new(power: &'static str) -> Self {
        Self {
            power,
            restarted: false,
            deleted: false,
            destroyed: false,
            disk_attached: None,
            disk_swapped: false,
            history_forgotten: false,
        }
    }
}

/// Returns the VM name for this number.
pub fn vm_name(number: usize) -> String {
    format!("m-{number:02}")
}

/// Returns true if the VM belongs to a cluster module, which keeps its members on separate hosts.
pub fn is_module_member(number: usize) -> bool {
    number % 4 == 2
}

/// Returns true if the VM has a volume from a claim.
pub fn has_claim(number: usize) -> bool {
    number % 8 == 3
}

/// Returns the VM object for this number. Half the VMs use the policy's folder, two thirds have guest data, and some
/// have volumes.
pub fn numbered_vm(number: usize, power: &str) -> Value {
    let mut spec = json!({ "powerState": power });
    if number.is_multiple_of(2) {
        spec["resourcePolicyName"] = "p".into();
    }
    if !number.is_multiple_of(3) {
        spec["vmMetadata"] = json!({"secretName": "boot", "transport": "ExtraConfig"});
    }
    let name = vm_name(number);
    let own = (number % 5 == 1).then(own_volume);
    let claimed = has_claim(number).then(|| claimed_volume(&name));
    spec["volumes"] = own.into_iter().chain(claimed).collect();
    let object = vm_object(&name, &spec);
    if is_module_member(number) { module_member(object) } else { object }
}

/// Returns true if the module contains the VM, by its original name or by the name it was given in vCenter.
pub fn is_in_module(module: &str, number: usize) -> bool {
    let (_, members) = module.split_once('[').unwrap_or_default();
    members
        .trim_end_matches(']')
        .split(',')
        .any(|member| member == vm_name(number) || member == renamed_vm(number))
}

/// Returns the name that a rename in vCenter gives to the VM.
pub fn renamed_vm(number: usize) -> String {
    format!("renamed-{number}")
}

/// Compares a VM's object with its expected state, and describes the violation, if any.
pub fn find_violation(name: &str, expected: &Expected, object: &Value) -> Option<String> {
    let ready = condition(object, "Ready");
    if expected.deleted {
        return (!object.is_null()).then(|| format!("{VM} {name} is still there: {ready}"));
    }
    if expected.destroyed {
        let reported = reports_lost(ready) || (expected.history_forgotten && ready["reason"] == LOST);
        return (!reported).then(|| format!("{VM} {name} does not say how it was lost: {ready}"));
    }
    // The VM operator adds a missing disk if the VM never ran, because the clone may have been incomplete.
    let has_volumes = || {
        let volumes = object["status"]["volumes"].as_array();
        volumes.is_some_and(|all| !all.is_empty() && all.iter().all(|volume| volume["attached"] == true))
    };
    if expected.disk_swapped && !has_volumes() {
        let is_reported =
            ready["message"].as_str().is_some_and(|message| message.contains("is missing from the VM"));
        return (!is_reported).then(|| format!("{VM} {name} does not say that its volume is gone: {ready}"));
    }
    let power = &object["status"]["powerState"];
    // A VM that is powered off can't be suspended, so it may stay off.
    if *power != expected.power && (expected.power == ON || *power != OFF) {
        return Some(format!("{VM} {name} is not {}: {ready}", expected.power));
    }
    if expected.power != ON {
        return None;
    }
    if expected.restarted && object["status"]["lastRestartTime"].is_null() {
        return Some(format!("{VM} {name} is not restarted: {ready}"));
    }
    (ready["status"] != "True").then(|| format!("{VM} {name} is not Ready: {ready}"))
}

/// Returns true if the condition says that the VM is lost and names the event, its time and its user.
fn reports_lost(ready: &Value) -> bool {
    let message = ready["message"].as_str().unwrap_or_default();
    let has_event = message.split_once("Event at 20").is_some_and(|(_, after)| after.contains(" by "));
    ready["reason"] == LOST && has_event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(power: &str, status: &str, reason: &str, message: &str) -> Value {
        let ready = json!({"type": "Ready", "status": status, "reason": reason, "message": message});
        json!({"status": {"powerState": power, "conditions": [ready]}})
    }

    #[test]
    fn what_was_done_to_a_vm_decides_what_is_expected() {
        let ready = object(ON, "True", "", "");
        let on = Expected::new(ON);
        assert_eq!(find_violation("a", &on, &ready), None);
        assert!(find_violation("a", &on, &object(ON, "False", "x", "")).is_some());
        assert!(find_violation("a", &Expected::new(OFF), &ready).is_some());
        assert!(find_violation("a", &Expected { restarted: true, ..on.clone() }, &ready).is_some());
        let deleted = Expected { deleted: true, destroyed: true, ..on.clone() };
        assert_eq!(find_violation("a", &deleted, &Value::Null), None);
        let suspended = Expected::new(SUSPENDED);
        for (power, good) in [(SUSPENDED, true), (OFF, true), (ON, false)] {
            assert_eq!(
                find_violation("a", &suspended, &object(power, "True", "", "")).is_none(),
                good,
                "{power}"
            );
        }
    }

    #[test]
    fn a_lost_vm_says_by_whom_and_since_when() {
        let destroyed = Expected { destroyed: true, ..Expected::new(ON) };
        assert!(find_violation("a", &destroyed, &object(ON, "True", "", "")).is_some());
        assert!(find_violation("a", &destroyed, &object(ON, "False", LOST, "It is gone")).is_some());
        let message = "It is gone (VmRemovedEvent at 2026-11-21T13:00:00Z by somebody), not by this object";
        assert_eq!(find_violation("a", &destroyed, &object(ON, "False", LOST, message)), None);
        let forgotten = Expected { history_forgotten: true, ..destroyed };
        assert_eq!(find_violation("a", &forgotten, &object(ON, "False", LOST, "It is gone")), None);
        assert!(find_violation("a", &forgotten, &object(ON, "True", "", "")).is_some());
    }

    #[test]
    fn a_renamed_member_is_one() {
        assert!(is_in_module("module 1 of [m-02,m-06]", 2) && is_in_module("module 1 of [renamed-2]", 2));
        assert!(!is_in_module("module 1 of [m-06]", 2) && !is_in_module("module 1 of []", 2));
    }
}
