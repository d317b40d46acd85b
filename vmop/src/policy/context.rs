//! Context and errors for policy reconciles.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kit::apply::Api;
use kit::events::Events;
use kit::{Disposition, ReconcileError};

use crate::caches::Caches;
use crate::enqueue::Enqueue;
use crate::error;
use crate::error::OwnError;
use crate::unmet::Unmet;
use crate::vcenter::Provider;

/// The retry interval while VMs prevent a deletion.
const OCCUPIED: Duration = Duration::from_secs(5);

/// The context for policy reconciles.
pub struct Context {
    /// The API client with this controller's field manager.
    pub api: Api,
    /// The recorder for this controller's events.
    pub events: Events,
    pub provider: Arc<Provider>,
    /// The watch caches.
    pub caches: Caches,
    /// Enqueues the VirtualMachines of a policy after the policy was realized.
    pub vms: Enqueue<VirtualMachine>,
}

/// The reasons why a policy reconcile fails.
pub type Error = error::Error<PolicyError>;

/// Errors that only policies have.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A requirement isn't met, and a user or administrator must act.
    #[error("{}", .0.message)]
    Unmet(Unmet),
    /// VMs are still in the policy's folder or pool, or use the policy.
    #[error("{0}")]
    Occupied(String),
}

impl ReconcileError for PolicyError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Unmet(unmet) => Disposition::Waiting(unmet.unwatched.then_some(OCCUPIED * 6)),
            Self::Occupied(_) => Disposition::Waiting(Some(OCCUPIED)),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unmet(_) => "Unmet",
            Self::Occupied(_) => "Occupied",
        }
    }
}

impl OwnError for PolicyError {
    const PROVIDER_RETRY: Option<Duration> = None;
}

impl From<Unmet> for Error {
    fn from(unmet: Unmet) -> Self {
        Self::Own(PolicyError::Unmet(unmet))
    }
}

/// Creates the error for VMs that prevent a deletion.
pub fn occupied(message: String) -> Error {
    Error::Own(PolicyError::Occupied(message))
}
