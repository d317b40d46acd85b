//! One cluster as a tree, from the TanzuKubernetesCluster down to the vSphere VMs. Pure: objects in, tree out.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

/// One object of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Kind, e.g. `Machine`.
    pub kind: String,
    /// Name; objects of one tree share their namespace.
    pub name: String,
    /// `True`, `False` or `Unknown`, as its Ready (or Available) condition says.
    pub ready: String,
    /// Reason of that condition, or of the first one that is false.
    pub reason: String,
    /// Message of that condition.
    pub message: String,
    /// When that condition last changed, else when the object was made (RFC 3339).
    #[serde(skip)]
    pub since: Option<String>,
    /// What it is made of, in the order in which a cluster comes up.
    pub children: Vec<Node>,
}

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

/// Every object of one cluster, by kind.
pub type Objects = BTreeMap<&'static str, Vec<DynamicObject>>;

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

/// The tree of the cluster whose objects these are; `None` if its TanzuKubernetesCluster is not among them.
pub fn tree(objects: &Objects) -> Option<Node> {
    let root = objects.get("TanzuKubernetesCluster")?.first()?;
    Some(node("TanzuKubernetesCluster", root, objects))
}

fn node(kind: &str, object: &DynamicObject, objects: &Objects) -> Node {
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
    let (ready, reason, message, since) = readiness(object);
    Node { kind: kind.to_owned(), name: object.name_any(), ready, reason, message, since, children }
}

fn owned(child: &DynamicObject, kind: &str, parent: &DynamicObject) -> bool {
    let name = parent.name_any();
    child.owner_references().iter().any(|owner| owner.kind == kind && owner.name == name)
}

/// The VM in vCenter behind a VirtualMachine, as far as its status tells.
fn vsphere_vm(kind: &str, object: &DynamicObject) -> Option<Node> {
    if kind != "VirtualMachine" {
        return None;
    }
    let status = &object.data["status"];
    let id = status["uniqueID"].as_str()?;
    let facts = ["powerState", "vmIp", "host"].iter().filter_map(|field| status[*field].as_str());
    let on = status["powerState"] == "poweredOn";
    Some(Node {
        kind: "vSphere VM".to_owned(),
        name: id.to_owned(),
        ready: if on { "True" } else { "False" }.to_owned(),
        reason: String::new(),
        message: facts.filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(" "),
        since: None,
        children: Vec::new(),
    })
}

/// Ready, reason, message and since when.
fn readiness(object: &DynamicObject) -> (String, String, String, Option<String>) {
    let conditions = object.data["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let of_type = |name: &str| conditions.iter().find(|condition| condition["type"] == name);
    let created = object.creation_timestamp().map(|time| time.0.to_string());
    let summary = of_type("Ready").or_else(|| of_type("Available"));
    let told = match summary {
        Some(summary) if summary["status"] == "True" => Some(summary),
        // The finer condition knows why; the summary may only know that.
        Some(summary) if text(summary, "message").is_empty() => {
            conditions.iter().find(|condition| condition["status"] == "False").or(Some(summary))
        }
        other => other.or_else(|| conditions.iter().find(|condition| condition["status"] == "False")),
    };
    let status = summary.or(told).map(|condition| text(condition, "status"));
    let ready = status.or_else(|| ready_without_conditions(object)).unwrap_or_else(|| "Unknown".to_owned());
    let field = |name| told.map(|condition| text(condition, name)).unwrap_or_default();
    let since = told.map(|condition| text(condition, "lastTransitionTime")).filter(|time| !time.is_empty());
    (ready, field("reason"), field("message"), since.or(created))
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

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// The first object, in the order in which a cluster comes up, that is not ready while all below it are.
pub fn blocking(namespace: &str, tree: &Node) -> Option<Blocking> {
    if tree.ready == "True" {
        return None;
    }
    if let Some(below) = tree.children.iter().find_map(|child| blocking(namespace, child)) {
        return Some(below);
    }
    if tree.kind == "vSphere VM" {
        return None;
    }
    let (reason, message) = (tree.reason.clone(), tree.message.clone());
    Some(Blocking { object: format!("{} {namespace}/{}", tree.kind, tree.name), reason, message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str, owner: Option<(&str, &str)>, status: Value) -> DynamicObject {
        let owners = owner.map_or(
            json!([]),
            |(kind, name)| json!([{"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "u"}]),
        );
        let metadata = json!({"name": name, "namespace": "ns", "ownerReferences": owners});
        let object = json!({"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn condition(status: &str, reason: &str, message: &str) -> Value {
        json!({"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message}]})
    }

    fn cluster(vm: Value) -> Objects {
        let waiting = || condition("False", "WaitingForControlPlane", "waiting");
        Objects::from([
            ("TanzuKubernetesCluster", vec![object("TanzuKubernetesCluster", "c", None, waiting())]),
            ("Cluster", vec![object("Cluster", "c", Some(("TanzuKubernetesCluster", "c")), waiting())]),
            (
                "KubeadmControlPlane",
                vec![object("KubeadmControlPlane", "c-cp", Some(("Cluster", "c")), waiting())],
            ),
            ("Machine", vec![object("Machine", "c-cp-1", Some(("KubeadmControlPlane", "c-cp")), waiting())]),
            ("WCPMachine", vec![object("WCPMachine", "c-cp-1", Some(("Machine", "c-cp-1")), waiting())]),
            ("VirtualMachine", vec![object("VirtualMachine", "c-cp-1", Some(("WCPMachine", "c-cp-1")), vm)]),
        ])
    }

    #[test]
    fn the_blocking_cause_is_the_deepest_object_that_is_not_ready() {
        let tree =
            tree(&cluster(condition("False", "VirtualMachineClassNotFound", "no class best"))).unwrap();
        let blocking = blocking("ns", &tree).unwrap();
        assert_eq!(blocking.object, "VirtualMachine ns/c-cp-1");
        assert_eq!(blocking.reason, "VirtualMachineClassNotFound");
    }

    #[test]
    fn a_ready_vm_hands_the_blame_to_its_machine() {
        let mut vm = condition("True", "", "");
        vm["uniqueID"] = json!("vm-7");
        vm["powerState"] = json!("poweredOn");
        let tree = tree(&cluster(vm)).unwrap();
        assert_eq!(blocking("ns", &tree).unwrap().object, "WCPMachine ns/c-cp-1");
        let machine = &tree.children[0].children[0].children[0];
        assert_eq!(machine.children[0].children[0].children[0].name, "vm-7");
    }
}
