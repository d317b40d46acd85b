//! Why a reconcile of a cluster did not come through.

use std::time::Duration;

use kit::apply::is_conflict;
use kit::bounded::Exceeded;
use kit::expectations::StaleCache;
use kit::{Disposition, ReconcileError};

use super::invalid::Invalid;

/// When what no watch shows is looked at again.
const SETTLING: Duration = Duration::from_secs(1);

/// Why a cluster is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its author has to change it, or a release has to appear.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Something has to end first.
    #[error("{0}")]
    Waiting(String),
    /// It is a copy from elsewhere, and its Cluster has not come yet.
    #[error("{0}")]
    Arriving(String),
    /// Something has to end first, and nobody says when it does.
    #[error("waiting for {0}")]
    Settling(String),
    /// A Secret that the cluster finds by its name is missing, or cannot be used.
    #[error("Secret {0}")]
    Secret(String),
    /// The computation on its Secrets does not end within its limits.
    #[error("its Secrets: {0}")]
    Exceeded(#[from] Exceeded),
    /// Our own last write is not in the cache yet.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// An object of that name belongs to somebody else.
    #[error("{0} exists and does not belong to this cluster. Delete or rename it")]
    Taken(String),
    /// The API server refused or did not answer.
    #[error("the API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl Error {
    /// Somebody else was quicker, or the cache is slow: the next reconcile, soon, knows more. Nothing went wrong.
    pub fn is_overtaken(&self) -> bool {
        match self {
            Self::Behind(_) => true,
            Self::Api(error) => is_conflict(error),
            Self::Invalid(_)
            | Self::Waiting(_)
            | Self::Arriving(_)
            | Self::Settling(_)
            | Self::Secret(_)
            | Self::Exceeded(_)
            | Self::Taken(_) => false,
        }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Invalid(_) => Disposition::Invalid,
            Self::Waiting(_) | Self::Arriving(_) => Disposition::Waiting(None),
            Self::Settling(_) => Disposition::Waiting(Some(SETTLING)),
            Self::Behind(_) => Disposition::Waiting(Some(kit::retry::REQUEUE_SOON)),
            Self::Secret(_) | Self::Exceeded(_) | Self::Taken(_) => Disposition::Failed,
            Self::Api(error) => Disposition::from_api_error(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) | Self::Arriving(_) | Self::Settling(_) => "Waiting",
            Self::Secret(_) | Self::Exceeded(_) => "Secret",
            Self::Behind(_) => "Behind",
            Self::Taken(_) => "Taken",
            Self::Api(_) => "Api",
        }
    }
}
