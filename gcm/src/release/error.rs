//! The reasons why a reconcile of an image or a release fails.

use kit::bounded::Exceeded;
use kit::expectations::StaleCache;
use kit::{Disposition, ReconcileError};

use super::image;

/// The reasons why a reconcile fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image can't be parsed. An administrator must correct it.
    #[error(transparent)]
    Unreadable(#[from] image::Unreadable),
    /// Reading the image took too long.
    #[error("the add-ons of the image cannot be read: {0}")]
    Late(#[from] Exceeded),
    /// The cache doesn't contain gcm's own last write yet.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The API server refused the request or didn't respond.
    #[error("the API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Unreadable(_) => Disposition::Invalid,
            Self::Late(_) => Disposition::Failed,
            Self::Behind(_) => Disposition::Overtaken,
            Self::Api(error) => Disposition::from_api_error(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "Unreadable",
            Self::Late(_) => "Late",
            Self::Behind(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}
