//! Which of the objects that are not ready is the one that everything else waits for. Pure.
//!
//! The deepest object knows best, and of those the one that failed comes before one that is at it, and that before
//! one that waits for others; among equals, the first in the order in which a cluster comes up.

use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use super::tree::Node;

/// The object that everything else waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocking {
    /// Kind and name, e.g. `VirtualMachine ben-test/test-cluster-control-plane-x7k2p`.
    pub object: String,
    /// Reason of its condition.
    pub reason: String,
    /// Message of its condition.
    pub message: String,
}

/// How much what an object says explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// It waits for other objects.
    #[default]
    Waiting,
    /// It takes its time.
    Underway,
    /// It went wrong: somebody must act.
    Failing,
}

/// Why an object is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// How much it explains.
    pub grade: Grade,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Whether it is the object's own, and no echo of what the objects below say.
    pub own: bool,
}

/// The first blocking cause of a tree whose root is not ready.
pub fn blocking(namespace: &str, tree: &Node) -> Option<Blocking> {
    if tree.ready == "True" {
        return None;
    }
    let mut suspects = Vec::new();
    suspected(tree, &mut suspects);
    let worst = suspects.iter().map(|node| node.cause.grade).max()?;
    let node = suspects.into_iter().find(|node| node.cause.grade == worst)?;
    let Cause { reason, message, .. } = node.cause.clone();
    Some(Blocking { object: format!("{} {namespace}/{}", node.kind, node.name), reason, message })
}

/// Collects the objects that may be the cause, the deepest first; tells whether anything is not ready.
fn suspected<'a>(node: &'a Node, suspects: &mut Vec<&'a Node>) -> bool {
    let mut below = false;
    for child in &node.children {
        below |= suspected(child, suspects);
    }
    let unready = node.ready != "True" && node.kind != "vSphere VM";
    if unready && (!below || node.cause.own) {
        suspects.push(node);
    }
    below || unready
}

/// Why `object` is not ready; `told` is the condition that says so.
pub fn of(kind: &str, object: &DynamicObject, told: Option<&Value>) -> Cause {
    let special = match kind {
        "Machine" => of_machine(object),
        "KubeadmControlPlane" | "MachineDeployment" => blocked_scaling(object),
        _ => None,
    };
    special.unwrap_or_else(|| said(kind, told))
}

/// What a condition says.
fn said(kind: &str, told: Option<&Value>) -> Cause {
    let Some(told) = told else {
        let grade = if is_upstream(kind) { Grade::Waiting } else { Grade::Underway };
        let message = "its controller has not reported on it yet".to_owned();
        return Cause { grade, reason: "NotReported".to_owned(), message, own: false };
    };
    let (reason, message) = (text(told, "reason"), text(told, "message"));
    let own = match kind {
        "TanzuKubernetesCluster" => ["Invalid", "ReconcileFailed"].contains(&reason.as_str()),
        "WCPCluster" => reason.ends_with("Failed"),
        _ => false,
    };
    let grade = if own { Grade::Failing } else { grade(kind, told, &reason) };
    Cause { grade, reason, message, own }
}

/// Reasons that begin with `WaitingFor` and yet are about the outside, not about other objects of the tree.
const OUTSIDE: [&str; 3] = ["WaitingForLoadBalancerIP", "WaitingForNetworkAddress", "WaitingForAddress"];

/// Reasons of things that come right by themselves, as a rule.
const TAKES_TIME: [&str; 8] = [
    "Provisioning",
    "Deleting",
    "Paused",
    "Unknown",
    "",
    "ClusterNetworkProvisionStarted",
    "VMProvisionStarted",
    "PoweringOn",
];

fn grade(kind: &str, told: &Value, reason: &str) -> Grade {
    let waits = reason.starts_with("WaitingFor") && !OUTSIDE.contains(&reason);
    match told["severity"].as_str() {
        Some("Error" | "Warning") if !waits => Grade::Failing,
        // The probe of a machine that runs: what its Machine says tells more.
        _ if kind == "VirtualMachine" && reason == "NotReady" => Grade::Waiting,
        _ if waits || told["status"] == "Unknown" || is_upstream(kind) => Grade::Waiting,
        Some(_) => Grade::Underway,
        None if OUTSIDE.contains(&reason) || TAKES_TIME.contains(&reason) => Grade::Underway,
        None => Grade::Failing,
    }
}

/// Cluster API's own kinds know no causes, only what they wait for.
fn is_upstream(kind: &str) -> bool {
    ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine"].contains(&kind)
}

/// What a Machine says that none of the objects below it can know.
fn of_machine(machine: &DynamicObject) -> Option<Cause> {
    if machine.metadata.deletion_timestamp.is_some() {
        let deleting = condition(machine, "Deleting").filter(|deleting| deleting["status"] == "True")?;
        let (reason, message) = (text(deleting, "reason"), text(deleting, "message"));
        return Some(Cause { grade: Grade::Underway, reason, message, own: false });
    }
    if let Some(bootstrap) =
        condition(machine, "BootstrapConfigReady").filter(|found| found["status"] == "False")
    {
        let message = text(bootstrap, "message");
        let grade = if message.contains("Waiting for ") {
            Grade::Waiting
        } else if message.contains("dataSecretCreated is false") || message.contains("not yet reported") {
            Grade::Underway
        } else {
            Grade::Failing
        };
        return Some(Cause { grade, reason: text(bootstrap, "reason"), message, own: true });
    }
    if condition(machine, "InfrastructureReady").is_some_and(|found| found["status"] == "True")
        && machine.data["status"]["nodeRef"].is_null()
    {
        return Some(unjoined(machine));
    }
    let ready = condition(machine, "Ready").filter(|found| found["status"] == "False")?;
    let is_there = !machine.data["status"]["nodeRef"].is_null();
    let (reason, message) = (text(ready, "reason"), text(ready, "message"));
    is_there.then_some(Cause { grade: Grade::Underway, reason, message, own: false })
}

/// A machine that runs and whose node is not there: only the machine itself can tell why.
fn unjoined(machine: &DynamicObject) -> Cause {
    let addresses = machine.data["status"]["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP").or(addresses.first());
    let place = internal.and_then(|address| address["address"].as_str());
    let place = place.map_or_else(String::new, |address| format!(" at {address}"));
    let message = format!(
        "the virtual machine runs{place} and its node has not joined yet. If that lasts, read /var/log/cloud-init-output.log there"
    );
    Cause { grade: Grade::Underway, reason: "WaitingForNode".to_owned(), message, own: true }
}

/// Machines that can't be made have nothing below them that could say why.
fn blocked_scaling(object: &DynamicObject) -> Option<Cause> {
    let scaling = condition(object, "ScalingUp")?;
    let message = text(scaling, "message");
    let blocked = scaling["status"] == "True" && message.contains("blocked because");
    blocked.then(|| Cause { grade: Grade::Failing, reason: text(scaling, "reason"), message, own: true })
}

/// A condition of an object, by its type.
pub(super) fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    conditions(object).iter().find(|condition| condition["type"] == type_)
}

/// All conditions of an object.
pub(super) fn conditions(object: &DynamicObject) -> &[Value] {
    object.data["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice)
}

/// A field of a condition; empty if it has none.
pub(super) fn text(condition: &Value, field: &str) -> String {
    condition[field].as_str().unwrap_or_default().to_owned()
}
