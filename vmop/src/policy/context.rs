//! What reconciles of policies work with, and why one does not come through.

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

/// While VMs are in the way of a deletion, vCenter is asked again this often.
const OCCUPIED: Duration = Duration::from_secs(5);

/// What reconciles of policies work with.
pub struct Context {
    /// Writes as this controller.
    pub api: Api,
    /// Events of this controller.
    pub events: Events,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// What is watched.
    pub caches: Caches,
    /// Enqueues the VirtualMachines of a policy that was realized.
    pub vms: Enqueue<VirtualMachine>,
}

/// Why a reconcile of a policy did not come through.
pub type Error = error::Error<PolicyError>;

/// Reasons of a policy's own.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Something is missing or wrong, and somebody must act.
    #[error("{}", .0.message)]
    Unmet(Unmet),
    /// VMs are still in it.
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

/// VMs are still in what shall go.
pub fn occupied(message: String) -> Error {
    Error::Own(PolicyError::Occupied(message))
}
