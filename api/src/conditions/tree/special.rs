//! The suspected cause of each object, with the special cases of its kind: causes that its readiness doesn't show.

use super::super::cause::{Cause, severity};
use super::super::severity::Severity;
use super::super::{FALSE, READY, TRUE, capi, tkc, vcenter, vmop, wcp_cluster, wcp_machine};
use super::branch::{
    Branch, CLUSTER, CONTROL_PLANE, ConditionView, MACHINE, MACHINE_DEPLOYMENT, Readiness, UPSTREAM,
    WCP_MACHINE,
};

/// The reason for objects whose controller hasn't reported a status.
pub const NOT_REPORTED: &str = "NotReported";

/// The suspected cause of an object that isn't ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The cause, with `Kind name` as its object.
    pub cause: Cause,
    /// True if the object reports the cause itself. False if it only repeats the cause of an object below it.
    pub own: bool,
}

/// Returns the suspected cause if the object isn't ready, or if it can't be deleted. `parent` is the object above it.
pub fn suspicion(branch: &Branch<'_>, parent: Option<&Branch<'_>>) -> Option<Suspicion> {
    if branch.is_unread {
        return None;
    }
    let known = branch.cause.clone().map(own);
    known.or_else(|| special(branch, parent)).or_else(|| unready(branch))
}

/// Returns the cause that the object's readiness shows.
fn unready(branch: &Branch<'_>) -> Option<Suspicion> {
    let Readiness { status, found } = branch.readiness();
    if status == TRUE {
        return None;
    }
    let Some(found) = found else {
        let severity = if UPSTREAM.contains(&branch.kind) { Severity::Waiting } else { Severity::Info };
        let message = "its controller has not reported its status yet".to_owned();
        let (object, reason) = (branch.to_string(), NOT_REPORTED.to_owned());
        return Some(repeated(Cause { object, reason, message, severity }));
    };
    Some(Suspicion { cause: branch.cause_of(&found), own: is_own_reason(branch.kind, found.reason) })
}

/// Returns a cause that the object's readiness doesn't show, or `None` if there isn't one.
fn special(branch: &Branch<'_>, parent: Option<&Branch<'_>>) -> Option<Suspicion> {
    if branch.held_by.is_some() {
        return held(branch);
    }
    match branch.kind {
        MACHINE if branch.is_deleting => deletion_stage(branch),
        _ if branch.is_deleting => None,
        CLUSTER => unreconciled_topology(branch),
        CONTROL_PLANE => lost_authorities(branch).or_else(|| scaling(branch)),
        MACHINE_DEPLOYMENT => scaling(branch),
        MACHINE => unready_machine(branch),
        WCP_MACHINE => outage(branch, parent),
        _ => None,
    }
}

/// Returns true for reasons that the kind reports itself, although objects below it may not be ready either.
fn is_own_reason(kind: &str, reason: &str) -> bool {
    match kind {
        "TanzuKubernetesCluster" => [tkc::INVALID, tkc::RECONCILE_FAILED].contains(&reason),
        "WCPCluster" => wcp_cluster::severity(reason).is_some_and(Severity::is_failing),
        // The VirtualMachine doesn't know if its guest becomes a node, so only the WCPMachine reports these causes.
        WCP_MACHINE => [
            vmop::BOOTSTRAP_FAILED,
            vmop::BOOTSTRAP_IN_PROGRESS,
            vmop::NO_BOOTSTRAP_STATUS,
            wcp_machine::NODE_NOT_REACHED,
        ]
        .contains(&reason),
        _ => false,
    }
}

fn own(cause: Cause) -> Suspicion {
    Suspicion { cause, own: true }
}

fn repeated(cause: Cause) -> Suspicion {
    Suspicion { cause, own: false }
}

/// Returns a cause that names the foreign finalizers that hold a deleted object.
fn held(branch: &Branch<'_>) -> Option<Suspicion> {
    let finalizers = branch.held_by.as_ref()?;
    if branch.kind == "VirtualMachine" {
        // The VM operator reports the finalizers, and that the VM is gone.
        return None;
    }
    let message = format!(
        "deletion is blocked by finalizer {finalizers}, which neither Layercake nor Cluster API owns. Its owner must remove it"
    );
    let (object, reason) = (branch.to_string(), tkc::DELETION_HELD.to_owned());
    Some(own(Cause { object, reason, message, severity: Severity::Warning }))
}

/// Returns the stage of a Machine's deletion, such as the Pods that a drain waits for.
fn deletion_stage(machine: &Branch<'_>) -> Option<Suspicion> {
    machine.met(capi::DELETING).map(|deleting| repeated(machine.cause_of(&deleting)))
}

/// Returns the cause if a Cluster's topology can't be reconciled, for example without its ClusterClass.
fn unreconciled_topology(cluster: &Branch<'_>) -> Option<Suspicion> {
    let cause = cluster.cause_of(&cluster.condition(capi::TOPOLOGY_RECONCILED)?);
    cause.is_failing().then(|| own(cause))
}

