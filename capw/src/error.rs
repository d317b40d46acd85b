//! Why a reconcile of a WCPCluster or a WCPMachine did not come through.

use std::time::Duration;

use api::conditions::{contract, vmop, wcp_machine as reasons};
use api::names::annotation::DELETE_FOR_MOVE;
use kit::apply::{is_already_exists, is_conflict};
use kit::events::named;
use kit::expectations::StaleCache;
use kit::retry::REQUEUE_SOON;
use kit::{Disposition, ReconcileError};
use kube::Resource;

/// How soon a reconcile looks again at what the user may have put right and no watch reports.
const RECHECK_AFTER: Duration = Duration::from_mins(1);
/// How soon a reconcile looks again for a Secret or a claim, which no watch reports.
const UNWATCHED: Duration = Duration::from_secs(5);
/// How many names a message lists.
const LISTED: usize = 5;

/// Why a reconcile did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user must act.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Something else must happen first.
    #[error(transparent)]
    Waiting(#[from] Waiting),
    /// A cache has not seen our own last write.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The API server refused, or did not answer.
    #[error("{what}: {}", kit::api_error::message(source))]
    Api {
        /// What was tried, of which object.
        what: String,
        /// What came of it.
        source: kube::Error,
    },
}

impl Error {
    /// Says which request about which object failed.
    pub fn api<K: Resource<DynamicType = ()>>(object: &K, what: &str) -> impl FnOnce(kube::Error) -> Self {
        let what = format!("{what} {}", named(object));
        move |source| Self::Api { what, source }
    }

    /// Somebody else was quicker, or the cache is slow: the next reconcile, soon, knows more. Nothing went wrong.
    pub fn is_overtaken(&self) -> bool {
        match self {
            Self::Behind(_) => true,
            Self::Api { source, .. } => is_conflict(source) || is_already_exists(source),
            Self::Invalid(_) | Self::Waiting(_) => false,
        }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Invalid(invalid) => {
                invalid.look_again().map_or(Disposition::Invalid, |again| Disposition::Waiting(Some(again)))
            }
            Self::Waiting(waiting) => Disposition::Waiting(waiting.look_again()),
            Self::Behind(_) => Disposition::Waiting(Some(REQUEUE_SOON)),
            // Whose the namesake is shows as soon as it is read.
            Self::Api { source, .. } if is_already_exists(source) => Disposition::Waiting(Some(REQUEUE_SOON)),
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

/// What only the user can put right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidInput {
    /// Somebody else has an object of the name we need.
    #[error("{object} belongs to another owner. {advice}")]
    NameTaken {
        /// The object.
        object: String,
        /// What to do.
        advice: &'static str,
    },
    /// The parts of a running cluster are gone.
    #[error(
        "the VirtualMachineSetResourcePolicy and all WCPMachines of running Cluster {0} were deleted. They are not created again, because the cluster may have been moved to another management cluster. If the move was interrupted, the cluster runs in the other one: delete its remaining objects here as the move does, with annotation {DELETE_FOR_MOVE}. If the cluster was not moved, delete Cluster {0} and create it again"
    )]
    MovedAway(String),
    /// Two Machines were given one name for their VirtualMachine.
    #[error(
        "spec.naming.template gives Machine {machine} the name of {object}, which WCPMachine {other} already uses. Use another WCPMachineTemplate whose template gives each Machine a different name, and replace the Machine"
    )]
    VmNameTwice {
        /// The VirtualMachine.
        object: String,
        /// Name of the WCPMachine that it belongs to.
        other: String,
        /// Name of the Machine that cannot have it.
        machine: String,
    },
    /// The template makes no name for the VirtualMachine.
    #[error(
        "spec.naming.template of Machine {machine}: {template:?}: {what}. Use another WCPMachineTemplate and replace \
         the Machine"
    )]
    VmName {
        /// The template.
        template: String,
        /// Name of the Machine.
        machine: String,
        /// What is wrong.
        what: String,
    },
    /// The providerID is not one that we can give a VM.
    #[error(
        "spec.providerID {0:?} is not vsphere:// followed by a UUID. Leave it out, and capw generates one"
    )]
    ProviderId(String),
    /// The bootstrap data is not what a node of ours boots from.
    #[error("bootstrap data in Secret {secret}: {what}")]
    Bootstrap {
        /// Name of the Secret.
        secret: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// The machine's failure domain is not a zone of its namespace.
    #[error(
        "spec.failureDomain of Machine {machine}: namespace {namespace} has no zone {domain:?}. {}",
        zone_advice(.zones)
    )]
    FailureDomain {
        /// Name of the Machine.
        machine: String,
        /// The failure domain.
        domain: String,
        /// The namespace.
        namespace: String,
        /// The zones of the namespace.
        zones: Vec<String>,
    },
    /// A further disk cannot be made as it is asked for.
    #[error("spec.volumes: {volume}: {what}")]
    Volume {
        /// Name of the volume.
        volume: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
}

impl InvalidInput {
    /// The condition's reason.
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

    /// When to look again: no watch reports a bootstrap Secret or another's object.
    pub fn look_again(&self) -> Option<Duration> {
        (!matches!(self, Self::ProviderId(_) | Self::Volume { .. } | Self::VmName { .. }))
            .then_some(RECHECK_AFTER)
    }
}

/// What must happen first.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Waiting {
    /// Cluster API has not made a Cluster the owner yet.
    #[error("no Cluster owns this WCPCluster and references it in spec.infrastructureRef yet")]
    OwnerCluster,
    /// Cluster API has not made a Machine the owner yet.
    #[error("no Machine owns this WCPMachine and references it in spec.infrastructureRef yet")]
    OwnerMachine,
    /// Without the Cluster nobody knows whether work on it is paused.
    #[error("Cluster {0} does not exist")]
    Cluster(String),
    /// The cluster's network and endpoint are not there yet.
    #[error("Cluster {0} has no infrastructure yet")]
    ClusterInfrastructure(String),
    /// Cluster API has not made the bootstrap data yet.
    #[error("Machine {0} has no bootstrap data yet")]
    BootstrapData(String),
    /// The bootstrap data's Secret is not there (yet).
    #[error("Secret {0}, which contains the bootstrap data, does not exist")]
    BootstrapSecret(String),
    /// An object of a former WCPCluster or WCPMachine of this name is still there.
    #[error("{object} of a former {owner} is still being deleted")]
    Former {
        /// The object.
        object: String,
        /// Kind of its owner.
        owner: &'static str,
    },
    /// The Machine goes away before it was made.
    #[error("Machine {0} is being deleted")]
    MachineDeleted(String),
    /// The VirtualMachine is being deleted.
    #[error("{0} is being deleted")]
    VirtualMachineGone(String),
    /// Machines of the cluster are still there.
    #[error("waiting for the remaining objects of the cluster to be deleted: {}", list_names(.0))]
    MachinesGone(Vec<String>),
    /// What the machines shared is being deleted.
    #[error("being deleted: {0}")]
    ChildrenGone(String),
}

impl Waiting {
    /// The condition's reason.
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

    /// When to look again where no watch reports it.
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

/// The first of these names, and how many more there are.
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
        assert!(error(409, "Conflict").is_overtaken());
        assert!(error(409, "AlreadyExists").is_overtaken());
        assert!(!error(500, "InternalError").is_overtaken());
    }
}
