//! The reasons why a cluster can't be planned until a user acts.

use crate::admission::denial::FieldDenial;
use crate::release::resolution::Unresolved;
use crate::release::version::Version;
use crate::release::virtual_ip::NoAddressHolder;

/// A reason why a cluster can't be planned until a user acts.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Invalid {
    /// The spec breaks an admission rule.
    #[error("{0}")]
    Denied(FieldDenial),
    /// The requested release can't be resolved.
    #[error("{0}")]
    Unresolved(Box<Unresolved>),
    /// The next minor version doesn't have a usable release, and minor versions can't be skipped.
    #[error("the cluster cannot be upgraded from {from}, because no release of Kubernetes v{}.{} can be used and minor releases cannot be skipped. Synchronise the content library so that it contains one", from.minor().0, from.minor().1 + 1)]
    NoStep {
        /// The version that the control plane runs.
        from: Version,
    },
    /// None of the programs that can announce the control plane address is available.
    #[error("{0}. {remedy}", remedy = NoAddressHolder::REMEDY)]
    NoAddressHolder(#[from] NoAddressHolder),
    /// The release exists, but doesn't have a matching OSImage.
    #[error("TanzuKubernetesRelease {release} has no OSImage{}. Synchronise the content library, or choose another release", query.as_ref().map(|query| format!(" that matches {query:?}")).unwrap_or_default())]
    NoImage {
        release: String,
        /// The OS image query, if the release has images but none matches.
        query: Option<String>,
    },
}

impl Invalid {
    /// Returns true if the requested release doesn't exist or doesn't have any usable image.
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
