//! Records nodes that were replaced because they were unhealthy: their total number, and the causes of the last replacements.

use std::fmt::Write;

use api::capi::Machine;
use api::conditions::{FALSE, READY, TRUE, capi, cause, metav1};
use api::gcm::TanzuKubernetesClusterStatus;
use api::gcm::parts::RemediatedNode;
use api::names::annotation;
use jiff::Timestamp;
use kube::ResourceExt;

use super::budget;
use crate::cluster::facts::Facts;
use crate::cluster::node_groups::nodes::{ClusterMachine, conditions};

/// The number of replaced nodes to remember. In addition, each node is remembered as long as its Machine exists, because it would
/// be counted again otherwise.
const REMEMBERED: usize = 5;
/// The maximum number of nodes that are remembered because they still count toward the replacement limit.
const COUNTED: usize = 50;
/// The maximum length of a message, in bytes.
const LONGEST_MESSAGE: usize = 2048;

/// Returns the remediated nodes for the status, sorted by time, and the total number of replaced nodes, or `None` if no node was
/// replaced.
pub fn collect_remediations(
    facts: &Facts,
    old: &TanzuKubernetesClusterStatus,
) -> (Vec<RemediatedNode>, Option<i32>) {
    let nodes = ClusterMachine::all(facts);
    let is_known = |name: &str| old.remediated_nodes.iter().any(|known| known.machine == name);
    let new: Vec<_> =
        nodes.iter().filter(|node| !is_known(&node.name())).filter_map(describe_remediation).collect();
    let count = old.node_remediation_count.unwrap_or_default();
    let count = count.saturating_add(i32::try_from(new.len()).unwrap_or(i32::MAX));
    let mut all = old.remediated_nodes.clone();
    all.extend(new);
    all.sort_by(|a, b| (&a.time, &a.machine).cmp(&(&b.time, &b.machine)));
    let past = all.len().saturating_sub(REMEMBERED);
    let is_there = |machine: &str| nodes.iter().any(|node| node.name() == machine);
    let counts = |time: &str| {
        let since = time.parse::<Timestamp>().map(|time| facts.now.duration_since(time));
        since.is_ok_and(|since| since < budget::window(&facts.health))
    };
    let counted = all.len().saturating_sub(COUNTED);
    let kept = all.into_iter().enumerate().filter(|(at, node)| {
        *at >= past || is_there(&node.machine) || (*at >= counted && counts(&node.time))
    });
    (kept.map(|(_, node)| node).collect(), (count > 0).then_some(count))
}

/// Returns the record of a machine that its owner deletes because the health check failed. Returns `None` if the machine is
/// deleted for another reason, such as a removed pool, even if it's unhealthy.
fn describe_remediation(node: &ClusterMachine<'_>) -> Option<RemediatedNode> {
    let time = node.machine.metadata.deletion_timestamp.as_ref()?;
    let check = metav1::find(conditions(node.machine), capi::HEALTH_CHECK_SUCCEEDED)
        .filter(|check| check.status == FALSE)?;
    metav1::find(conditions(node.machine), capi::OWNER_REMEDIATED)
        .filter(|owner| owner.status == FALSE && owner.reason == capi::MACHINE_DELETING)?;
    let below = find_infrastructure_cause(node).or_else(|| find_marked_cause(node.machine));
    let mut message = cause::one_line(&check.message);
    if let Some((reason, why)) = below {
        let _ = write!(message, "; WCPMachine: {reason}: {}", cause::one_line(why));
    }
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    Some(RemediatedNode {
        machine: node.name(),
        node: node.node().map(str::to_owned),
        time: time.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        reason: below.map_or(check.reason.as_str(), |(reason, _)| reason).to_owned(),
        message,
    })
}

/// Returns the reason and message of a WCPMachine that isn't ready. Ignores a WCPMachine that is being deleted, whose condition
/// only reports the deletion.
fn find_infrastructure_cause<'n>(node: &ClusterMachine<'n>) -> Option<(&'n str, &'n str)> {
    let wcp = node.wcp.filter(|wcp| wcp.metadata.deletion_timestamp.is_none())?;
    let conditions = wcp.status.as_ref()?.conditions.as_slice();
    let ready = metav1::find(conditions, READY).filter(|ready| ready.status != TRUE)?;
    Some((&ready.reason, &ready.message))
}

/// Returns the reason and message that capw wrote to the Machine when capw requested the replacement.
fn find_marked_cause(machine: &Machine) -> Option<(&str, &str)> {
    let (reason, message) = machine.annotations().get(annotation::REMEDIATE_MACHINE)?.split_once(": ")?;
    let is_reason = !reason.is_empty() && reason.chars().all(|letter| letter.is_ascii_alphanumeric());
    is_reason.then_some((reason, message))
}
