//! The conditions of a cluster, each in one function; add-ons are not among them before somebody applies them.

use api::conditions::{Condition, INFO, READY, TRUE, WARNING, metav1, tkc as words};
use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::{node_status, vm_status};

use super::blocking::{self, Cause};
use super::gather::Facts;
use super::nodes::Node;
use super::replicas::{Group, groups};
use crate::admission::version;
use crate::releases::status::updates_condition;
use crate::resolution;

/// All conditions but the summary, in the order in which the summary looks at them.
pub fn all(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<Condition> {
    let nodes = Node::all(facts);
    let mut conditions = vec![control_plane(facts, &nodes), pools(tkc, facts, &nodes), nodes_healthy(&nodes)];
    conditions.extend(release(tkc, facts));
    conditions
}

/// The summary: what fails first, in the order of the conditions.
pub fn ready(conditions: &[Condition]) -> Condition {
    let summed = [words::CONTROL_PLANE_READY, words::NODE_POOLS_READY, words::NODES_HEALTHY];
    let failing = conditions
        .iter()
        .find(|condition| summed.contains(&condition.type_.as_str()) && condition.status != TRUE);
    match failing {
        Some(condition) => Condition { type_: READY.to_owned(), ..condition.clone() },
        None => Condition::is_true(READY),
    }
}

/// A condition that does not hold, with the cause in its message and its severity.
fn unmet(type_: &str, reason: &str, text: &str, cause: Option<&Cause>) -> Condition {
    let severity = if cause.is_some_and(|cause| cause.failing) { WARNING } else { INFO };
    let message = cause.map_or_else(|| text.to_owned(), |cause| format!("{text}: {cause}"));
    Condition::is_false(type_, severity, reason, message)
}

fn control_plane(facts: &Facts, nodes: &[Node<'_>]) -> Condition {
    let initialization =
        facts.cluster.as_ref().and_then(|cluster| cluster.status.as_ref()?.initialization.as_ref());
    let machines = || blocking::of_machines(nodes.iter().filter(|node| node.is_control_plane()));
    if initialization.is_none_or(|done| done.infrastructure_provisioned != Some(true)) {
        return unmet(
            words::CONTROL_PLANE_READY,
            words::WAITING_FOR_CLUSTER_INFRASTRUCTURE,
            "Waiting for cluster infrastructure to be ready",
            blocking::of_infrastructure(facts).as_ref(),
        );
    }
    let cause = machines().or_else(|| blocking::of_control_plane(facts));
    if initialization.is_none_or(|done| done.control_plane_initialized != Some(true)) {
        return unmet(
            words::CONTROL_PLANE_READY,
            words::WAITING_FOR_CONTROL_PLANE_INITIALIZED,
            "Waiting for the first control plane node",
            cause.as_ref(),
        );
    }
    let kcp = facts.control_plane.as_deref();
    let available = kcp
        .and_then(|kcp| kcp.status.as_ref()?.conditions.as_deref())
        .is_some_and(|c| metav1::holds(c, "Available"));
    if available && kcp.map(Group::of_control_plane).is_some_and(|group| group.is_settled()) {
        return Condition::is_true(words::CONTROL_PLANE_READY);
    }
    unmet(
        words::CONTROL_PLANE_READY,
        words::WAITING_FOR_CONTROL_PLANE,
        "Waiting for control planes to be ready",
        cause.as_ref(),
    )
}

fn pools(tkc: &TanzuKubernetesCluster, facts: &Facts, nodes: &[Node<'_>]) -> Condition {
    let wanted = &tkc.spec.topology.node_pools;
    if facts.deployments.is_empty() && !wanted.is_empty() {
        return unmet(
            words::NODE_POOLS_READY,
            words::NODE_POOLS_UNKNOWN,
            "The node pools are not there yet",
            None,
        );
    }
    let unsettled: Vec<String> = groups(facts)
        .filter(|(_, group)| !group.is_settled())
        .map(|(pool, group)| format!("{pool} has {} of {} nodes ready", group.ready, group.wanted))
        .collect();
    if unsettled.is_empty() {
        return Condition::is_true(words::NODE_POOLS_READY);
    }
    let workers = || nodes.iter().filter(|node| !node.is_control_plane());
    let cause = blocking::of_machines(workers()).or_else(|| blocking::of_pools(facts));
    let failed =
        workers().any(|node| [vm_status::ERROR, vm_status::NOT_FOUND].contains(&node.vm_status().as_str()));
    let reason = if failed { words::NODE_POOLS_FAILED } else { words::NODE_POOLS_UPDATING };
    unmet(words::NODE_POOLS_READY, reason, &format!("Node pool {}", unsettled.join(", ")), cause.as_ref())
}

fn nodes_healthy(nodes: &[Node<'_>]) -> Condition {
    let staying = || nodes.iter().filter(|node| !node.is_deleting());
    let ill: Vec<&Node<'_>> = staying().filter(|node| node.node_status() != node_status::READY).collect();
    let all = staying().count();
    if ill.is_empty() && all > 0 {
        return Condition::is_true(words::NODES_HEALTHY);
    }
    let text = format!("{} of {all} nodes are ready", all - ill.len());
    let cause = blocking::of_machines(ill.iter().copied());
    unmet(words::NODES_HEALTHY, words::WAITING_FOR_NODES_HEALTHY, &text, cause.as_ref())
}

fn release(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<Condition> {
    let compatible = match resolution::resolve(version::written(tkc), &facts.offers) {
        Ok(_) => Condition::is_true(words::TANZU_KUBERNETES_RELEASE_COMPATIBLE),
        Err(unresolved) => Condition::is_false(
            words::TANZU_KUBERNETES_RELEASE_COMPATIBLE,
            WARNING,
            api::conditions::release::INCOMPATIBLE,
            unresolved.to_string(),
        ),
    };
    let updates = version::current(tkc)
        .map(|current| updates_condition(words::UPDATES_AVAILABLE, &current, &facts.offers));
    std::iter::once(compatible).chain(updates).collect()
}
