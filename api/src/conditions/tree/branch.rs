//! An object in the tree, and what its conditions say.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::super::cause::{Cause, severity};
use super::super::severity::Severity;
use super::super::{Condition, FALSE, READY, TRUE, UNKNOWN, capi, tkc};
use crate::capw::vm_status;
use crate::names::{finalizer, label};

/// The kind of a branch that describes an add-on.
pub const ADD_ON: &str = "Add-on";

pub(super) const CLUSTER: &str = "Cluster";
pub(super) const CONTROL_PLANE: &str = "KubeadmControlPlane";
pub(super) const MACHINE: &str = "Machine";
pub(super) const MACHINE_DEPLOYMENT: &str = "MachineDeployment";
pub(super) const WCP_MACHINE: &str = "WCPMachine";

/// Cluster API's core kinds. Their conditions show what they wait for, but not the cause.
pub(super) const UPSTREAM: [&str; 5] = [CLUSTER, CONTROL_PLANE, MACHINE_DEPLOYMENT, "MachineSet", MACHINE];

/// Condition types that are False on healthy objects.
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

/// A borrowed condition of any format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionView<'a> {
    /// The condition type.
    pub type_: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// The reason, or an empty string.
    pub reason: &'a str,
    /// The message, or an empty string.
    pub message: &'a str,
    /// The severity, in conditions of Cluster API v1beta1.
    pub severity: Option<&'a str>,
}

impl<'a> From<&'a meta::Condition> for ConditionView<'a> {
    fn from(condition: &'a meta::Condition) -> Self {
        let meta::Condition { type_, status, reason, message, .. } = condition;
        Self { type_, status, reason, message, severity: None }
    }
}

impl<'a> From<&'a Condition> for ConditionView<'a> {
    fn from(condition: &'a Condition) -> Self {
        Self {
            type_: &condition.type_,
            status: &condition.status,
            reason: condition.reason.as_deref().unwrap_or_default(),
            message: condition.message.as_deref().unwrap_or_default(),
            severity: condition.severity.as_deref(),
        }
    }
}

/// An object, with the objects below it in the order in which a cluster comes up.
#[derive(Clone, Debug, Default)]
pub struct Branch<'a> {
    /// The kind, such as `Machine`.
    pub kind: &'a str,
    /// The namespace, or an empty string for an add-on.
    pub namespace: &'a str,
    /// The name of the object or add-on.
    pub name: &'a str,
    /// The name of the cluster in Cluster API's label.
    pub cluster: Option<&'a str>,
    /// The conditions in the order of the status.
    pub conditions: Vec<ConditionView<'a>>,
    /// The readiness of an object whose kind doesn't have conditions.
    pub ready: Option<bool>,
    /// The cause, if the builder of the tree knows it.
    pub cause: Option<Cause>,
    /// True if the object has a deletion timestamp.
    pub is_deleting: bool,
    /// The remaining finalizers of an object that is being deleted, if they are all foreign.
    pub held_by: Option<String>,
    /// True for a placeholder of an object that the user isn't allowed to read. It is never a suspect.
    pub is_unread: bool,
    /// Facts about a Machine that its conditions don't contain.
    pub machine: MachineFacts<'a>,
    /// A WCPMachine's `status.vmstatus`.
    pub vm_status: &'a str,
    /// The objects below this object.
    pub children: Vec<Self>,
}

/// Facts about a Machine that its conditions don't contain.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts<'a> {
    /// True if the Machine's node has joined.
    pub has_node: bool,
    /// The virtual machine's address.
    pub address: Option<&'a str>,
    /// The URL of the cluster's API server, if the API server hasn't responded yet.
    pub endpoint: Option<String>,
}

/// The readiness that follows from an object's conditions.
#[derive(Clone, Copy, Debug)]
pub struct Readiness<'a> {
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// The condition that contains the reason.
    pub found: Option<ConditionView<'a>>,
}

impl<'a> Branch<'a> {
    /// Creates a branch without children from an object's metadata and conditions.
    pub fn new<C: Into<ConditionView<'a>>>(
        kind: &'a str,
        metadata: &'a meta::ObjectMeta,
        conditions: impl IntoIterator<Item = C>,
    ) -> Self {
        let labels = metadata.labels.as_ref();
        Self {
            kind,
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
            cluster: labels.and_then(|labels| labels.get(label::CLUSTER_NAME)).map(String::as_str),
            conditions: conditions.into_iter().map(Into::into).collect(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            held_by: finalizer::strangers(metadata),
            ..Self::default()
        }
    }

    /// Returns the readiness that the object reports.
    pub fn readiness(&self) -> Readiness<'a> {
        let summary = self.condition(READY).or_else(|| self.condition(capi::AVAILABLE));
        let explains = |found: &&ConditionView<'_>| {
            found.status == FALSE
                && !ABOUT_CHANGE.contains(&found.type_)
                && !tkc::LIMITS.contains(&found.reason)
        };
        let bad = || self.conditions.iter().find(explains).copied();
        let found = match summary {
            // A specific condition gives the reason if the summary doesn't.
            Some(summary) if summary.status != TRUE && summary.message.is_empty() => bad().or(Some(summary)),
            Some(summary) => Some(summary),
            None => bad(),
        };
        let without = || self.ready.map(|ready| if ready { TRUE } else { FALSE });
        let status = summary.or(found).map(|condition| condition.status).or_else(without);
        Readiness { status: status.unwrap_or(UNKNOWN), found }
    }

    /// Returns true if the object reports that it is ready.
    pub fn is_ready(&self) -> bool {
        self.readiness().status == TRUE
    }

    pub(super) fn condition(&self, type_: &str) -> Option<ConditionView<'a>> {
        self.conditions.iter().find(|condition| condition.type_ == type_).copied()
    }

    /// Returns the condition with this type if it exists and isn't `True`.
    pub(super) fn unmet(&self, type_: &str) -> Option<ConditionView<'a>> {
        self.condition(type_).filter(|condition| condition.status != TRUE)
    }

    /// Returns the condition with this type if it is `True`.
    pub(super) fn met(&self, type_: &str) -> Option<ConditionView<'a>> {
        self.condition(type_).filter(|condition| condition.status == TRUE)
    }

    /// Returns the cause that a condition of this object shows.
    pub(super) fn cause_of(&self, found: &ConditionView<'_>) -> Cause {
        let ConditionView { type_, status, reason, message, severity: own } = *found;
        let severity = if UPSTREAM.contains(&self.kind) {
            capi::severity(type_, status, reason)
        } else if self.has_failed() {
            Severity::Error
        } else {
            severity(status, reason, own)
        };
        Cause { object: self.to_string(), reason: reason.to_owned(), message: message.to_owned(), severity }
    }

    /// Returns true for a WCPMachine whose virtual machine can't be created, whatever its reason is.
    fn has_failed(&self) -> bool {
        self.kind == WCP_MACHINE && self.vm_status == vm_status::ERROR
    }

    /// Returns true if the tree contains a node that joined and reports that it isn't ready.
    pub(super) fn has_failing_node(&self) -> bool {
        let is_failing = self.machine.has_node
            && !self.is_deleting
            && self.condition(capi::NODE_READY).is_some_and(|ready| ready.status == FALSE);
        is_failing || self.children.iter().any(Self::has_failing_node)
    }
}

/// Formats the object as `Kind name`.
impl fmt::Display for Branch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
