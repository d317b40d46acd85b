//! Builds a tree from objects, such as from a TanzuKubernetesCluster down to its vSphere VMs. This module doesn't
//! perform I/O.

use std::collections::BTreeMap;

use api::conditions::WARNING;
use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::tree::{ADD_ON, Branch, MachineFacts, Readiness, suspicion};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;

use super::cause::{self, Blocking};
use super::node::TreeNode;
use super::object::{condition, text, views};
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

/// A tree of objects, and the object that everything else waits for.
#[derive(Clone, Debug)]
pub struct Tree {
    pub root: TreeNode,
    /// `None` if the root is ready.
    pub blocking: Option<Blocking>,
}

/// Returns the root with the tree below it, or `None` if the root isn't among the objects.
pub fn tree(root: Root, namespace: &str, objects: &Objects) -> Option<Tree> {
    let object = objects.get(root.kind())?.first()?;
    let (root, branch) = grow(root.kind(), object, objects);
    Some(Tree { root, blocking: cause::blocking(namespace, &branch) })
}

/// Returns an object with everything below it: the tree to print, and the tree in which the cause is searched.
fn grow<'a>(kind: &'a str, object: &'a DynamicObject, objects: &'a Objects) -> (TreeNode, Branch<'a>) {
    let below = BELOW.iter().find(|(above, _)| *above == kind).map_or(&[][..], |(_, below)| below);
    let (mut children, mut branches) = (Vec::new(), failed_networks(object));
    for child_kind in below {
        for child in objects.get(child_kind).into_iter().flatten().filter(|child| owned(child, kind, object))
        {
            let (node, branch) = grow(child_kind, child, objects);
            if *child_kind == "MachineSet" {
                // Users don't look for MachineSets, so their Machines appear below the MachineDeployment.
                children.extend(node.children);
                branches.extend(without_machine_set(branch));
            } else {
                children.push(node);
                branches.push(branch);
            }
        }
    }
    children.extend(vsphere_vm(kind, object));
    let branch = Branch { children: branches, ..branch_of(kind, object, objects) };
    (node(object, &branch, children), branch)
}

/// Returns the node to print for an object.
fn node(object: &DynamicObject, branch: &Branch<'_>, children: Vec<TreeNode>) -> TreeNode {
    let (kind, name) = (branch.kind.to_owned(), object.name_any());
    if branch.is_unread {
        let message = format!("you may not read {kind} objects");
        return TreeNode {
            kind,
            name,
            ready: "Unknown".to_owned(),
            message,
            children,
            ..TreeNode::default()
        };
    }
    let Readiness { status, found } = branch.readiness();
    let shown = found.and_then(|found| condition(object, found.type_));
    let created = object.creation_timestamp().map(|time| time.0.to_string());
    let since = shown.map(|shown| text(shown, "lastTransitionTime")).filter(|time| !time.is_empty());
    TreeNode {
        kind,
        name,
        ready: status.to_owned(),
        reason: found.map_or("", |found| found.reason).to_owned(),
        message: found.map_or("", |found| found.message).to_owned(),
        since: since.or(created),
        suspicion: suspicion(branch, None),
        children,
    }
}

/// Returns the branch for an object, without children.
fn branch_of<'a>(kind: &'a str, object: &'a DynamicObject, objects: &'a Objects) -> Branch<'a> {
    let status = &object.data["status"];
    let ready = match kind {
        "VirtualMachineService" => Some(status["loadBalancer"]["ingress"].is_array()),
        "VirtualMachineSetResourcePolicy" => Some(status.is_object()),
        _ => None,
    };
    let machine = match kind {
        "Machine" => MachineFacts {
            has_node: !status["nodeRef"].is_null(),
            address: address(status),
            endpoint: endpoint(objects),
        },
        _ => MachineFacts::default(),
    };
    Branch {
        ready,
        machine,
        is_unread: object.data[UNREAD] == true,
        vm_status: status["vmstatus"].as_str().unwrap_or_default(),
        ..Branch::new(kind, &object.metadata, views(object))
    }
}

/// Returns the branches that replace a MachineSet: its Machines, and the MachineSet itself if it can't be deleted.
fn without_machine_set(set: Branch<'_>) -> impl Iterator<Item = Branch<'_>> {
    let mut set = set;
    let machines = std::mem::take(&mut set.children);
    machines.into_iter().chain(Some(set).filter(|set| set.held_by.is_some()))
}

/// Returns the container network of a TanzuKubernetesCluster, if it can't be applied. Returns nothing for other kinds.
fn failed_networks(object: &DynamicObject) -> Vec<Branch<'_>> {
    let all = object.data["status"]["addons"].as_array().map_or(&[][..], Vec::as_slice);
    let networks = all.iter().filter(|add_on| add_on["type"] == "CNI");
    networks.filter_map(failed_add_on).collect()
}

fn failed_add_on(add_on: &Value) -> Option<Branch<'_>> {
    let name = add_on["name"].as_str()?;
    let mut conditions = add_on["conditions"].as_array()?.iter();
    let failed = conditions.find(|found| found["status"] == "False" && found["severity"] == WARNING)?;
    let cause = Cause {
        object: format!("{ADD_ON} {name}"),
        reason: text(failed, "reason"),
        message: text(failed, "message"),
        severity: Severity::Warning,
    };
    Some(Branch { kind: ADD_ON, name, cause: Some(cause), ..Branch::default() })
}

/// Returns a Machine's internal address, or its first address if none is internal. Returns `None` if the Machine
/// doesn't have an address.
fn address(status: &Value) -> Option<&str> {
    let addresses = status["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP").or(addresses.first());
    internal.and_then(|address| address["address"].as_str())
}

/// Returns the URL of the cluster's API server, unless it has responded already.
fn endpoint(objects: &Objects) -> Option<String> {
    let cluster = &objects.get("Cluster")?.first()?.data;
    if cluster["status"]["initialization"]["controlPlaneInitialized"] == true {
        return None;
    }
    let endpoint = &cluster["spec"]["controlPlaneEndpoint"];
    let host = endpoint["host"].as_str().filter(|host| !host.is_empty())?;
    Some(kit::guest::server(host, endpoint["port"].as_u64()?.try_into().ok()?))
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
