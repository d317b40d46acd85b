//! Events about the progress of a cluster, derived from the difference between two statuses.

use api::capw::vm_status;
use api::conditions::cause::Cause;
use api::conditions::{Condition, ERROR, FALSE, READY, TRUE, WARNING, find, tkc as words};
use api::gcm::parts::{RemediatedNode, node_status, phase};
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};
use kit::events::Events;

/// An event about a cluster's progress.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProgressEvent {
    /// True if the event has type Warning, false if it has type Normal.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The message for users.
    pub note: String,
}

impl ProgressEvent {
    fn reached(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: false, reason, note: note.into() }
    }

    pub fn publish(&self, events: &Events, tkc: &TanzuKubernetesCluster) {
        if self.warning {
            events.warning(tkc, self.reason, self.note.clone());
        } else {
            events.normal(tkc, self.reason, self.note.clone());
        }
    }
}

/// Returns the events for the changes from `old` to `new`. `cause` is the first cause in the new status.
pub fn list_milestones(
    old: &TanzuKubernetesClusterStatus,
    new: &TanzuKubernetesClusterStatus,
    cause: Option<&Cause>,
) -> Vec<ProgressEvent> {
    let mut milestones = Vec::new();
    // A copy whose Cluster hasn't arrived yet isn't being created.
    let arrives = find(&new.conditions, READY)
        .is_some_and(|ready| ready.reason.as_deref() == Some(words::WAITING_FOR_CLUSTER));
    if old.phase.is_none() && new.phase.as_deref() == Some(phase::CREATING) && !arrives {
        milestones.push(ProgressEvent::reached(
            "Creating",
            "the Cluster API objects of the cluster are being created",
        ));
    }
    if old.api_endpoints.is_empty()
        && let Some(endpoint) = new.api_endpoints.first()
    {
        let note = format!("the API server will answer at {}:{}", endpoint.host, endpoint.port);
        milestones.push(ProgressEvent::reached("EndpointAssigned", note));
    }
    milestones.extend(virtual_machines(old, new));
    milestones.extend(control_plane(old, new));
    milestones.extend(nodes(old, new));
    milestones.extend(remediations(old, new));
    milestones.extend(phases(old, new));
    milestones.extend(failures(old, new, cause));
    milestones
}

/// Returns events for a new cluster's first VM: one when it is created, one when it is powered on, and one when it gets an
/// address.
fn virtual_machines(
    old: &TanzuKubernetesClusterStatus,
    new: &TanzuKubernetesClusterStatus,
) -> Vec<ProgressEvent> {
    const STEPS: [(&str, &str, &str); 3] = [
        (vm_status::CREATED, "FirstVMCreated", "is created"),
        (vm_status::POWERED_ON, "FirstVMPoweredOn", "is powered on"),
        (vm_status::READY, "FirstVMReady", "has an address"),
    ];
    let rank = |status: &str| STEPS.iter().position(|(step, ..)| *step == status);
    let furthest = |status: &TanzuKubernetesClusterStatus| {
        let all = status
            .vm_status
            .iter()
            .filter_map(|(name, status)| rank(status).map(|rank| (rank, name.clone())));
        all.max_by_key(|(rank, _)| *rank)
    };
    let begun = furthest(old).map_or(0, |(rank, _)| rank + 1);
    let Some((reached, name)) = furthest(new) else { return Vec::new() };
    // VM changes in a cluster that has run before are not milestones.
    if old.phase.as_deref().is_some_and(|phase| phase != phase::CREATING) {
        return Vec::new();
    }
    STEPS
        .iter()
        .take(reached + 1)
        .skip(begun)
        .map(|(_, reason, what)| {
            ProgressEvent::reached(reason, format!("virtual machine of Machine {name} {what}"))
        })
        .collect()
}

