//! Objects as a tree, such as a cluster from the TanzuKubernetesCluster down to the vSphere VMs. Pure: objects in, tree out.

use std::collections::BTreeMap;

use api::conditions::tkc;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;

use super::cause;
use super::node::TreeNode;
use super::object::{condition, conditions, text};
use super::root::Root;

/// Every object of one cluster, by kind.
pub type Objects = BTreeMap<&'static str, Vec<DynamicObject>>;

/// The member of an object that stands for one that the user may not read.
pub const UNREAD: &str = "unread";

/// The kinds of the tree, in the order in which a cluster comes up, with what stands below each.
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

/// The tree below the root; `None` if it is not among the objects.
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
            // A MachineSet adds nothing that a reader looks for: its Machines stand below the MachineDeployment.
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

/// The VM in vCenter behind a VirtualMachine, as far as its status tells.
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

/// What vCenter was last asked to do for a VM, how that went, and when, as the VirtualMachine's conditions show.
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

/// Conditions that say no when all is well.
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

/// Returns true if a condition that is False may explain why its object is not ready.
fn explains(found: &Value) -> bool {
    let is = |field: &str, words: &[&str]| words.iter().any(|word| found[field] == **word);
    !is("type", &ABOUT_CHANGE) && !is("reason", &tkc::LIMITS)
}

/// What an object's conditions come to.
struct Readiness<'a> {
    ready: String,
    found: Option<&'a Value>,
    since: Option<String>,
}

fn readiness(object: &DynamicObject) -> Readiness<'_> {
    let summary = condition(object, "Ready").or_else(|| condition(object, "Available"));
    let bad = || conditions(object).iter().find(|found| found["status"] == "False" && explains(found));
    let found = match summary {
        // The finer condition knows why; the summary may only know that.
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

/// Some kinds have no conditions: what they are for says whether they are ready.
fn ready_without_conditions(object: &DynamicObject) -> Option<String> {
    let kind = object.types.as_ref().map(|types| types.kind.as_str())?;
    let ready = match kind {
        "VirtualMachineService" => object.data["status"]["loadBalancer"]["ingress"].is_array(),
        "VirtualMachineSetResourcePolicy" => object.data["status"].is_object(),
        _ => return None,
    };
    Some(if ready { "True" } else { "False" }.to_owned())
}
