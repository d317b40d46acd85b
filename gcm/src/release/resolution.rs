//! Resolves a full version, a version hint, a release name or a query to one release.
//!
//! This module is pure, so that admission, the reconciler and `layercake lint` make the same decisions.

use std::collections::BTreeMap;

use kube::core::SelectorExt;

use super::node_image::{ReleaseImage, choose};
use super::query;
use super::version::{Version, are_of_one_release};

/// The oldest Kubernetes minor release that Cluster API 1.14 can bootstrap.
pub const OLDEST: (u64, u64) = (1, 22);
/// The Kubernetes minor releases that Cluster API 1.14 supports.
pub const SUPPORTED: std::ops::RangeInclusive<(u64, u64)> = (1, 31)..=(1, 36);

/// The facts that resolution uses from a TanzuKubernetesRelease.
#[derive(Clone, Debug, PartialEq)]
pub struct AvailableRelease {
    pub version: Version,
    /// The reason why new clusters can't use the release, if any.
    pub incompatible: Option<String>,
    /// The labels that a query can match: the object's labels and every name prefix.
    pub labels: BTreeMap<String, String>,
    /// The kube-vip container image in the release's node images.
    pub kube_vip: Option<String>,
    /// The release's node images, or empty if unknown.
    pub images: Vec<ReleaseImage>,
    /// The OSImages that gcm doesn't know: they don't exist yet, or belong to another infrastructure.
    pub missing_images: Vec<String>,
}

impl AvailableRelease {
    /// Returns a release of which only the version is known.
    pub fn of(version: Version) -> Self {
        let incompatible = explain_incompatibility(&version);
        let labels = prefix_labels(&version);
        Self { labels, version, incompatible, kube_vip: None, images: Vec::new(), missing_images: Vec::new() }
    }

    /// Returns true if a query matches the release.
    pub fn answers(&self, query: &str) -> bool {
        query::parse(query).is_ok_and(|selector| selector.matches(&self.labels))
    }

    /// Returns true if the release has a node image that the query matches. An empty query also matches a release with
    /// unknown images.
    pub fn has_image(&self, os_image: &str) -> bool {
        let any = !ReleaseRequest::written(os_image);
        (any && self.images.is_empty()) || choose(&self.images, Some(os_image), None).is_some()
    }
}

/// Returns the labels for finding a release by name prefix: one for each prefix of at most 63 bytes.
pub fn prefix_labels(version: &Version) -> BTreeMap<String, String> {
    let keys = version.prefixes().into_iter().filter(|key| key.len() <= 63);
    keys.map(|key| (key, String::new())).collect()
}

/// Returns the reason why Cluster API can't create a cluster with this Kubernetes version, or `None` if it can.
pub fn explain_incompatibility(kubernetes: &Version) -> Option<String> {
    (kubernetes.minor() < OLDEST).then(|| {
        format!(
            "Kubernetes {} is older than v{}.{}, the oldest version that Cluster API can bootstrap",
            kubernetes.minor_text(),
            OLDEST.0,
            OLDEST.1
        )
    })
}

/// A cluster's release request. Empty strings count as unset.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseRequest<'a> {
    /// The field spec.distribution.fullVersion.
    pub full: &'a str,
    /// The field spec.distribution.version.
    pub hint: &'a str,
    /// The field spec.topology.controlPlane.tkr.reference.name: a release name or name prefix.
    pub reference: &'a str,
    /// The annotation run.tanzu.vmware.com/resolve-tkr: a label query that selects among several matching releases.
    pub query: &'a str,
    /// The annotation run.tanzu.vmware.com/resolve-os-image: a node image query. If several releases match, the newest release
    /// that has a matching image is chosen.
    pub os_image: &'a str,
}

/// The fields in a [`ReleaseRequest`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestField {
    /// The field spec.distribution.fullVersion.
    Full,
    /// The field spec.distribution.version.
    Hint,
    /// The field spec.topology.controlPlane.tkr.reference.name.
    Reference,
    /// The annotation run.tanzu.vmware.com/resolve-tkr.
    Query,
}

