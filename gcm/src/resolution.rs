//! Which release a cluster runs: from a full version, a short hint or the name of a release, to one release.
//!
//! Pure, so that admission, the reconciler and `layercake lint` decide alike.

use crate::version::Version;

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
}

impl AvailableRelease {
    /// A release of which nothing but its version is known.
    pub fn of(version: Version) -> Self {
        let incompatible = explain_incompatibility(&version);
        Self { version, incompatible }
    }
}

/// Why Cluster API cannot make a cluster of this Kubernetes version, or nothing.
pub fn explain_incompatibility(kubernetes: &Version) -> Option<String> {
    (kubernetes.minor() < OLDEST).then(|| {
        format!(
            "Kubernetes {} is older than v{}.{}, the oldest that Cluster API bootstraps",
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
    /// spec.topology.controlPlane.tkr.reference.name.
    pub reference: &'a str,
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
    #[error("no release is named")]
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
        if Self::written(full) && Version::parse(full).ok() != Version::parse(reference).ok() {
            return Some(against("full version", full));
        }
        (Self::written(hint) && !same(hint, reference)).then(|| against("version hint", hint))
    }
}

/// The release meant by `request`: the newest fit one. All that is written must agree.
pub fn resolve_release<'o>(
    request: ReleaseRequest<'_>,
    available: &'o [AvailableRelease],
) -> Result<&'o AvailableRelease, Unresolved> {
    let (field, text) = request.strongest().ok_or(Unresolved::Nothing)?;
    if let Some(contradiction) = request.contradiction() {
        return Err(contradiction);
    }
    let wanted = Version::parse(text).ok();
    let meant = |candidate: &&AvailableRelease| match field {
        RequestField::Hint => candidate.version.matches(text),
        RequestField::Full | RequestField::Reference => Some(&candidate.version) == wanted.as_ref(),
    };
    let newest = |fit: bool| {
        let candidates =
            available.iter().filter(meant).filter(|candidate| candidate.incompatible.is_none() == fit);
        candidates.max_by(|a, b| a.version.cmp(&b.version))
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
    let usable = usable_versions(available);
    let newest = |minor| usable.iter().find(|version| version.minor() == (to_major, minor)).copied();
    let between: Option<Vec<_>> = (from_minor + 1..to_minor).map(newest).collect();
    between.map(|between| between.into_iter().chain([to]).collect())
}

/// A warning about a Kubernetes version that works outside Cluster API's supported window, or nothing.
pub fn support_warning(kubernetes: &Version) -> Option<String> {
    (!SUPPORTED.contains(&kubernetes.minor())).then(|| {
        let (first, last) = (SUPPORTED.start(), SUPPORTED.end());
        format!(
            "Kubernetes {} is outside the window that Cluster API 1.14 supports (v{}.{} to v{}.{}): it is expected to work, but nobody tests it",
            kubernetes.minor_text(),
            first.0,
            first.1,
            last.0,
            last.1
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The releases of the simulated site.
    pub(crate) const SITE_VERSIONS: [&str; 12] = [
        "v1.17.4+vmware.1-tkg.1.0dba899",
        "v1.20.12+vmware.1-tkg.1.b9a42f3",
        "v1.21.2+vmware.1-tkg.1.ee25d55",
        "v1.22.9+vmware.1-tkg.1.cc71bc8",
        "v1.23.8+vmware.3-tkg.1",
        "v1.26.5+vmware.2-fips.1-tkg.1",
        "v1.30.1+vmware.1-fips-tkg.5",
        "v1.32.0+vmware.6-fips-vkr.2",
        "v1.33.1+vmware.1-fips-vkr.2",
        "v1.34.2+vmware.1-vkr.1",
        "v1.35.1+vmware.1-vkr.1",
        "v1.36.3+vmware.1-vkr.1",
    ];

    pub(crate) fn available(versions: &[&str]) -> Vec<AvailableRelease> {
        versions.iter().map(|text| AvailableRelease::of(Version::parse(text).unwrap())).collect()
    }

    fn chosen(full: &str, hint: &str, reference: &str, versions: &[&str]) -> Result<String, String> {
        let available = available(versions);
        resolve_release(ReleaseRequest { full, hint, reference }, &available)
            .map(|candidate| candidate.version.to_string())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_finds_its_release() {
        for (full, hint, reference, expected) in [
            ("v1.33.1+vmware.1-fips-vkr.2", "", "", SITE_VERSIONS[8]),
            ("1.33.1+vmware.1-fips-vkr.2", "v1.33", "", SITE_VERSIONS[8]),
            ("", "v1.23", "", SITE_VERSIONS[4]),
            ("", "1.23.8", "", SITE_VERSIONS[4]),
            ("", "v1", "", SITE_VERSIONS[11]),
            ("", "v1.22.9+vmware.1-tkg.1.cc71bc8", "", SITE_VERSIONS[3]),
            ("", "", "v1.22.9---vmware.1-tkg.1.cc71bc8", SITE_VERSIONS[3]),
            (
                "1.22.9+vmware.1-tkg.1.cc71bc8",
                "v1.22.9",
                "v1.22.9---vmware.1-tkg.1.cc71bc8",
                SITE_VERSIONS[3],
            ),
        ] {
            assert_eq!(
                chosen(full, hint, reference, &SITE_VERSIONS).as_deref(),
                Ok(expected),
                "{full} {hint} {reference}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_the_words_of_the_original() {
        let old = "Kubernetes v1.17 is older than v1.22, the oldest that Cluster API bootstraps";
        for (full, hint, reference, expected) in [
            (
                "v1.17.4+vmware.1-tkg.1.0dba899",
                "v1.17.5",
                "",
                r#"full version "v1.17.4+vmware.1-tkg.1.0dba899" does not match version hint "v1.17.5""#.to_owned(),
            ),
            ("", "1.25", "", r#"unable to find a compatible full version matching version hint "1.25""#.to_owned()),
            (
                "",
                "v1.17.4",
                "",
                format!(
                    r#"unable to find a compatible full version matching version hint "v1.17.4": v1.17.4+vmware.1-tkg.1.0dba899: {old}"#
                ),
            ),
            ("v1.2.3+x", "", "", r#"unable to find a compatible release with full version "v1.2.3+x""#.to_owned()),
            ("rubbish", "", "", r#"unable to find a compatible release with full version "rubbish""#.to_owned()),
            ("", "", "v1.30.0---vmware.1-tanzu.1", r#"unable to find a compatible release named "v1.30.0---vmware.1-tanzu.1""#.to_owned()),
            ("", "", "", "no release is named".to_owned()),
            ("", " ", "", "no release is named".to_owned()),
            (
                "v1.23.8+vmware.3-tkg.1",
                "",
                "v1.22.9---vmware.1-tkg.1.cc71bc8",
                r#"release reference "v1.22.9---vmware.1-tkg.1.cc71bc8" does not match full version "v1.23.8+vmware.3-tkg.1""#.to_owned(),
            ),
            (
                "",
                "v1.23",
                "v1.22.9---vmware.1-tkg.1.cc71bc8",
                r#"release reference "v1.22.9---vmware.1-tkg.1.cc71bc8" does not match version hint "v1.23""#.to_owned(),
            ),
        ] {
            assert_eq!(chosen(full, hint, reference, &SITE_VERSIONS), Err(expected), "{full} {hint} {reference}");
        }
    }

    #[test]
    fn a_hint_takes_the_newest_that_fits() {
        let versions = ["v1.15.1+vmware.1", "v1.15.10+vmware.1", "v1.33.9+vmware.1", "v1.33.10+vmware.1"];
        assert_eq!(chosen("", "v1.33", "", &versions).as_deref(), Ok("v1.33.10+vmware.1"));
        assert!(chosen("", "v1.15.1", "", &versions).unwrap_err().contains("v1.15.1+vmware.1: "));
    }

    #[test]
    fn upgrades_go_up_and_skip_no_minor_release() {
        let v = |text| Version::parse(text).unwrap();
        for (from, to, allowed) in [
            ("v1.32.0+vmware.6-fips-vkr.2", "v1.33.1+vmware.1-fips-vkr.2", true),
            ("v1.32.0+vmware.6-fips-vkr.2", "v1.32.0+vmware.6-fips-vkr.2", true),
            ("v1.32.0+vmware.6-fips-vkr.2", "v1.34.2+vmware.1-vkr.1", false),
            ("v1.33.1+vmware.1-fips-vkr.2", "v1.32.0+vmware.6-fips-vkr.2", false),
            ("v1.33.1+vmware.1-fips-vkr.2", "v1.33.1+vmware.1-fips-vkr.1", false),
            ("v1.33.1+vmware.1", "v2.0.0+vmware.1", false),
        ] {
            assert_eq!(explain_unreachable(&v(from), &v(to)).is_none(), allowed, "{from} {to}");
        }
        let available = available(&SITE_VERSIONS);
        assert_eq!(find_updates(&v(SITE_VERSIONS[7]), &available), [&v(SITE_VERSIONS[8])]);
        assert!(find_updates(&v(SITE_VERSIONS[11]), &available).is_empty());
    }

    #[test]
    fn a_warning_outside_the_supported_window() {
        let warned: Vec<bool> = SITE_VERSIONS
            .iter()
            .map(|text| support_warning(&Version::parse(text).unwrap()).is_some())
            .collect();
        assert_eq!(warned.iter().filter(|warned| **warned).count(), 7);
        assert!(warned[6] && !warned[7] && !warned[11]);
    }

    proptest! {
        #[test]
        fn any_text_resolves_to_a_fit_offer_or_an_error(full in ".{0,12}", hint in "v?1?\\.?[0-9]{0,2}.{0,4}", reference in ".{0,6}") {
            let available = available(&SITE_VERSIONS);
            if let Ok(candidate) = resolve_release(ReleaseRequest { full: &full, hint: &hint, reference: &reference }, &available) {
                prop_assert!(candidate.incompatible.is_none());
                prop_assert!(hint.trim().is_empty() || candidate.version.matches(&hint));
            }
        }

        #[test]
        fn every_prefix_of_a_fit_offer_resolves_to_it_or_to_a_newer(at in 3_usize..12) {
            let available = available(&SITE_VERSIONS);
            for prefix in available[at].version.prefixes() {
                let found = resolve_release(ReleaseRequest { hint: &prefix, ..ReleaseRequest::default() }, &available).unwrap();
                prop_assert!(found.version >= available[at].version);
            }
        }
    }
}
