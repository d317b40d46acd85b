//! Why a reconcile did not come through: what all kinds have in common, and each kind's own reasons beside it.

use std::time::Duration;

use kit::retry::SOON;
use kit::writes::Behind;
use kit::{Family, Outcome};

use crate::vcenter::Problem;

/// The reasons of one kind beside those that all have.
pub trait OwnError: Family {
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
    StaleCache(#[from] Behind),
    /// The API server refused a call, or did not answer it.
    #[error("API server: {0}")]
    Api(#[from] kube::Error),
}

impl<Own: OwnError> Family for Error<Own> {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Own(own) => own.outcome(),
            Self::Provider(_) => Outcome::Waiting(Own::PROVIDER_RETRY),
            Self::Vcenter(_) => Outcome::Failed,
            Self::StaleCache(_) => Outcome::Waiting(Some(SOON)),
            Self::Api(error) => Outcome::of(error),
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

impl Family for NoOther {
    fn outcome(&self) -> Outcome {
        match *self {}
    }

    fn label(&self) -> &'static str {
        match *self {}
    }
}

impl OwnError for NoOther {
    const PROVIDER_RETRY: Option<Duration> = Some(Duration::from_secs(15));
}
