//! Why a reconcile of a VirtualMachine did not come through.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{ERROR, INFO, WARNING, vmop as known};
use kit::expectations::StaleCache;
use kit::retry::REQUEUE_SOON;
use kit::{Disposition, ReconcileError};
use vsphere::Vm;

use crate::unmet::Unmet;
use crate::vcenter::{Problem, describe_unavailable};

/// What nobody watches is looked at again after this.
const UNWATCHED: Duration = Duration::from_secs(30);
/// What vCenter still works on is looked at again after this, if no change in vCenter comes before.
pub const UNSETTLED: Duration = Duration::from_secs(15);

/// The reason of what vCenter does not reach.
pub const UNREACHABLE: &str = "Unreachable";

/// Something of the VirtualMachine's that belongs to another VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it is, such as `Instance UUID 4237…`.
    pub what: String,
    /// The other VM, in words; `None` where it is none of this namespace's.
    pub holder: Option<String>,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, holder } = self;
        match holder {
            Some(holder) => {
                write!(
                    f,
                    "{what} belongs to the VM {holder}. Use another for this VirtualMachine, or remove that VM"
                )
            }
            None => write!(
                f,
                "{what} belongs to another VM. Use a different one for this VirtualMachine, or ask the vSphere administrator, who finds the other VM in VM Operator's log"
            ),
        }
    }
}

/// Why nothing can be done before something changes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Blocked {
    /// The spec is wrong; nothing helps but a change.
    #[error("{0}")]
    Spec(String),
    /// Something is missing.
    #[error("{}", .0.message)]
    Unmet(Unmet),
    /// vCenter can't be used now.
    #[error("{0}")]
    Provider(Problem),
    /// An identity that somebody else has.
    #[error("{0}")]
    Claimed(Claim),
    /// The VM existed, and was destroyed or removed in vCenter; the message says how.
    #[error("{0}")]
    Lost(String),
    /// vCenter does not reach the VM, so that nothing is known of it for sure.
    #[error("{}", describe_unavailable(.0))]
    Unavailable(Arc<Vm>),
    /// Somebody asked for it not to be done yet.
    #[error("{0}")]
    Held(String),
    /// The VM, by its MoID, was moved to where it is not watched.
    #[error("The VM {0} was moved out of its folder in vCenter. Move it back")]
    Moved(String),
}