fn control_plane(
    old: &TanzuKubernetesClusterStatus,
    new: &TanzuKubernetesClusterStatus,
) -> Option<ProgressEvent> {
    let waits = |status: &TanzuKubernetesClusterStatus| {
        let condition = find(&status.conditions, words::CONTROL_PLANE_READY);
        condition.is_none_or(|condition| {
            matches!(
                condition.reason.as_deref(),
                Some(
                    words::WAITING_FOR_CLUSTER_INFRASTRUCTURE | words::WAITING_FOR_CONTROL_PLANE_INITIALIZED
                )
            )
        })
    };
    (!old.conditions.is_empty() && waits(old) && !waits(new))
        .then(|| ProgressEvent::reached("ControlPlaneInitialized", "the API server of the cluster answers"))
}

fn nodes(old: &TanzuKubernetesClusterStatus, new: &TanzuKubernetesClusterStatus) -> Vec<ProgressEvent> {
    let mut milestones = Vec::new();
    for (name, status) in &new.node_status {
        let before = old.node_status.get(name).map(String::as_str);
        if before == Some(status) {
            continue;
        }
        if status == node_status::READY {
            milestones.push(ProgressEvent::reached("NodeReady", format!("node of Machine {name} is ready")));
        } else if before == Some(node_status::READY) {
            let note = format!("node of Machine {name} is {status}");
            milestones.push(ProgressEvent { warning: true, reason: "NodeNotReady", note });
        }
    }
    milestones
}

fn remediations(
    old: &TanzuKubernetesClusterStatus,
    new: &TanzuKubernetesClusterStatus,
) -> Vec<ProgressEvent> {
    let is_new =
        |node: &&RemediatedNode| !old.remediated_nodes.iter().any(|before| before.machine == node.machine);
    let remediated = |node: &RemediatedNode| {
        let note = format!("Machine {} is replaced: {}: {}", node.machine, node.reason, node.message);
        ProgressEvent { warning: true, reason: "NodeRemediated", note }
    };
    new.remediated_nodes.iter().filter(is_new).map(remediated).collect()
}

fn phases(old: &TanzuKubernetesClusterStatus, new: &TanzuKubernetesClusterStatus) -> Option<ProgressEvent> {
    if old.phase == new.phase {
        return None;
    }
    match new.phase.as_deref()? {
        phase::RUNNING => Some(ProgressEvent::reached("Running", "the cluster runs as its spec requests")),
        phase::UPDATING => {
            Some(ProgressEvent::reached("Updating", "machines are being added, replaced or removed"))
        }
        phase::UPDATE_FAILED => Some(ProgressEvent {
            warning: true,
            reason: "UpdateFailed",
            note: "the update is stopped; it resumes when its cause is resolved".to_owned(),
        }),
        phase::DELETING => Some(ProgressEvent::reached("Deleting", "the cluster is being deleted")),
        _ => None,
    }
}

/// Returns an event if the first cause is a failure that wasn't reported before.
///
/// A message may begin with numbers, such as the number of ready nodes, and ends with the cause. If only the numbers changed,
/// returns `None`.
fn failures(
    old: &TanzuKubernetesClusterStatus,
    new: &TanzuKubernetesClusterStatus,
    cause: Option<&Cause>,
) -> Option<ProgressEvent> {
    let condition = find(&new.conditions, READY)?;
    let is_failure = |condition: &Condition| {
        condition.status == FALSE && matches!(condition.severity.as_deref(), Some(ERROR | WARNING))
    };
    let before = find(&old.conditions, READY).filter(|before| before.status != TRUE && is_failure(before));
    let names_cause = |message: &str| cause.is_some_and(|cause| message.ends_with(&cause.to_string()));
    let same = |before: &Condition| {
        before.reason == condition.reason
            && (before.message == condition.message || before.message.as_deref().is_some_and(names_cause))
    };
    if !is_failure(condition) || before.is_some_and(same) {
        return None;
    }
    let note = condition.message.clone().unwrap_or_default();
    Some(ProgressEvent { warning: true, reason: "Blocked", note })
}
