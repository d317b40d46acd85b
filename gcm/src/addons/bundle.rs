//! What a bundle is: texts of manifests, and how they are to be kept.

use std::time::Duration;

use bounds::Confidential;
use kit::bounded::{Exceeded, Limits};

/// The most bytes of all files of a bundle: what a ConfigMap and a Secret can hold.
pub const MAX_BYTES: usize = 2 << 20;
/// What reading all files of a bundle may use, templates and what they become included. Definitions of two MiB, which are
/// dense, need half of the bytes.
pub const LIMITS: Limits = Limits { bytes: 48 << 20, time: Duration::from_secs(20) };

/// Why a bundle can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// What is wrong with it, and where.
    #[error("{0}")]
    Invalid(String),
    /// It is not read to its end.
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

/// What an add-on is for, in the words of `status.addons[].type`; in the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddonType {
    /// The container network.
    Cni,
    /// The cloud provider.
    Cpi,
    /// The storage driver.
    Csi,
    /// Single sign-on.
    AuthService,
    /// Metrics of Pods and nodes.
    MetricsServer,
}

impl AddonType {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Cni, Self::Cpi, Self::Csi, Self::AuthService, Self::MetricsServer];

    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cni => "CNI",
            Self::Cpi => "CPI",
            Self::Csi => "CSI",
            Self::AuthService => "AuthService",
            Self::MetricsServer => "MetricsServer",
        }
    }

    /// The type of this word, whatever its case.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|type_| type_.as_str().eq_ignore_ascii_case(word))
    }
}

/// How far a bundle is kept as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What others change of it is corrected.
    #[default]
    Reconcile,
    /// It is applied once in the life of a cluster; then it is its users'.
    ApplyOnce,
    /// Each version is applied once; then it is its users'.
    OncePerVersion,
    /// Somebody else applies it.
    Unmanaged,
}

impl Mode {
    /// Returns true if changes of others stay.
    pub fn is_once(self) -> bool {
        matches!(self, Self::ApplyOnce | Self::OncePerVersion)
    }

    /// Returns true if a bundle of this mode is not applied over the `applied` version.
    pub fn leaves(self, applied: &str, version: Option<&str>) -> bool {
        self == Self::ApplyOnce || self == Self::OncePerVersion && applied == version.unwrap_or_default()
    }

    /// The mode of this word.
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

/// A file of a bundle.
#[derive(Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// Its name, for messages.
    pub name: String,
    /// Its text. It can come from a Secret.
    pub text: Confidential<String>,
    /// True if it comes from a Secret: a guest's words about its objects are not shown.
    pub secret: bool,
}

/// A bundle, read.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Its version, for people.
    pub version: Option<String>,
    /// How it is kept.
    pub mode: Mode,
    /// Names of the add-ons that must work before this one is applied.
    pub after: Vec<String>,
    /// Its files, in the order in which they are applied. None: the built-in bundle of the add-on's name.
    pub files: Vec<BundleFile>,
    /// The Secret with further files.
    pub secret: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn what_is_applied_once_is_left_alone_afterwards() {
        let leaves = |mode: &str, applied, version| Mode::of(mode).unwrap().leaves(applied, version);
        assert!(leaves("ApplyOnce", "v1", Some("v2")));
        assert!(leaves("OncePerVersion", "v1", Some("v1")));
        assert!(leaves("OncePerVersion", "", None), "a bundle without a version");
        assert!(!leaves("OncePerVersion", "v1", Some("v2")), "an upgrade brings another version");
        assert!(!leaves("Reconcile", "v1", Some("v1")));
        assert!(Mode::of("Sometimes").is_none());
    }
}