/// Why a reconcile did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can be done before something changes.
    #[error("{0}")]
    Blocked(#[from] Blocked),
    /// vCenter refused a call, or did not answer it.
    #[error("{0}")]
    Vcenter(#[from] vsphere::Error),
    /// vCenter could not clone this template.
    #[error("{0}")]
    Clone(vsphere::Error, String),
    /// What vCenter was asked to do has not ended yet.
    #[error("{0}")]
    Unsettled(String),
    /// The guest was asked, and takes its time; after that long it is looked at again.
    #[error("{0}")]
    Guest(String, Option<Duration>),
    /// The VM goes, and load balancers are to learn of it first; after that long it is looked at again.
    #[error(
        "Waiting for load balancers to move the connections to other VMs of the service before the VM is powered off"
    )]
    Draining(Duration),
    /// The cache is older than our own last write.
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    /// The API server refused a call, or did not answer it.
    #[error("API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl Error {
    /// The condition's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Blocked(Blocked::Spec(_)) => known::INVALID_SPEC,
            Self::Blocked(Blocked::Unmet(unmet)) => unmet.reason,
            Self::Blocked(Blocked::Provider(_)) => known::PROVIDER_NOT_READY,
            Self::Blocked(Blocked::Claimed(_)) => known::IDENTITY_CONFLICT,
            Self::Blocked(Blocked::Lost(_)) => known::VIRTUAL_MACHINE_LOST,
            Self::Blocked(Blocked::Moved(_)) => known::FOLDER_MISMATCH,
            Self::Blocked(Blocked::Unavailable(_)) => UNREACHABLE,
            Self::Blocked(Blocked::Held(_)) => known::HELD_BACK,
            Self::Guest(..) => known::WAITING_FOR_GUEST,
            Self::Draining(_) => "Draining",
            Self::Vcenter(error) | Self::Clone(error, _) => error.category(),
            Self::Unsettled(_) => known::WAITING_FOR_VCENTER,
            Self::StaleCache(_) | Self::Api(_) => known::API_SERVER,
        }
    }

    /// Returns the severity of a condition with this error: only what needs somebody's action, or fails, is worth a warning.
    pub fn severity(&self) -> &'static str {
        match self {
            Self::Blocked(Blocked::Unmet(unmet)) if unmet.underway => INFO,
            Self::Unsettled(_) => INFO,
            Self::Vcenter(error) if error.retryable() => WARNING,
            _ => ERROR,
        }
    }

    /// What happened, and what to do about it.
    pub fn advised(&self) -> String {
        match self {
            Self::Vcenter(error) => format!("{error}. {}", error.advice()),
            Self::Clone(error, template) => format!(
                "{error}. The VM is a clone of template {template}. Check in vCenter that the template's disk exists. If it does not, remove the template: VM Operator deploys it again"
            ),
            other => other.to_string(),
        }
    }

    /// Whether it is worth a condition: what is only tried again, or over in a moment, is not.
    pub fn concerns_status(&self) -> bool {
        match self {
            Self::StaleCache(_) | Self::Api(_) => false,
            Self::Blocked(Blocked::Provider(problem)) => !problem.is_transient(),
            Self::Blocked(_)
            | Self::Vcenter(_)
            | Self::Clone(..)
            | Self::Unsettled(_)
            | Self::Guest(..)
            | Self::Draining(_) => true,
        }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Blocked(Blocked::Unmet(unmet)) => {
                Disposition::Waiting(unmet.unwatched.then_some(UNWATCHED))
            }
            // The return of vCenter enqueues all objects; a call that failed is made again.
            Self::Blocked(Blocked::Provider(problem)) => {
                Disposition::Waiting(problem.is_unwatched().then_some(UNSETTLED))
            }
            // Whether it is the object's at all may show only when another's is known to be that VM; and nobody tells when
            // one is destroyed where it was moved to.
            Self::Blocked(Blocked::Unavailable(_) | Blocked::Moved(_)) => {
                Disposition::Waiting(Some(UNWATCHED))
            }
            Self::Blocked(_) => Disposition::Invalid,
            Self::Unsettled(_) => Disposition::Waiting(Some(UNSETTLED)),
            Self::Guest(_, until) => Disposition::Waiting(*until),
            Self::Draining(look) => Disposition::Waiting(Some(*look)),
            Self::StaleCache(_) => Disposition::Waiting(Some(REQUEUE_SOON)),
            Self::Api(error) => Disposition::from_api_error(error),
            Self::Vcenter(_) | Self::Clone(..) => Disposition::Failed,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Blocked(Blocked::Spec(_)) => "Spec",
            Self::Blocked(Blocked::Unmet(_)) => "Unmet",
            Self::Blocked(Blocked::Provider(_)) => "Provider",
            Self::Blocked(Blocked::Claimed(_)) => "Claimed",
            Self::Blocked(Blocked::Lost(_)) => "Lost",
            Self::Blocked(Blocked::Moved(_)) => "Moved",
            Self::Blocked(Blocked::Unavailable(_)) => "Unavailable",
            Self::Blocked(Blocked::Held(_)) => "Held",
            Self::Guest(..) => "Guest",
            Self::Draining(_) => "Draining",
            Self::Vcenter(_) => "Vcenter",
            Self::Clone(..) => "Clone",
            Self::Unsettled(_) => "Unsettled",
            Self::StaleCache(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_that_fails_for_a_device_names_its_template() {
        let (message, detail) = ("Invalid configuration for device '0'.".to_owned(), vsphere::Value::Null);
        let fault = vsphere::Fault { type_name: "InvalidDeviceSpec".to_owned(), message, detail };
        let error = vsphere::Error::from_fault("CloneVM_Task", fault);
        let advised = Error::Clone(error, "photon-1a2b (vm-7)".to_owned()).advised();
        assert!(advised.contains("template photon-1a2b (vm-7)"), "{advised}");
        assert!(advised.contains("remove the template"), "{advised}");
    }

    #[test]
    fn a_call_that_failed_is_made_again_and_the_return_of_vcenter_waited_for() {
        let failed = vsphere::Error::new("RetrievePropertiesEx", vsphere::Kind::InvalidState);
        let looks_again = |problem: Problem| match Error::from(Blocked::Provider(problem)).disposition() {
            Disposition::Waiting(again) => again.is_some(),
            other => panic!("{other:?}"),
        };
        assert!(looks_again(Problem::of_call("vc:443", &failed)));
        assert!(!looks_again(Problem::of("vc:443", &failed)));
    }

    #[test]
    fn a_vm_that_was_moved_where_nobody_looks_is_looked_for_again() {
        let moved = Error::from(Blocked::Moved("vm-1".to_owned()));
        assert!(matches!(moved.disposition(), Disposition::Waiting(Some(_))));
    }
}