/// The Secrets that contain a cluster's certificate authorities and service account keys, by name suffix, and the matching
/// files on control plane nodes.
const AUTHORITIES: [(&str, &str); 4] = [
    ("ca", "ca.crt and ca.key"),
    ("etcd", "etcd/ca.crt and etcd/ca.key"),
    ("proxy", "front-proxy-ca.crt and front-proxy-ca.key"),
    ("sa", "sa.pub and sa.key"),
];

/// Returns the cause if a running cluster has lost a Secret with certificate authorities or service account keys. Cluster
/// API doesn't create such a Secret again, because nodes trust the lost certificates and keys.
fn lost_authorities(control_plane: &Branch<'_>) -> Option<Suspicion> {
    let lost = control_plane.condition(capi::CERTIFICATES_AVAILABLE).filter(|found| found.status == FALSE)?;
    let cluster = control_plane.cluster?;
    let words: Vec<_> = lost.message.split([' ', ',']).collect();
    let named = AUTHORITIES.iter().filter(|(purpose, _)| words.contains(purpose));
    let restored: Vec<_> =
        named.map(|(purpose, files)| format!("Secret {cluster}-{purpose} from {files}")).collect();
    if restored.is_empty() {
        return None;
    }
    let message = format!(
        "{}. Restore {}, which are in /etc/kubernetes/pki of a control plane node, as tls.crt and tls.key",
        lost.message,
        restored.join(", ")
    );
    Some(own(Cause { message, severity: Severity::Warning, ..control_plane.cause_of(&lost) }))
}

/// Returns the reason why Machines are missing. It says more than the availability of their owner, which may be available
/// already.
fn scaling(owner: &Branch<'_>) -> Option<Suspicion> {
    let scaling = owner.met(capi::SCALING_UP).filter(|scaling| !scaling.message.is_empty())?;
    Some(repeated(owner.cause_of(&scaling)))
}

/// Returns the cause if a Machine isn't ready and the objects below it don't show why.
fn unready_machine(machine: &Branch<'_>) -> Option<Suspicion> {
    if machine.is_ready() {
        return None;
    }
    let suspicion = |found: ConditionView<'_>| {
        let cause = machine.cause_of(&found);
        Suspicion { own: cause.is_failing(), cause }
    };
    if machine.machine.has_node {
        let health = [capi::NODE_READY, capi::NODE_HEALTHY, READY];
        return health.into_iter().find_map(|type_| machine.unmet(type_)).map(suspicion);
    }
    let below = machine.children.iter().find(|child| child.kind == WCP_MACHINE);
    if below.map_or_else(|| machine.met(capi::INFRASTRUCTURE_READY).is_some(), Branch::is_ready) {
        return Some(own(not_joined(machine)));
    }
    let infrastructure = machine.unmet(capi::INFRASTRUCTURE_READY).map(suspicion);
    if infrastructure.as_ref().is_some_and(|infrastructure| infrastructure.own) {
        return infrastructure;
    }
    bootstrap(machine, below).or(infrastructure)
}

/// Returns the cause if a Machine waits for its bootstrap data. Unless the data can't be created, other causes in the
/// WCPMachine come first, because the infrastructure is needed before the bootstrap data.
fn bootstrap(machine: &Branch<'_>, below: Option<&Branch<'_>>) -> Option<Suspicion> {
    let cause = machine.cause_of(&machine.unmet(capi::BOOTSTRAP_CONFIG_READY)?);
    let waits = |below: &Branch<'_>| {
        below.unmet(READY).is_some_and(|ready| ready.reason == wcp_machine::WAITING_FOR_BOOTSTRAP_DATA)
    };
    (cause.is_failing() || below.is_none_or(waits)).then(|| own(cause))
}

/// Returns the cause for a Machine whose virtual machine is running but doesn't have a Node. Only the guest's log contains
/// the reason, unless the management cluster can't reach the endpoint, at which the API server must respond first.
fn not_joined(machine: &Branch<'_>) -> Cause {
    let facts = &machine.machine;
    let place = facts.address.map_or_else(String::new, |address| format!(" at {address}"));
    let reach = facts.endpoint.as_ref().map_or_else(String::new, |endpoint| {
        format!("check that the management cluster can reach the endpoint {endpoint}, and ")
    });
    let message = format!(
        "the virtual machine is running{place}, but its node has not joined yet. If this persists, {reach}read /var/log/cloud-init-output.log in the guest"
    );
    let (object, reason) = (machine.to_string(), tkc::WAITING_FOR_NODE);
    Cause { object, reason: reason.to_owned(), message, severity: severity(FALSE, reason, None) }
}

/// Returns the cause if the node above isn't ready because vCenter doesn't reach its VM. The WCPMachine stays ready during
/// such an outage, and its message contains the reason.
fn outage(wcp_machine: &Branch<'_>, parent: Option<&Branch<'_>>) -> Option<Suspicion> {
    let ready = wcp_machine.met(READY).filter(|ready| !ready.message.is_empty())?;
    parent.filter(|machine| machine.machine.has_node && !machine.is_ready())?;
    Some(own(Cause {
        object: wcp_machine.to_string(),
        reason: vcenter::UNREACHABLE.to_owned(),
        message: ready.message.to_owned(),
        severity: Severity::Warning,
    }))
}