/// The reasons why resolution fails. Each message begins with the same words as in vSphere with Tanzu.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unresolved {
    /// The full version and the version hint name different releases.
    #[error("full version {full:?} does not match version hint {hint:?}")]
    Disagree {
        /// The full version as written.
        full: String,
        /// The hint as written.
        hint: String,
    },
    /// The reference names a different release than the full version or the hint.
    #[error("release reference {reference:?} does not match {other} {text:?}")]
    ReferenceDisagrees {
        reference: String,
        /// The field that contradicts the reference.
        other: &'static str,
        /// The content of the contradicting field.
        text: String,
    },
    /// The cluster doesn't name a release.
    #[error("the spec names no release")]
    Nothing,
    /// The request doesn't match any release.
    #[error("{}", unknown(*field, text))]
    Unknown {
        /// The field that names the release.
        field: RequestField,
        /// The content of the field.
        text: String,
    },
    /// The release exists but can't be used.
    #[error("{}: {version}: {why}", unknown(*field, text))]
    Incompatible {
        /// The field that names the release.
        field: RequestField,
        /// The content of the field.
        text: String,
        /// The newest matching release.
        version: Version,
        /// The reason why this release can't be used.
        why: String,
    },
}

fn unknown(source: RequestField, text: &str) -> String {
    match source {
        RequestField::Full => format!("unable to find a compatible release with full version {text:?}"),
        RequestField::Hint => {
            format!("unable to find a compatible full version matching version hint {text:?}")
        }
        RequestField::Reference => format!("unable to find a compatible release named {text:?}"),
        RequestField::Query => format!("unable to find a compatible release matching query {text:?}"),
    }
}

impl Unresolved {
    /// Returns the field that the user should correct.
    pub fn field(&self) -> RequestField {
        match self {
            Self::Disagree { .. } | Self::Nothing => RequestField::Hint,
            Self::ReferenceDisagrees { .. } => RequestField::Reference,
            Self::Unknown { field, .. } | Self::Incompatible { field, .. } => *field,
        }
    }
}

impl<'a> ReleaseRequest<'a> {
    fn written(text: &str) -> bool {
        !text.trim().is_empty()
    }

    /// Returns the requested version, if the full version or the reference is a complete version.
    pub fn exact(&self) -> Option<Version> {
        [self.full, self.reference].iter().find_map(|text| Version::parse(text).ok())
    }

    /// Returns the field that takes precedence, and its content.
    fn strongest(&self) -> Option<(RequestField, &'a str)> {
        [
            (RequestField::Full, self.full),
            (RequestField::Reference, self.reference),
            (RequestField::Hint, self.hint),
            (RequestField::Query, self.query),
        ]
        .into_iter()
        .find(|(_, text)| Self::written(text))
    }

    fn contradiction(&self) -> Option<Unresolved> {
        let same = |text: &str, whole: &str| Version::parse(whole).is_ok_and(|version| version.matches(text));
        let (full, hint, reference) = (self.full, self.hint, self.reference);
        if Self::written(full) && Self::written(hint) && !same(hint, full) {
            return Some(Unresolved::Disagree { full: full.to_owned(), hint: hint.to_owned() });
        }
        let against = |other: &'static str, text: &str| Unresolved::ReferenceDisagrees {
            reference: reference.to_owned(),
            other,
            text: text.to_owned(),
        };
        if !Self::written(reference) {
            return None;
        }
        if Self::written(full) && !same(reference, full) {
            return Some(against("full version", full));
        }
        (Self::written(hint) && !are_of_one_release(hint, reference)).then(|| against("version hint", hint))
    }
}

