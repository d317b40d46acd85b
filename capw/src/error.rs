//! Errors of WCPCluster and WCPMachine reconciles.

use std::time::Duration;

use api::conditions::{contract, vmop, wcp_machine as reasons};
use api::names::annotation::DELETE_FOR_MOVE;
use kit::apply::is_already_exists;
use kit::events::describe_object;
use kit::expectations::StaleCache;
use kit::{Disposition, ReconcileError};
use kube::Resource;

/// The retry delay for problems whose correction a watch doesn't report.
const RECHECK_AFTER: Duration = Duration::from_mins(1);
/// The retry delay while a reconcile waits for objects that aren't watched, such as Secrets.
const UNWATCHED: Duration = Duration::from_secs(5);
/// The maximum number of names in a message.
const LISTED: usize = 5;

/// The reasons why a reconcile fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    #[error(transparent)]
    Waiting(#[from] Waiting),
    /// The cache doesn't contain capw's last write yet.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The API server rejected a request or didn't respond.
    #[error("{what}: {}", kit::api_error::message(source))]
    Api {
        /// The request and the object that it concerns.
        what: String,
        source: kube::Error,
    },
}

impl Error {
    /// Returns a function that adds a description of the request to an API error. `what` is the start of the description, such as
    /// `deleting`, and `object` completes it.
    pub fn api<K: Resource<DynamicType = ()>>(object: &K, what: &str) -> impl FnOnce(kube::Error) -> Self {
        let what = format!("{what} {}", describe_object(object));
        move |source| Self::Api { what, source }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Invalid(invalid) => {
                invalid.look_again().map_or(Disposition::Invalid, |again| Disposition::Waiting(Some(again)))
            }
            Self::Waiting(waiting) => Disposition::Waiting(waiting.look_again()),
            Self::Behind(_) => Disposition::Overtaken,
            // Once the cache contains the existing object, the plan checks its owner.
            Self::Api { source, .. } if is_already_exists(source) => Disposition::Overtaken,
            Self::Api { source, .. } => Disposition::from_api_error(source),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) => "Waiting",
            Self::Behind(_) => "Behind",
            Self::Api { .. } => "Api",
        }
    }
}

/// Errors that the user must correct.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidInput {
    /// Another owner's object already has a name that the WCPCluster or WCPMachine needs.
    #[error("{object} belongs to another owner. {advice}")]
    NameTaken {
        object: String,
        /// The remedy, as a sentence without a final period.
        advice: &'static str,
    },
    /// The resource policy and all WCPMachines of a running cluster were deleted.
    #[error(
        "the VirtualMachineSetResourcePolicy and all WCPMachines of running Cluster {0} were deleted. They are not created again, because the cluster may have been moved to another management cluster. If the move was interrupted, the cluster runs in the other one: delete its remaining objects here as the move does, with annotation {DELETE_FOR_MOVE}. If the cluster was not moved, delete Cluster {0} and create it again"
    )]
    MovedAway(String),
    /// The naming template generates a VirtualMachine name that another Machine already uses.
    #[error(
        "spec.naming.template gives Machine {machine} the name of {object}, which WCPMachine {other} already uses. Use another WCPMachineTemplate whose template gives each Machine a different name, and replace the Machine"
    )]
    VmNameTwice {
        object: String,
        /// The name of the WCPMachine that owns the VirtualMachine.
        other: String,
        /// The name of the Machine whose WCPMachine can't use the name.
        machine: String,
    },
    /// The naming template doesn't produce a valid VirtualMachine name.
    #[error(
        "spec.naming.template of Machine {machine}: {template:?}: {what}. Use another WCPMachineTemplate and replace \
         the Machine"
    )]
    VmName {
        template: String,
        machine: String,
        /// The problem with the template or the name.
        what: String,
    },
    /// The providerID doesn't contain a UUID.
    #[error(
        "spec.providerID {0:?} is not vsphere:// followed by a UUID. Leave it out, and capw generates one"
    )]
    ProviderId(String),
    /// A node can't boot from the bootstrap data.
    #[error("bootstrap data in Secret {secret}: {what}")]
    Bootstrap {
        secret: String,
        /// The problem and the remedy.
        what: String,
    },
    /// The Machine's failure domain isn't a zone of its namespace.
    #[error(
        "spec.failureDomain of Machine {machine}: namespace {namespace} has no zone {domain:?}. {}",
        zone_advice(.zones)
    )]
    FailureDomain {
        machine: String,
        domain: String,
        namespace: String,
        /// The zones that the Machine can use instead.
        zones: Vec<String>,
    },
    /// The configuration of an additional disk is invalid.
    #[error("spec.volumes: {volume}: {what}")]
    Volume {
        volume: String,
        /// The problem and the remedy.
        what: String,
    },
}

