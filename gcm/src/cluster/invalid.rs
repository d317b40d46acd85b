//! Why nothing can be planned before somebody acts.

use crate::admission::denial::FieldDenial;
use crate::release::resolution::Unresolved;
use crate::release::version::Version;
use crate::release::virtual_ip::NoAddressHolder;

/// Why nothing can be planned before somebody acts.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// The spec breaks a rule that admission checks.
    #[error("{0}")]
    Denied(FieldDenial),
    /// No release can be chosen.
    #[error("{0}")]
    Unresolved(Box<Unresolved>),
    /// No release leads on to the one that is asked for.
    #[error("the cluster cannot be upgraded from {from}, because no release of Kubernetes v{}.{} can be used and minor releases cannot be skipped. Synchronise the content library so that it contains one", from.minor().0, from.minor().1 + 1)]
    NoStep {
        /// What the control plane runs.
        from: Version,
    },
    /// Nothing can hold the control plane's address.
    #[error("{0}. {remedy}", remedy = NoAddressHolder::REMEDY)]
    NoAddressHolder(#[from] NoAddressHolder),
    /// The release is there and its image is not.
    #[error("TanzuKubernetesRelease {release} has no OSImage{}. Synchronise the content library, or choose another release", query.as_ref().map(|query| format!(" that matches {query:?}")).unwrap_or_default())]
    NoImage {
        /// The release.
        release: String,
        /// What was asked for, where others are there.
        query: Option<String>,
    },
}

impl Invalid {
    /// Whether what is asked for is not there, rather than cannot be.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Unresolved(unresolved) => matches!(**unresolved, Unresolved::Unknown { .. }),
            Self::NoImage { query, .. } => query.is_none(),
            Self::Denied(_) | Self::NoStep { .. } | Self::NoAddressHolder(_) => false,
        }
    }
}

impl From<Unresolved> for Invalid {
    fn from(unresolved: Unresolved) -> Self {
        Self::Unresolved(Box::new(unresolved))
    }
}
