//! Why a reconcile did not come through: what all kinds have in common, and each kind's own reasons beside it.

use std::time::Duration;

use kit::expectations::StaleCache;
use kit::retry::REQUEUE_SOON;
use kit::{Disposition, ReconcileError};

use crate::vcenter::Problem;

/// The reasons of one kind beside those that all have.
pub trait OwnError: ReconcileError {
    /// How soon to look again while vCenter can't be used; `None` where its return enqueues all objects of the kind.
    const PROVIDER_RETRY: Option<Duration>;
}

/// Why a reconcile did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error<Own: OwnError = NoOther> {
    /// A reason of the kind's own.
    #[error(transparent)]
    Own(Own),
    /// vCenter can't be used now.
    #[error(transparent)]
    Provider(#[from] Problem),
    /// vCenter refused a call, or did not answer it.
    #[error(transparent)]
    Vcenter(#[from] vsphere::Error),
    /// The cache is older than what the API server has.
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    /// The API server refused a call, or did not answer it.
    #[error("API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl<Own: OwnError> ReconcileError for Error<Own> {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Own(own) => own.disposition(),
            Self::Provider(_) => Disposition::Waiting(Own::PROVIDER_RETRY),
            Self::Vcenter(_) => Disposition::Failed,
            Self::StaleCache(_) => Disposition::Waiting(Some(REQUEUE_SOON)),
            Self::Api(error) => Disposition::from_api_error(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Own(own) => own.label(),
            Self::Provider(_) => "Provider",
            Self::Vcenter(_) => "Vcenter",
            Self::StaleCache(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}

/// The reasons of a kind that has none of its own.
#[derive(Debug, thiserror::Error)]
pub enum NoOther {}

impl ReconcileError for NoOther {
    fn disposition(&self) -> Disposition {
        match *self {}
    }

    fn label(&self) -> &'static str {
        match *self {}
    }
}

impl OwnError for NoOther {
    const PROVIDER_RETRY: Option<Duration> = Some(Duration::from_secs(15));
}
