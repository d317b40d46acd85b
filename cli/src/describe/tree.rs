//! Builds a tree from objects, such as from a TanzuKubernetesCluster down to its vSphere VMs. This module doesn't
//! perform I/O.

use std::collections::BTreeMap;

use api::conditions::tkc;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;

use super::cause;
use super::node::TreeNode;
use super::object::{condition, conditions, text};
use super::root::Root;

/// The objects of one cluster by kind.
pub type Objects = BTreeMap<&'static str, Vec<DynamicObject>>;

/// The data field that marks a placeholder for an object that the user isn't allowed to read.
pub const UNREAD: &str = "unread";

/// The kinds in the tree with the kinds below them, in the order in which a cluster comes up.
const BELOW: &[(&str, &[&str])] = &[
    ("TanzuKubernetesCluster", &["Cluster"]),
    ("Cluster", &["WCPCluster", "KubeadmControlPlane", "MachineDeployment"]),
    ("WCPCluster", &["VirtualMachineSetResourcePolicy", "VirtualNetwork", "VirtualMachineService"]),
    ("KubeadmControlPlane", &["Machine"]),
    ("MachineDeployment", &["MachineSet"]),
    ("MachineSet", &["Machine"]),
    ("Machine", &["WCPMachine"]),
    ("WCPMachine", &["VirtualMachine"]),
];

/// Returns the root with the tree below it, or `None` if the root isn't among the objects.
pub fn tree(root: Root, objects: &Objects) -> Option<TreeNode> {
    let object = objects.get(root.kind())?.first()?;
    Some(node(root.kind(), object, objects))
}

fn node(kind: &str, object: &DynamicObject, objects: &Objects) -> TreeNode {
    let below = BELOW.iter().find(|(above, _)| *above == kind).map_or(&[][..], |(_, below)| below);
    let mut children = Vec::new();
    for child_kind in below {
        for child in objects.get(child_kind).into_iter().flatten().filter(|child| owned(child, kind, object))
        {
            let child = node(child_kind, child, objects);
            // Users don't look for MachineSets, so their Machines appear below the MachineDeployment.
            if *child_kind == "MachineSet" { children.extend(child.children) } else { children.push(child) }
        }
    }
    children.extend(vsphere_vm(kind, object));
    if object.data[UNREAD] == true {
        let message = format!("you may not read {kind} objects");
        return TreeNode {
            kind: kind.to_owned(),
            name: object.name_any(),
            ready: "Unknown".to_owned(),
            message,
            children,
            ..TreeNode::default()
        };
    }
    let Readiness { ready, found, since } = readiness(object);
    let field = |name| found.map(|condition| text(condition, name)).unwrap_or_default();
    let (reason, message) = (field("reason"), field("message"));
    let suspicion = (ready != "True").then(|| cause::explain(kind, object, found));
    let (kind, name) = (kind.to_owned(), object.name_any());
    TreeNode { kind, name, ready, reason, message, since, suspicion, children }
}

fn owned(child: &DynamicObject, kind: &str, parent: &DynamicObject) -> bool {
    let name = parent.name_any();
    child.owner_references().iter().any(|owner| owner.kind == kind && owner.name == name)
}

/// Returns the vCenter VM of a VirtualMachine, according to its status. Returns `None` for other kinds, and before the
/// VM exists.
fn vsphere_vm(kind: &str, object: &DynamicObject) -> Option<TreeNode> {
    if kind != "VirtualMachine" {
        return None;
    }
    let status = &object.data["status"];
    let id = status["uniqueID"].as_str()?;
    let power = status["powerState"].as_str().unwrap_or_default();
    let facts = ["vmIp", "host"].iter().filter_map(|field| status[*field].as_str());
    let facts: Vec<_> = std::iter::once(power).chain(facts).filter(|fact| !fact.is_empty()).collect();
    let (task, reason, since) = last_task(object, power);
    Some(TreeNode {
        kind: "vSphere VM".to_owned(),
        name: id.to_owned(),
        ready: if power == "poweredOn" { "True" } else { "False" }.to_owned(),
        reason,
        message: format!("{}; last task: {task}", facts.join(" ")),
        since,
        ..TreeNode::default()
    })
}

/// Returns the description, failure reason and time of a VM's last vCenter task, according to the VirtualMachine's
/// conditions. The reason is empty if the task didn't fail, and the time is `None` if it isn't known. `power` is the
/// VM's power state.
fn last_task(object: &DynamicObject, power: &str) -> (String, String, Option<String>) {
    let made = condition(object, "VirtualMachineCreated");
    let powered = condition(object, "VirtualMachinePowerStateSynced");
    let time = |condition: Option<&Value>| condition.map(|found| text(found, "lastTransitionTime"));
    let failed = |condition: Option<&Value>| {
        condition.filter(|found| found["status"] == "False").map(|found| text(found, "reason"))
    };
    if let Some(reason) = failed(made) {
        return (format!("failed: {}", text(made.unwrap_or(&Value::Null), "message")), reason, time(made));
    }
    if let Some(reason) = failed(powered) {
        let message = text(powered.unwrap_or(&Value::Null), "message");
        return (format!("power: {message}"), reason, time(powered));
    }
    if time(powered) > time(made) {
        return (format!("power to {power}"), String::new(), time(powered));
    }
    ("clone".to_owned(), String::new(), time(made))
}

/// Condition types that are False on healthy objects.
const ABOUT_CHANGE: [&str; 8] = [
    "Paused",
    "Deleting",
    "RollingOut",
    "Remediating",
    "ScalingUp",
    "ScalingDown",
    "Updating",
    "UpdatesAvailable",
];

/// Returns true if a False condition may explain why its object isn't ready.
fn explains(found: &Value) -> bool {
    let is = |field: &str, words: &[&str]| words.iter().any(|word| found[field] == **word);
    !is("type", &ABOUT_CHANGE) && !is("reason", &tkc::LIMITS)
}

/// The readiness that follows from an object's conditions.
struct Readiness<'a> {
    ready: String,
    /// The condition that contains the reason.
    found: Option<&'a Value>,
    since: Option<String>,
}

fn readiness(object: &DynamicObject) -> Readiness<'_> {
    let summary = condition(object, "Ready").or_else(|| condition(object, "Available"));
    let bad = || conditions(object).iter().find(|found| found["status"] == "False" && explains(found));
    let found = match summary {
        // A specific condition gives the reason if the summary doesn't.
        Some(summary) if summary["status"] != "True" && text(summary, "message").is_empty() => {
            bad().or(Some(summary))
        }
        Some(summary) => Some(summary),
        None => bad(),
    };
    let status = summary.or(found).map(|condition| text(condition, "status"));
    let ready = status.or_else(|| ready_without_conditions(object)).unwrap_or_else(|| "Unknown".to_owned());
    let created = object.creation_timestamp().map(|time| time.0.to_string());
    let since = found.map(|condition| text(condition, "lastTransitionTime")).filter(|time| !time.is_empty());
    Readiness { ready, found, since: since.or(created) }
}

/// Returns the readiness (`True` or `False`) of an object whose kind doesn't have conditions, according to other status
/// fields. Returns `None` for all other kinds.
fn ready_without_conditions(object: &DynamicObject) -> Option<String> {
    let kind = object.types.as_ref().map(|types| types.kind.as_str())?;
    let ready = match kind {
        "VirtualMachineService" => object.data["status"]["loadBalancer"]["ingress"].is_array(),
        "VirtualMachineSetResourcePolicy" => object.data["status"].is_object(),
        _ => return None,
    };
    Some(if ready { "True" } else { "False" }.to_owned())
}
