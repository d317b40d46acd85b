//! Defines a bundle: manifest files, and the mode in which gcm applies them.

use std::time::Duration;

use bounds::Confidential;
use kit::bounded::{ComputationLimits, Exceeded};

/// The maximum total size of a bundle's files, in bytes. A ConfigMap and a Secret together can hold this much.
pub const MAX_BYTES: usize = 2 << 20;
/// The limits for reading a bundle's files, including rendered templates. 2 MiB of dense CustomResourceDefinitions need half of
/// this memory.
pub const LIMITS: ComputationLimits = ComputationLimits { bytes: 48 << 20, time: Duration::from_secs(20) };

/// The reasons why a bundle can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The bundle is invalid. The message describes the fault and its position.
    #[error("{0}")]
    Invalid(String),
    /// Reading the bundle exceeded a limit.
    #[error("{}", describe(*.0))]
    Exceeded(#[from] Exceeded),
}

impl From<String> for BundleError {
    fn from(reason: String) -> Self {
        Self::Invalid(reason)
    }
}

fn describe(exceeded: Exceeded) -> String {
    let remedy = match exceeded {
        Exceeded::Bytes { .. } => "Remove objects from the bundle, and provide them as a separate add-on",
        Exceeded::Time => "gcm tries again later",
    };
    format!("reading its files: {exceeded}. {remedy}")
}

/// The add-on type, as in `status.addons[].type`. Add-ons are applied in the order of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddonType {
    Cni,
    Cpi,
    Csi,
    AuthService,
    MetricsServer,
}

impl AddonType {
    /// All types, in apply order.
    pub const ALL: [Self; 5] = [Self::Cni, Self::Cpi, Self::Csi, Self::AuthService, Self::MetricsServer];

    /// Returns the word for this type in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cni => "CNI",
            Self::Cpi => "CPI",
            Self::Csi => "CSI",
            Self::AuthService => "AuthService",
            Self::MetricsServer => "MetricsServer",
        }
    }

    /// Parses a type, ignoring case. Returns `None` for an unknown word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|type_| type_.as_str().eq_ignore_ascii_case(word))
    }
}

/// Defines when gcm applies a bundle, and if it reverts changes to the bundle's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BundleMode {
    /// Reverts changes by other clients.
    #[default]
    Reconcile,
    /// Applies the bundle once in the cluster's lifetime. Afterwards, the objects belong to the users.
    ApplyOnce,
    /// Applies each version once. Afterwards, the objects belong to the users.
    OncePerVersion,
    /// Doesn't apply the bundle, because another tool does.
    Unmanaged,
}

impl BundleMode {
    /// Returns true if changes by other clients are kept.
    pub fn is_once(self) -> bool {
        matches!(self, Self::ApplyOnce | Self::OncePerVersion)
    }

    /// Returns true if a bundle must not be applied anymore. `applied` is the version that was applied completely, and `version`
    /// is the bundle's current version.
    pub fn leaves(self, applied: &str, version: Option<&str>) -> bool {
        self == Self::ApplyOnce || self == Self::OncePerVersion && applied == version.unwrap_or_default()
    }

    /// Parses a mode, case-sensitively. Returns `None` for an unknown word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "Reconcile" => Some(Self::Reconcile),
            "ApplyOnce" => Some(Self::ApplyOnce),
            "OncePerVersion" => Some(Self::OncePerVersion),
            "Unmanaged" => Some(Self::Unmanaged),
            _ => None,
        }
    }
}

/// A file with some of a bundle's manifests.
#[derive(Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// The file name, for messages.
    pub name: String,
    /// The content, which can come from a Secret.
    pub text: Confidential<String>,
    /// True if the file comes from a Secret. In this case, messages that quote the objects aren't shown.
    pub secret: bool,
}

/// A parsed bundle.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The version, for display.
    pub version: Option<String>,
    pub mode: BundleMode,
    /// The names of the add-ons that must work before this add-on is applied.
    pub after: Vec<String>,
    /// The files, in the order in which they are applied. If the list is empty, the built-in bundle with the add-on's name is
    /// used.
    pub files: Vec<BundleFile>,
    /// The Secret that contains further files.
    pub secret: Option<BundleSecret>,
}

/// A Secret with bundle files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleSecret {
    pub name: String,
    /// The resourceVersion of the Secret whose files were read.
    pub version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::BundleMode;

    #[test]
    fn what_is_applied_once_is_left_alone_afterwards() {
        let leaves = |mode: &str, applied, version| BundleMode::of(mode).unwrap().leaves(applied, version);
        assert!(leaves("ApplyOnce", "v1", Some("v2")));
        assert!(leaves("OncePerVersion", "v1", Some("v1")));
        assert!(leaves("OncePerVersion", "", None), "a bundle without a version");
        assert!(!leaves("OncePerVersion", "v1", Some("v2")), "an upgrade brings another version");
        assert!(!leaves("Reconcile", "v1", Some("v1")));
        assert!(BundleMode::of("Sometimes").is_none());
    }
}
