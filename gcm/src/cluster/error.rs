//! Why a reconcile of a cluster did not come through.

use kit::writes::Behind;
use kit::{Family, Outcome};

use super::plan;

/// Why a cluster is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its author has to change it, or a release has to appear.
    #[error(transparent)]
    Invalid(#[from] plan::Invalid),
    /// Something has to end first.
    #[error("waiting for {0}")]
    Waiting(String),
    /// Our own last write is not in the cache yet.
    #[error(transparent)]
    Behind(#[from] Behind),
    /// An object of that name belongs to somebody else.
    #[error("{0} exists and does not belong to this cluster. Delete or rename it")]
    Taken(String),
    /// The API server refused or did not answer.
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
}

impl Family for Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid(_) => Outcome::Invalid,
            Self::Waiting(_) => Outcome::Waiting(None),
            Self::Behind(_) => Outcome::Waiting(Some(kit::retry::SOON)),
            Self::Taken(_) => Outcome::Failed,
            Self::Api(error) => Outcome::of(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) => "Waiting",
            Self::Behind(_) => "Behind",
            Self::Taken(_) => "Taken",
            Self::Api(_) => "Api",
        }
    }
}
