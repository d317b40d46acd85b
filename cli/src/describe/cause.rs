//! Finds the object that everything else waits for, among the objects that aren't ready. This module doesn't perform
//! I/O.
//!
//! The suspects are unready objects that only have ready objects below them, and objects that report a cause of their
//! own. The suspect with the gravest cause wins, as ranked by [`api::conditions::cause`]. Among equal causes, the
//! object that a cluster needs first wins.

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
    /// Kind, namespace and name, such as `VirtualMachine ben-test/test-cluster-control-plane-x7k2p`.
    pub object: String,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

impl Blocking {
    /// Returns the cause for a paused root `namespace/name`. `message` says who paused the root and how to resume it.
    pub fn pause(root: Root, namespace: &str, name: &str, message: String) -> Self {
        let object = format!("{} {namespace}/{name}", root.kind());
        Self { object, reason: contract::PAUSED.to_owned(), message }
    }

    /// Returns true if the cluster is paused.
    pub fn is_pause(&self) -> bool {
        self.reason == contract::PAUSED
    }
}

/// Returns the first blocking cause, or `None` if the root is ready.
///
/// If the root is paused, the pause is the cause, because objects below it aren't repaired. If the root's control plane
/// can't be remediated, that is the cause.
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

/// Collects the possible causes, deepest objects first. Returns true if `node` or an object below it isn't ready.
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

/// Explains why `object` isn't ready. `found` is the condition that shows the reason, if there is one.
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

/// Returns the cause that a condition shows.
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
        // The VirtualMachine may be ready although its guest doesn't become a node, so only the WCPMachine reports this
        // cause.
        "WCPMachine" => [vmop::BOOTSTRAP_FAILED, vmop::BOOTSTRAP_IN_PROGRESS, vmop::NO_BOOTSTRAP_STATUS]
            .contains(&reason.as_str()),
        _ => false,
    };
    let status = found["status"].as_str().unwrap_or_default();
    let severity = severity(status, &reason, found["severity"].as_str());
    Suspicion { cause: Cause { object, reason, message, severity }, own }
}

/// Returns the cause that a Cluster API condition shows.
fn of_cluster_api(object: String, type_: &str, found: &Value) -> Cause {
    let (reason, message) = (text(found, "reason"), text(found, "message"));
    let severity = capi::severity(type_, found["status"].as_str().unwrap_or_default(), &reason);
    Cause { object, reason, message, severity }
}

/// The reason for objects whose controller hasn't reported a status.
pub const NOT_REPORTED: &str = "NotReported";

/// Returns true for Cluster API's core kinds. Their conditions show what they wait for, but not the cause.
fn is_upstream(kind: &str) -> bool {
    ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine"].contains(&kind)
}

/// Returns the cause if the topology can't be reconciled, for example without its ClusterClass. The objects below the
/// Cluster don't show this cause.
fn of_topology(name: &str, object: &DynamicObject) -> Option<Suspicion> {
    let found = condition(object, capi::TOPOLOGY_RECONCILED)?;
    let cause = of_cluster_api(name.to_owned(), capi::TOPOLOGY_RECONCILED, found);
    cause.severity.is_failing().then_some(Suspicion { cause, own: true })
}

/// Returns a cause that the Machine shows but the objects below it don't, or `None` if there isn't one.
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
    // The readiness of a node that joined depends on its workload, so it ranks low.
    let cause = Cause { severity: Severity::Info, ..of_cluster_api(name.to_owned(), READY, ready) };
    Some(Suspicion { cause, own: false })
}

/// Returns a Machine's internal address, or its first address if none is internal. Returns `None` if the Machine
/// doesn't have an address.
fn address(machine: &DynamicObject) -> Option<&str> {
    let addresses = machine.data["status"]["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP").or(addresses.first());
    internal.and_then(|address| address["address"].as_str())
}
