//! The first cause: what, of all that is not ready, everything else waits for.

use std::fmt;
use std::sync::Arc;

use api::capw::WCPCluster;
use api::conditions::{READY, TRUE, metav1, wcp_cluster, wcp_machine};
use api::gcm::parts::{node_status, vm_status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::gather::Facts;
use super::nodes::{Node, conditions};

/// Why something is not ready: the path down to the object at fault, and what that object says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cause {
    /// `Machine x: WCPMachine y`.
    pub object: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Whether it went wrong, rather than takes its time.
    pub failing: bool,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason.as_str(), self.message.as_str()) {
            (reason, "") => write!(f, "{}: {reason}", self.object),
            ("", message) => write!(f, "{}: {message}", self.object),
            (reason, message) if message.contains(reason) => write!(f, "{}: {message}", self.object),
            (reason, message) => write!(f, "{}: {reason}: {message}", self.object),
        }
    }
}

/// What takes its time and comes right by itself; reasons that begin with `WaitingFor` are of this kind too.
const TAKES_TIME: [&str; 9] = [
    "Provisioning",
    "Deleting",
    "Paused",
    "NotReady",
    "Unknown",
    wcp_cluster::CLUSTER_NETWORK_PROVISION_STARTED,
    wcp_machine::VM_PROVISION_STARTED,
    wcp_machine::POWERING_ON,
    "",
];

/// What an object of Cluster API says: it knows no causes, only what it waits for.
fn said(object: String, condition: &Condition) -> Cause {
    let message = one_line(&condition.message);
    Cause { object, reason: condition.reason.clone(), message, failing: false }
}

/// What an object of capw says; any reason that does not just take time is one to act on.
fn blamed(object: String, conditions: &[Condition]) -> Option<Cause> {
    let condition = metav1::find(conditions, READY).filter(|condition| condition.status != TRUE)?;
    let reason = condition.reason.as_str();
    let failing = !reason.starts_with("WaitingFor") && !TAKES_TIME.contains(&reason);
    Some(Cause { failing, ..said(object, condition) })
}

/// Cluster API writes lists of causes, one a line, with a star before each.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("* ")).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// Why the cluster's infrastructure is not ready.
pub fn of_infrastructure(facts: &Facts) -> Option<Cause> {
    let wcp = facts.wcp_cluster.as_ref()?;
    let conditions = wcp.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    blamed(format!("WCPCluster {}", wcp.name_any()), conditions)
}

/// Why a Machine is not ready; nothing if it is.
pub fn of_machine(node: &Node<'_>) -> Option<Cause> {
    let machine = conditions(node.machine);
    let object = format!("Machine {}", node.name());
    if node.is_deleting() {
        let stuck = node.wcp.filter(|wcp| wcp.metadata.deletion_timestamp.is_some()).and_then(|wcp| {
            let conditions =
                wcp.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            blamed(format!("{object}: WCPMachine {}", wcp.name_any()), conditions)
        });
        return stuck
            .filter(|cause| cause.failing)
            .or_else(|| metav1::find(machine, "Deleting").map(|condition| said(object, condition)));
    }
    if metav1::holds(machine, READY) {
        return None;
    }
    let below = node.wcp.and_then(|wcp| {
        let conditions = wcp.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        blamed(format!("{object}: WCPMachine {}", wcp.name_any()), conditions)
    });
    let failing = node.vm_status() == vm_status::ERROR;
    if let Some(mut cause) = below {
        cause.failing |= failing;
        if cause.reason != wcp_machine::WAITING_FOR_BOOTSTRAP_DATA {
            return Some(cause);
        }
        let bootstrap =
            metav1::find(machine, "BootstrapConfigReady").filter(|condition| condition.status != TRUE);
        return Some(bootstrap.map_or(cause, |condition| said(object, condition)));
    }
    if node.node().is_none() {
        return Some(unjoined(node, object));
    }
    let health = ["NodeReady", "NodeHealthy", READY]
        .iter()
        .find_map(|type_| metav1::find(machine, type_).filter(|c| c.status != TRUE));
    health.map(|condition| Cause {
        failing: node.node_status() == node_status::NOT_READY,
        ..said(object, condition)
    })
}

/// A machine that runs and whose node is not there: only the machine itself can tell why.
fn unjoined(node: &Node<'_>, object: String) -> Cause {
    let address = node.wcp.and_then(|wcp| wcp.status.as_ref()?.vm_ip.clone());
    let Some(address) = address else {
        let condition = metav1::find(conditions(node.machine), "InfrastructureReady");
        return condition.map_or_else(
            || Cause {
                object: object.clone(),
                reason: "Pending".to_owned(),
                message: String::new(),
                failing: false,
            },
            |condition| said(object.clone(), condition),
        );
    };
    Cause {
        object,
        reason: "WaitingForNode".to_owned(),
        message: format!(
            "the virtual machine runs at {address} and its node has not joined yet. If that lasts, read /var/log/cloud-init-output.log there"
        ),
        failing: false,
    }
}

/// The first cause among some of the cluster's machines: what fails comes before what takes its time.
pub fn of_machines<'n, 'a: 'n>(nodes: impl IntoIterator<Item = &'n Node<'a>>) -> Option<Cause> {
    let mut causes: Vec<Cause> = nodes.into_iter().filter_map(of_machine).collect();
    causes.sort_by_key(|cause| !cause.failing);
    causes.into_iter().next()
}

/// Why a cluster that is to go does not go: what failed, not what takes its time.
pub fn of_deletion(facts: &Facts) -> Option<Cause> {
    let nodes = Node::all(facts);
    let going = |wcp: &&Arc<WCPCluster>| wcp.metadata.deletion_timestamp.is_some();
    let infrastructure = || facts.wcp_cluster.as_ref().filter(going).and_then(|_| of_infrastructure(facts));
    of_machines(nodes.iter().filter(|node| node.is_deleting()))
        .filter(|cause| cause.failing)
        .or_else(|| infrastructure().filter(|cause| cause.failing))
}

/// Why the control plane has not the machines it should have.
pub fn of_control_plane(facts: &Facts) -> Option<Cause> {
    let kcp = facts.control_plane.as_ref()?;
    let conditions = kcp.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let condition = metav1::find(conditions, "Available").filter(|condition| condition.status != TRUE)?;
    Some(said(format!("KubeadmControlPlane {}", kcp.name_any()), condition))
}

/// Why a pool has not the machines it should have.
pub fn of_pools(facts: &Facts) -> Option<Cause> {
    facts.deployments.iter().find_map(|deployment| {
        let conditions = deployment.status.as_ref()?.conditions.as_deref()?;
        let available = metav1::find(conditions, "Available").filter(|condition| condition.status != TRUE);
        let scaling = metav1::find(conditions, "ScalingUp")
            .filter(|condition| condition.status == TRUE && !condition.message.is_empty());
        scaling
            .or(available)
            .map(|condition| said(format!("MachineDeployment {}", deployment.name_any()), condition))
    })
}
