//! The reasons why a VirtualMachine reconcile stops or fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{ERROR, INFO, WARNING, vmop as known};
use kit::expectations::StaleCache;
use kit::{Disposition, ReconcileError};
use vsphere::Vm;

use crate::unmet::Unmet;
use crate::vcenter::{Problem, describe_unavailable};

/// The requeue interval for causes that aren't watched.
const UNWATCHED: Duration = Duration::from_secs(30);
/// The requeue interval while vCenter is busy. A change in vCenter requeues earlier.
pub const UNSETTLED: Duration = Duration::from_secs(15);

/// The condition reason for a VM that vCenter can't reach.
pub const UNREACHABLE: &str = "Unreachable";

/// A UUID or name that the VirtualMachine needs, but that another VM already has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenIdentity {
    /// The UUID or name, such as `Instance UUID 4237…`.
    pub what: String,
    /// A description of the other VM; `None` if that VM isn't in this namespace.
    pub holder: Option<String>,
}

impl fmt::Display for TakenIdentity {
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

/// The reasons why a reconcile can't continue until something changes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Blocked {
    /// The spec is invalid and must be changed.
    #[error("{0}")]
    Spec(String),
    /// A prerequisite is missing.
    #[error("{}", .0.message)]
    Unmet(Unmet),
    /// vCenter can't be used now.
    #[error("{0}")]
    Provider(Problem),
    /// Another VM has the UUID or name.
    #[error("{0}")]
    Claimed(TakenIdentity),
    /// The VM existed, and was destroyed or removed in vCenter; the message says how.
    #[error("{0}")]
    Lost(String),
    /// vCenter can't reach the VM, so its state is uncertain.
    #[error("{}", describe_unavailable(.0))]
    Unavailable(Arc<Vm>),
    /// A check annotation, a pause or missing VMware Tools block the deletion.
    #[error("{0}")]
    Held(String),
    /// The VM with this MoID was moved to a folder that isn't watched.
    #[error("The VM {0} was moved out of its folder in vCenter. Move it back")]
    Moved(String),
}

/// The reasons why a reconcile stops or fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reconcile can't continue until something changes.
    #[error("{0}")]
    Blocked(#[from] Blocked),
    /// vCenter rejected a call or didn't respond to it.
    #[error("{0}")]
    Vcenter(#[from] vsphere::Error),
    /// vCenter couldn't clone the template, which the string describes.
    #[error("{0}")]
    Clone(vsphere::Error, String),
    /// An operation in vCenter hasn't ended yet.
    #[error("{0}")]
    Unsettled(String),
    /// The guest was asked to change its state and hasn't done so yet. The VM is checked again after the duration, if there is
    /// one.
    #[error("{0}")]
    Guest(String, Option<Duration>),
    /// The VM is being deleted, and load balancers must learn about that first. The VM is checked again after the duration.
    #[error(
        "Waiting for load balancers to move the connections to other VMs of the service before the VM is powered off"
    )]
    Draining(Duration),
    /// The cache is older than this controller's last write.
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    /// The API server rejected a call or didn't respond to it.
    #[error("API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl Error {
    /// Returns the condition's reason.
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

    /// Returns the severity of the condition: `INFO` for causes that only take time, `WARNING` for retried calls, otherwise
    /// `ERROR`.
    pub fn severity(&self) -> &'static str {
        match self {
            Self::Blocked(Blocked::Unmet(unmet)) if unmet.underway => INFO,
            Self::Unsettled(_) => INFO,
            Self::Vcenter(error) if error.retryable() => WARNING,
            _ => ERROR,
        }
    }

    /// Returns the message with advice for the user.
    pub fn advised(&self) -> String {
        match self {
            Self::Vcenter(error) => format!("{error}. {}", error.advice()),
            Self::Clone(error, template) => format!(
                "{error}. The VM is a clone of template {template}. Check in vCenter that the template's disk exists. If it does not, remove the template: VM Operator deploys it again"
            ),
            other => other.to_string(),
        }
    }

    /// Returns true if the error belongs in a condition. API server errors and transient connection problems don't.
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
            // When vCenter returns, all VirtualMachines are enqueued. A failed call is repeated after an interval.
            Self::Blocked(Blocked::Provider(problem)) => {
                Disposition::Waiting(problem.is_unwatched().then_some(UNSETTLED))
            }
            // An unavailable VM may turn out to belong to another VirtualMachine, and vCenter doesn't report the destruction of
            // a VM that was moved.
            Self::Blocked(Blocked::Unavailable(_) | Blocked::Moved(_)) => {
                Disposition::Waiting(Some(UNWATCHED))
            }
            Self::Blocked(_) => Disposition::Invalid,
            Self::Unsettled(_) => Disposition::Waiting(Some(UNSETTLED)),
            Self::Guest(_, until) => Disposition::Waiting(*until),
            Self::Draining(look) => Disposition::Waiting(Some(*look)),
            Self::StaleCache(_) => Disposition::Overtaken,
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
