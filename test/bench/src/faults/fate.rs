//! The machines of a trial: what is wanted of each, what was done to it, and what it has to be in the end.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::workload::{claimed_volume, condition, machine, member, own_volume};

/// The kind of a machine.
pub const VM: &str = "VirtualMachine";
const LOST: &str = "VirtualMachineLost";
/// A power state.
pub const ON: &str = "poweredOn";
/// A power state.
pub const OFF: &str = "poweredOff";
/// A power state; a machine that is off does not get there.
pub const SUSPENDED: &str = "suspended";

/// What the users want of a machine, and what was done to it.
#[derive(Clone, Debug)]
pub struct Fate {
    /// The power state that was asked for last.
    pub power: &'static str,
    /// A restart was asked for.
    pub restarted: bool,
    /// Its object was deleted.
    pub deleted: bool,
    /// It was destroyed behind everybody's back.
    pub destroyed: bool,
    /// When somebody hung a disk on it.
    pub hung: Option<Instant>,
}

impl Fate {
    /// Nothing was done to it yet.
    pub fn new(power: &'static str) -> Self {
        Self { power, restarted: false, deleted: false, destroyed: false, hung: None }
    }
}

/// The name of the machine of this number.
pub fn name(number: usize) -> String {
    format!("m-{number:02}")
}

/// Whether a module keeps the machine apart from others.
pub fn apart(number: usize) -> bool {
    number % 4 == 2
}

/// Whether the machine has a volume by a claim.
pub fn claims(number: usize) -> bool {
    number % 8 == 3
}

/// A machine of this number: half of them lie in the policy's folder, most have a guest's data, some have volumes.
pub fn wanted(number: usize, power: &str) -> Value {
    let mut spec = json!({ "powerState": power });
    if number.is_multiple_of(2) {
        spec["resourcePolicyName"] = "p".into();
    }
    if !number.is_multiple_of(3) {
        spec["vmMetadata"] = json!({"secretName": "boot", "transport": "ExtraConfig"});
    }
    let name = name(number);
    let own = (number % 5 == 1).then(own_volume);
    let claimed = claims(number).then(|| claimed_volume(&name));
    spec["volumes"] = own.into_iter().chain(claimed).collect();
    let object = machine(&name, &spec);
    if apart(number) { member(object) } else { object }
}

/// Whether a module has the machine of this number, which somebody may have renamed.
pub fn in_module(module: &str, number: usize) -> bool {
    let (_, members) = module.split_once('[').unwrap_or_default();
    members.trim_end_matches(']').split(',').any(|member| member == name(number) || member == renamed(number))
}

/// How somebody renames it.
pub fn renamed(number: usize) -> String {
    format!("renamed-{number}")
}

/// What is wrong with a machine's object, given what was wanted and done.
pub fn amiss(name: &str, fate: &Fate, object: &Value) -> Option<String> {
    let ready = condition(object, "Ready");
    if fate.deleted {
        return (!object.is_null()).then(|| format!("{VM} {name} is still there: {ready}"));
    }
    if fate.destroyed {
        return (!says_lost(ready)).then(|| format!("{VM} {name} does not say how it was lost: {ready}"));
    }
    let power = &object["status"]["powerState"];
    // A machine that is off can't be suspended.
    if *power != fate.power && (fate.power == ON || *power != OFF) {
        return Some(format!("{VM} {name} is not {}: {ready}", fate.power));
    }
    if fate.power != ON {
        return None;
    }
    if fate.restarted && object["status"]["lastRestartTime"].is_null() {
        return Some(format!("{VM} {name} is not restarted: {ready}"));
    }
    (ready["status"] != "True").then(|| format!("{VM} {name} is not Ready: {ready}"))
}

/// Whether a condition tells that the machine is lost, by which event, since when and by whose doing.
fn says_lost(ready: &Value) -> bool {
    let message = ready["message"].as_str().unwrap_or_default();
    let told = message.split_once("Event at 20").is_some_and(|(_, after)| after.contains(" by "));
    ready["reason"] == LOST && told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(power: &str, status: &str, reason: &str, message: &str) -> Value {
        let ready = json!({"type": "Ready", "status": status, "reason": reason, "message": message});
        json!({"status": {"powerState": power, "conditions": [ready]}})
    }

    #[test]
    fn each_fate_has_its_end() {
        let ready = object(ON, "True", "", "");
        let on = Fate::new(ON);
        assert_eq!(amiss("a", &on, &ready), None);
        assert!(amiss("a", &on, &object(ON, "False", "x", "")).is_some());
        assert!(amiss("a", &Fate::new(OFF), &ready).is_some());
        assert!(amiss("a", &Fate { restarted: true, ..on.clone() }, &ready).is_some());
        let deleted = Fate { deleted: true, destroyed: true, ..on.clone() };
        assert_eq!(amiss("a", &deleted, &Value::Null), None);
        let suspended = Fate::new(SUSPENDED);
        for (power, good) in [(SUSPENDED, true), (OFF, true), (ON, false)] {
            assert_eq!(amiss("a", &suspended, &object(power, "True", "", "")).is_none(), good, "{power}");
        }
    }

    #[test]
    fn a_lost_machine_says_by_whom_and_since_when() {
        let destroyed = Fate { destroyed: true, ..Fate::new(ON) };
        assert!(amiss("a", &destroyed, &object(ON, "True", "", "")).is_some());
        assert!(amiss("a", &destroyed, &object(ON, "False", LOST, "It is gone")).is_some());
        let told = "It is gone (VmRemovedEvent at 2026-11-21T13:00:00Z by somebody), not by this object";
        assert_eq!(amiss("a", &destroyed, &object(ON, "False", LOST, told)), None);
    }

    #[test]
    fn a_renamed_member_is_one() {
        assert!(in_module("module 1 of [m-02,m-06]", 2) && in_module("module 1 of [renamed-2]", 2));
        assert!(!in_module("module 1 of [m-06]", 2) && !in_module("module 1 of []", 2));
    }
}
