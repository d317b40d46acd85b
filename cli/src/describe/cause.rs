//! Which of the objects that are not ready is the one that everything else waits for. Pure.
//!
//! The deepest object knows best, and of those the gravest cause comes first, as [`api::conditions::cause`] ranks
//! them; among equals, the first in the order in which a cluster comes up.

use api::conditions::cause::{Cause, gravest, severity};
use api::conditions::severity::Severity;
use api::conditions::{READY, capi, contract, tkc, vmop, wcp_cluster};
use api::gcm::remedy;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use super::node::{Suspicion, TreeNode};
use super::object::{condition, text};
use super::root::Root;

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

impl Blocking {
    /// A pause of the root `namespace/name`; `message` says who paused it and how it is resumed.
    pub fn pause(root: Root, namespace: &str, name: &str, message: String) -> Self {
        let object = format!("{} {namespace}/{name}", root.kind());
        Self { object, reason: contract::PAUSED.to_owned(), message }
    }

    /// Returns true if the cluster waits for the end of a pause.
    pub fn is_pause(&self) -> bool {
        self.reason == contract::PAUSED
    }
}

/// The first blocking cause of a tree whose root is not ready.
///
/// Nothing below a paused root is repaired, so the pause is the cause. The root also knows best that nothing replaces its control
/// plane.
pub fn blocking(namespace: &str, tree: &TreeNode) -> Option<Blocking> {
    if tree.ready == "True" {
        return None;
    }
    let mut suspects = Vec::new();
    add_suspects(tree, &mut suspects);
    let own = tree.suspicion.as_ref().map(|suspicion| (tree, &suspicion.cause));
    let last = [contract::PAUSED, tkc::CANNOT_BE_REMEDIATED];
    let own = own.filter(|(_, cause)| last.contains(&cause.reason.as_str()));
    let (node, cause) = own.or_else(|| gravest(suspects, |(_, cause)| cause.severity))?;
    let Cause { reason, mut message, .. } = cause.clone();
    if tree.kind == Root::TanzuKubernetesCluster.kind() {
        message = remedy::with_fields(&message);
    }
    Some(Blocking { object: format!("{} {namespace}/{}", node.kind, node.name), reason, message })
}

/// Collects the objects that may be the cause, the deepest first; returns whether anything is not ready.
fn add_suspects<'a>(node: &'a TreeNode, suspects: &mut Vec<(&'a TreeNode, &'a Cause)>) -> bool {
    let mut below = false;
    for child in &node.children {
        below |= add_suspects(child, suspects);
    }
    if let Some(Suspicion { cause, own }) = &node.suspicion
        && (!below || *own)
    {
        suspects.push((node, cause));
    }
    below || node.suspicion.is_some()
}

/// Why `object` is not ready; `found` is the condition that shows it.
pub fn explain(kind: &str, object: &DynamicObject, found: Option<&Value>) -> Suspicion {
    let name = format!("{kind} {}", object.metadata.name.as_deref().unwrap_or_default());
    let special = match kind {
        "Cluster" => of_topology(&name, object),
        "Machine" => of_machine(&name, object),
        "KubeadmControlPlane" | "MachineDeployment" => {
            condition(object, capi::SCALING_UP).filter(|scaling| scaling["status"] == "True").map(|scaling| {
                Suspicion { cause: of_cluster_api(name.clone(), capi::SCALING_UP, scaling), own: false }
            })
        }
        _ => None,
    };
    special.unwrap_or_else(|| of_condition(kind, name, found))
}

/// What a condition shows.
fn of_condition(kind: &str, object: String, found: Option<&Value>) -> Suspicion {
    let Some(found) = found else {
        let severity = if is_upstream(kind) { Severity::Waiting } else { Severity::Info };
        let message = "its controller has not reported its status yet".to_owned();
        let cause = Cause { object, reason: NOT_REPORTED.to_owned(), message, severity };
        return Suspicion { cause, own: false };
    };
    if is_upstream(kind) {
        return Suspicion { cause: of_cluster_api(object, &text(found, "type"), found), own: false };
    }
    let (reason, message) = (text(found, "reason"), text(found, "message"));
    let own = match kind {
        "TanzuKubernetesCluster" => [tkc::INVALID, tkc::RECONCILE_FAILED].contains(&reason.as_str()),
        "WCPCluster" => wcp_cluster::severity(&reason).is_some_and(Severity::is_failing),
        // The VirtualMachine does what it should; that its guest is no node is the Machine's matter.
        "WCPMachine" => [vmop::BOOTSTRAP_FAILED, vmop::BOOTSTRAP_IN_PROGRESS, vmop::NO_BOOTSTRAP_STATUS]
            .contains(&reason.as_str()),
        _ => false,
    };
    let status = found["status"].as_str().unwrap_or_default();
    let severity = severity(status, &reason, found["severity"].as_str());
    Suspicion { cause: Cause { object, reason, message, severity }, own }
}

/// What a condition of one of Cluster API's own kinds shows.
fn of_cluster_api(object: String, type_: &str, found: &Value) -> Cause {
    let (reason, message) = (text(found, "reason"), text(found, "message"));
    let severity = capi::severity(type_, found["status"].as_str().unwrap_or_default(), &reason);
    Cause { object, reason, message, severity }
}

/// The reason of an object whose controller has not reported on it.
pub const NOT_REPORTED: &str = "NotReported";

/// Cluster API's own kinds know no causes, only what they wait for.
fn is_upstream(kind: &str) -> bool {
    ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine"].contains(&kind)
}

/// A topology that cannot be carried out, such as one without its ClusterClass. Objects below the Cluster do not know it.
fn of_topology(name: &str, object: &DynamicObject) -> Option<Suspicion> {
    let found = condition(object, capi::TOPOLOGY_RECONCILED)?;
    let cause = of_cluster_api(name.to_owned(), capi::TOPOLOGY_RECONCILED, found);
    cause.severity.is_failing().then_some(Suspicion { cause, own: true })
}

/// What a Machine shows that none of the objects below it can know.
fn of_machine(name: &str, machine: &DynamicObject) -> Option<Suspicion> {
    if machine.metadata.deletion_timestamp.is_some() {
        let deleting = condition(machine, capi::DELETING).filter(|deleting| deleting["status"] == "True")?;
        let cause = of_cluster_api(name.to_owned(), capi::DELETING, deleting);
        return Some(Suspicion { cause, own: false });
    }
    if let Some(bootstrap) =
        condition(machine, capi::BOOTSTRAP_CONFIG_READY).filter(|found| found["status"] == "False")
    {
        let cause = of_cluster_api(name.to_owned(), capi::BOOTSTRAP_CONFIG_READY, bootstrap);
        return Some(Suspicion { cause, own: true });
    }
    let has_node = !machine.data["status"]["nodeRef"].is_null();
    let is_provisioned =
        condition(machine, capi::INFRASTRUCTURE_READY).is_some_and(|found| found["status"] == "True");
    if is_provisioned && !has_node {
        let cause = Cause::not_joined(name.to_owned(), address(machine), None);
        return Some(Suspicion { cause, own: true });
    }
    let ready = condition(machine, READY).filter(|found| found["status"] == "False" && has_node)?;
    // A node that was there comes and goes with what runs on it.
    let cause = Cause { severity: Severity::Info, ..of_cluster_api(name.to_owned(), READY, ready) };
    Some(Suspicion { cause, own: false })
}

/// The address of a Machine: the internal one, else the first.
fn address(machine: &DynamicObject) -> Option<&str> {
    let addresses = machine.data["status"]["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP").or(addresses.first());
    internal.and_then(|address| address["address"].as_str())
}
