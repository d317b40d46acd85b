//! The reasons why a cluster's reconcile fails or waits.

use std::sync::Arc;
use std::time::Duration;

use kit::bounded::Exceeded;
use kit::expectations::StaleCache;
use kit::{Disposition, ReconcileError};

use super::invalid::Invalid;

/// The requeue delay while waiting for changes that watches don't report.
const SETTLING: Duration = Duration::from_secs(1);

/// The reasons why a reconcile doesn't complete. Errors can be cloned, because facts contain the error of reading Secrets.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The user must change the spec, or a release must become available.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A deletion must complete first. Watches report the progress of the deletion.
    #[error("{0}")]
    Waiting(String),
    /// The TanzuKubernetesCluster is a copy from another management cluster, and its Cluster hasn't arrived yet.
    #[error("{0}")]
    Arriving(String),
    /// Another operation must end first, and watches don't report its end.
    #[error("waiting for {0}")]
    Settling(String),
    /// One of the cluster's Secrets is missing or can't be used.
    #[error("Secret {0}")]
    Secret(String),
    /// Processing the cluster's Secrets exceeds the memory or time limits.
    #[error("its Secrets: {0}")]
    Exceeded(#[from] Exceeded),
    /// The cache doesn't contain gcm's own last write yet.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The name of one of the cluster's objects is in use by another owner's object.
    #[error("{0} exists and does not belong to this cluster. Delete or rename it")]
    Taken(String),
    /// The API server refused the request or didn't respond.
    #[error("the API server: {}", kit::api_error::message(.0))]
    Api(#[source] Arc<kube::Error>),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(Arc::new(error))
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Invalid(_) => Disposition::Invalid,
            Self::Waiting(_) | Self::Arriving(_) => Disposition::Waiting(None),
            Self::Settling(_) => Disposition::Waiting(Some(SETTLING)),
            Self::Behind(_) => Disposition::Overtaken,
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
