//! Which release a cluster runs: from a full version, a short hint or the name of a release, to one release.
//!
//! Pure, so that admission, the reconciler and `layercake lint` decide alike.

use std::collections::BTreeMap;

use kube::core::SelectorExt;

use super::node_image::{ReleaseImage, choose};
use super::query;
use super::version::{Version, are_of_one_release};

/// The oldest Kubernetes minor release that Cluster API 1.14 can bootstrap.
pub const OLDEST: (u64, u64) = (1, 22);
/// The Kubernetes minor releases that Cluster API 1.14 supports.
pub const SUPPORTED: std::ops::RangeInclusive<(u64, u64)> = (1, 31)..=(1, 36);

/// What resolution needs to know of a TanzuKubernetesRelease.
#[derive(Clone, Debug, PartialEq)]
pub struct AvailableRelease {
    /// The release's version.
    pub version: Version,
    /// Why no new cluster may use it, or nothing.
    pub incompatible: Option<String>,
    /// What a query can ask for: the labels of the object, and every prefix of its name.
    pub labels: BTreeMap<String, String>,
    /// The image of kube-vip that its node images contain.
    pub kube_vip: Option<String>,
    /// Its node images; none where nothing but the release is known.
    pub images: Vec<ReleaseImage>,
    /// The names of its OSImages that gcm does not know: they do not exist yet, or are of another infrastructure.
    pub missing_images: Vec<String>,
}

impl AvailableRelease {
    /// A release of which nothing but its version is known.
    pub fn of(version: Version) -> Self {
        let incompatible = explain_incompatibility(&version);
        let labels = prefix_labels(&version);
        Self { labels, version, incompatible, kube_vip: None, images: Vec::new(), missing_images: Vec::new() }
    }

    /// True if the release is what a query asks for.
    pub fn answers(&self, query: &str) -> bool {
        query::parse(query).is_ok_and(|selector| selector.matches(&self.labels))
    }

    /// Returns true if the release has a node image that the query matches. An empty query also matches a release whose images are not
    /// known.
    pub fn has_image(&self, os_image: &str) -> bool {
        let any = !ReleaseRequest::written(os_image);
        (any && self.images.is_empty()) || choose(&self.images, Some(os_image), None).is_some()
    }
}

/// The labels by which a release is found: one for each prefix of its name.
pub fn prefix_labels(version: &Version) -> BTreeMap<String, String> {
    let keys = version.prefixes().into_iter().filter(|key| key.len() <= 63);
    keys.map(|key| (key, String::new())).collect()
}

/// Why Cluster API cannot make a cluster of this Kubernetes version, or nothing.
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

/// What a user wrote to say which release is meant; empty texts mean nothing was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleaseRequest<'a> {
    /// spec.distribution.fullVersion.
    pub full: &'a str,
    /// spec.distribution.version.
    pub hint: &'a str,
    /// spec.topology.controlPlane.tkr.reference.name: a release's name, or a prefix of it.
    pub reference: &'a str,
    /// The annotation run.tanzu.vmware.com/resolve-tkr: a query of labels, where several releases are meant.
    pub query: &'a str,
    /// The annotation run.tanzu.vmware.com/resolve-os-image: a query of node images. If several releases match, the newest one with a
    /// matching image is taken.
    pub os_image: &'a str,
}

/// Which of the texts of a [`ReleaseRequest`] is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestField {
    /// spec.distribution.fullVersion.
    Full,
    /// spec.distribution.version.
    Hint,
    /// spec.topology.controlPlane.tkr.reference.name.
    Reference,
    /// The annotation run.tanzu.vmware.com/resolve-tkr.
    Query,
}

/// Why no release can be chosen; the first half of each text is that of the original.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unresolved {
    /// Full version and hint are about different releases.
    #[error("full version {full:?} does not match version hint {hint:?}")]
    Disagree {
        /// The full version as written.
        full: String,
        /// The hint as written.
        hint: String,
    },
    /// The release named and the distribution are about different releases.
    #[error("release reference {reference:?} does not match {other} {text:?}")]
    ReferenceDisagrees {
        /// The name as written.
        reference: String,
        /// Which field says otherwise.
        other: &'static str,
        /// What that field says.
        text: String,
    },
    /// Nothing says which release is meant.
    #[error("the spec names no release")]
    Nothing,
    /// No release has this full version, name or prefix.
    #[error("{}", unknown(*field, text))]
    Unknown {
        /// The field that names it.
        field: RequestField,
        /// What it says.
        text: String,
    },
    /// The release exists but cannot be used.
    #[error("{}: {version}: {why}", unknown(*field, text))]
    Incompatible {
        /// The field that names it.
        field: RequestField,
        /// What it says.
        text: String,
        /// The newest release meant.
        version: Version,
        /// Why it cannot be used.
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
    /// The text that is to be corrected.
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

    /// The one version that is named in full, if one is.
    pub fn exact(&self) -> Option<Version> {
        [self.full, self.reference].iter().find_map(|text| Version::parse(text).ok())
    }

    /// The text that binds most closely, and what it is.
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

/// Returns the newest usable release that matches `request`. Releases with a matching node image come before all others.
///
/// # Errors
/// The fields contradict each other, or no usable release matches.
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
    // v1.36.3 may be the whole name of one release and a prefix of another: a whole name means that one.
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

/// The fit releases, newest first.
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

/// The fit releases a cluster of `current` can be upgraded to: newer, and at most one minor release ahead; newest first.
pub fn find_updates<'o>(current: &Version, available: &'o [AvailableRelease]) -> Vec<&'o Version> {
    usable_versions(available)
        .into_iter()
        .filter(|version| *version > current && explain_unreachable(current, version).is_none())
        .collect()
}

/// Why a cluster cannot go from one version to another, or nothing.
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

/// The releases by which a cluster that may take several minor releases goes from one version to another, the last one with
/// them; none if one of the minor releases between has none that can be used, or versions would decrease.
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

/// The release of a minor release on the way to another: the newest that can be used, of the same vendor if there is one. Vendors
/// package other versions of etcd and CoreDNS, and those cannot go back.
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

/// A warning about a Kubernetes version that works outside Cluster API's supported window, or nothing.
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