/// Returns the newest usable release that matches `request`. A release with a matching node image takes precedence over newer
/// releases without one.
///
/// # Errors
/// Returns an error if the fields contradict each other or don't match a usable release.
pub fn resolve_release<'o>(
    request: ReleaseRequest<'_>,
    available: &'o [AvailableRelease],
) -> Result<&'o AvailableRelease, Unresolved> {
    let (field, text) = request.strongest().ok_or(Unresolved::Nothing)?;
    if let Some(contradiction) = request.contradiction() {
        return Err(contradiction);
    }
    let wanted = Version::parse(text).ok();
    let named = |candidate: &&AvailableRelease| Some(&candidate.version) == wanted.as_ref();
    // v1.36.3 can be the full name of one release and a prefix of another. The full name takes precedence.
    let whole = field == RequestField::Full || available.iter().any(|candidate| named(&candidate));
    let begins =
        |text: &str, candidate: &AvailableRelease| text.is_empty() || candidate.version.matches(text);
    let queried = |candidate: &AvailableRelease| {
        !ReleaseRequest::written(request.query) || candidate.answers(request.query)
    };
    let meant = |candidate: &&AvailableRelease| match field {
        RequestField::Full => named(candidate),
        RequestField::Reference if whole => named(candidate),
        RequestField::Reference => {
            begins(text, candidate) && begins(request.hint.trim(), candidate) && queried(candidate)
        }
        RequestField::Hint => candidate.version.matches(text) && queried(candidate),
        RequestField::Query => queried(candidate),
    };
    let newest = |fit: bool| {
        let candidates =
            available.iter().filter(meant).filter(|candidate| candidate.incompatible.is_none() == fit);
        candidates.max_by_key(|candidate| (candidate.has_image(request.os_image), &candidate.version))
    };
    newest(true).ok_or_else(|| match newest(false) {
        None => Unresolved::Unknown { field, text: text.to_owned() },
        Some(candidate) => Unresolved::Incompatible {
            field,
            text: text.to_owned(),
            version: candidate.version.clone(),
            why: candidate.incompatible.clone().unwrap_or_default(),
        },
    })
}

/// Returns the usable versions, newest first.
pub fn usable_versions(available: &[AvailableRelease]) -> Vec<&Version> {
    let mut versions: Vec<_> = available
        .iter()
        .filter(|candidate| candidate.incompatible.is_none())
        .map(|candidate| &candidate.version)
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.dedup();
    versions
}

/// Returns the usable versions to which a cluster can upgrade from `current`, newest first. They are at most one minor
/// release ahead.
pub fn find_updates<'o>(current: &Version, available: &'o [AvailableRelease]) -> Vec<&'o Version> {
    usable_versions(available)
        .into_iter()
        .filter(|version| *version > current && explain_unreachable(current, version).is_none())
        .collect()
}

/// Returns the reason why a cluster can't be upgraded from one version to another, or `None` if it can.
pub fn explain_unreachable(from: &Version, to: &Version) -> Option<String> {
    let ((from_major, from_minor), (to_major, to_minor)) = (from.minor(), to.minor());
    if to < from {
        return Some(format!("{to} is older than {from}: versions never decrease"));
    }
    if from_major != to_major || to_minor > from_minor + 1 {
        return Some(format!(
            "from {from} to {to} is more than one minor release: minor releases cannot be skipped"
        ));
    }
    None
}

/// Returns the versions through which a cluster upgrades across several minor releases, ending with `to`. Returns `None` if a
/// minor release in between lacks a usable version, or if `to` is older or has another major version.
pub fn find_steps<'o>(
    from: &Version,
    to: &'o Version,
    available: &'o [AvailableRelease],
) -> Option<Vec<&'o Version>> {
    let ((from_major, from_minor), (to_major, to_minor)) = (from.minor(), to.minor());
    if to < from || from_major != to_major {
        return None;
    }
    let newest = |minor| find_step((to_major, minor), to, available);
    let between: Option<Vec<_>> = (from_minor + 1..to_minor).map(newest).collect();
    between.map(|between| between.into_iter().chain([to]).collect())
}

/// Returns the version for one intermediate minor release: the newest usable version, preferably from the vendor of `to`.
/// Vendors package different versions of etcd and CoreDNS, which can't be downgraded.
pub fn find_step<'o>(
    minor: (u64, u64),
    to: &Version,
    available: &'o [AvailableRelease],
) -> Option<&'o Version> {
    let of_minor: Vec<_> =
        usable_versions(available).into_iter().filter(|version| version.minor() == minor).collect();
    let same = of_minor.iter().find(|version| version.vendor() == to.vendor());
    same.or(of_minor.first()).copied()
}

/// Returns a warning about a Kubernetes version outside the range that Cluster API supports.
pub fn support_warning(kubernetes: &Version) -> Option<String> {
    (!SUPPORTED.contains(&kubernetes.minor())).then(|| {
        let (first, last) = (SUPPORTED.start(), SUPPORTED.end());
        format!(
            "Kubernetes {} is outside the window that Cluster API 1.14 supports (v{}.{} to v{}.{}): it is expected to work, but it is not tested",
            kubernetes.minor_text(),
            first.0,
            first.1,
            last.0,
            last.1
        )
    })
}

#[cfg(test)]
pub(crate) mod tests;
