//! The reconcile error type: variants that all kinds share, and a type parameter for kind-specific errors.

use std::time::Duration;

use kit::expectations::StaleCache;
use kit::{Disposition, ReconcileError};

use crate::vcenter::Problem;

/// Errors that only one kind has, in addition to the errors that all kinds share.
pub trait OwnError: ReconcileError {
    /// The delay before the next reconcile while vCenter can't be used. `None` if all objects of the kind are enqueued when the
    /// connection returns.
    const PROVIDER_RETRY: Option<Duration>;
}

/// The reasons why a reconcile fails.
#[derive(Debug, thiserror::Error)]
pub enum Error<Own: OwnError = NoOther> {
    /// A kind-specific error.
    #[error(transparent)]
    Own(Own),
    /// vCenter can't be used now.
    #[error(transparent)]
    Provider(#[from] Problem),
    /// vCenter rejected a call or didn't respond to it.
    #[error(transparent)]
    Vcenter(#[from] vsphere::Error),
    /// The cache is older than this controller's last write.
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    /// The API server rejected a call or didn't respond to it.
    #[error("API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl<Own: OwnError> ReconcileError for Error<Own> {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Own(own) => own.disposition(),
            Self::Provider(_) => Disposition::Waiting(Own::PROVIDER_RETRY),
            Self::Vcenter(_) => Disposition::Failed,
            Self::StaleCache(_) => Disposition::Overtaken,
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

/// The [`OwnError`] for kinds without specific errors.
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