impl InvalidInput {
    /// Returns the reason for the condition that reports this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NameTaken { .. } | Self::VmNameTwice { .. } => contract::NAME_TAKEN,
            Self::MovedAway(_) => contract::MOVED_AWAY,
            Self::VmName { .. } => reasons::VM_NAME_INVALID,
            Self::ProviderId(_) => contract::PROVIDER_ID_INVALID,
            Self::Bootstrap { .. } => contract::BOOTSTRAP_DATA_INVALID,
            Self::FailureDomain { .. } => vmop::ZONE_MISMATCH,
            Self::Volume { .. } => reasons::VM_CREATION_FAILED,
        }
    }

    /// Returns the retry delay for a correction that watches don't report, such as a change to a bootstrap Secret. Returns `None`
    /// if a watch reports the correction.
    pub fn look_again(&self) -> Option<Duration> {
        (!matches!(self, Self::ProviderId(_) | Self::Volume { .. } | Self::VmName { .. }))
            .then_some(RECHECK_AFTER)
    }
}

/// Conditions that a reconcile waits for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Waiting {
    /// Cluster API hasn't set the owner reference to the Cluster yet.
    #[error("no Cluster owns this WCPCluster and references it in spec.infrastructureRef yet")]
    OwnerCluster,
    /// Cluster API hasn't set the owner reference to the Machine yet.
    #[error("no Machine owns this WCPMachine and references it in spec.infrastructureRef yet")]
    OwnerMachine,
    /// The Cluster doesn't exist, so it is unknown if the cluster is paused.
    #[error("Cluster {0} does not exist")]
    Cluster(String),
    /// The cluster's network and endpoint aren't ready yet.
    #[error("Cluster {0} has no infrastructure yet")]
    ClusterInfrastructure(String),
    /// The Machine doesn't name a bootstrap Secret yet.
    #[error("Machine {0} has no bootstrap data yet")]
    BootstrapData(String),
    /// The bootstrap Secret doesn't exist.
    #[error("Secret {0}, which contains the bootstrap data, does not exist")]
    BootstrapSecret(String),
    /// An object of a deleted WCPCluster or WCPMachine with the same name still exists.
    #[error("{object} of a former {owner} is still being deleted")]
    Former {
        object: String,
        /// The owner's kind.
        owner: &'static str,
    },
    /// The Machine is being deleted, and its VirtualMachine was never created.
    #[error("Machine {0} is being deleted")]
    MachineDeleted(String),
    #[error("{0} is being deleted")]
    VirtualMachineGone(String),
    /// The cluster is being deleted, but some of its machines still exist.
    #[error("waiting for the remaining objects of the cluster to be deleted: {}", list_names(.0))]
    MachinesGone(Vec<String>),
    /// The objects that all machines of the cluster shared are being deleted.
    #[error("being deleted: {0}")]
    ChildrenGone(String),
}

impl Waiting {
    /// Returns the reason for the condition that reports this wait.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OwnerCluster => contract::WAITING_FOR_OWNER_CLUSTER,
            Self::OwnerMachine => reasons::WAITING_FOR_OWNER_MACHINE,
            Self::Cluster(_) | Self::ClusterInfrastructure(_) => {
                contract::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY
            }
            Self::BootstrapData(_) | Self::BootstrapSecret(_) => reasons::WAITING_FOR_BOOTSTRAP_DATA,
            Self::Former { .. } => contract::WAITING_FOR_FORMER_OBJECT,
            Self::MachineDeleted(_)
            | Self::VirtualMachineGone(_)
            | Self::MachinesGone(_)
            | Self::ChildrenGone(_) => contract::DELETING,
        }
    }

    /// Returns the retry delay, or `None` if a watch reports the change that the reconcile waits for.
    pub fn look_again(&self) -> Option<Duration> {
        matches!(self, Self::BootstrapSecret(_) | Self::Former { .. }).then_some(UNWATCHED)
    }
}

/// Returns the remedy for a failure domain that does not exist.
fn zone_advice(zones: &[String]) -> String {
    if zones.is_empty() {
        return "It has no zones: leave failureDomain out of the node pool".to_owned();
    }
    format!("Set failureDomain of the node pool to one of {}, or leave it out", list_names(zones))
}

/// Joins the first [`LISTED`] names with commas, and adds the number of remaining names.
fn list_names(names: &[String]) -> String {
    let first = names.get(..LISTED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_race_is_no_failure() {
        let error = |code, reason: &str| Error::Api {
            what: "applying it".into(),
            source: kube::Error::Api(Box::new(kube::core::Status::failure("m", reason).with_code(code))),
        };
        assert_eq!(error(409, "Conflict").disposition(), Disposition::Overtaken);
        assert_eq!(error(409, "AlreadyExists").disposition(), Disposition::Overtaken);
        assert_eq!(error(500, "InternalError").disposition(), Disposition::Failed);
    }
}
