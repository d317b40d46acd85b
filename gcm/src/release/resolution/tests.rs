//! Tests which strings resolve to which release, and which strings are refused.

use proptest::prelude::*;

use super::*;
use crate::testing::node_image;

/// The versions of the releases in the simulated vCenter.
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
    resolve_release(ReleaseRequest { full, hint, reference, ..ReleaseRequest::default() }, &available)
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
        ("", "", "v1.36", SITE_VERSIONS[11]),
        ("", "", "v1.36.3", SITE_VERSIONS[11]),
        ("", "", "v1.36.3---vmware", SITE_VERSIONS[11]),
        ("", "", "v1", SITE_VERSIONS[11]),
        ("", "v1.33", "v1", SITE_VERSIONS[8]),
        ("", "v1", "v1.33", SITE_VERSIONS[8]),
        ("v1.33.1+vmware.1-fips-vkr.2", "", "v1.33", SITE_VERSIONS[8]),
        ("1.22.9+vmware.1-tkg.1.cc71bc8", "v1.22.9", "v1.22.9---vmware.1-tkg.1.cc71bc8", SITE_VERSIONS[3]),
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
    let old = "Kubernetes v1.17 is older than v1.22, the oldest version that Cluster API can bootstrap";
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
        ("", "", "", "the spec names no release".to_owned()),
        ("", " ", "", "the spec names no release".to_owned()),
        (
            "v1.23.8+vmware.3-tkg.1",
            "",
            "v1.22.9---vmware.1-tkg.1.cc71bc8",
            r#"release reference "v1.22.9---vmware.1-tkg.1.cc71bc8" does not match full version "v1.23.8+vmware.3-tkg.1""#.to_owned(),
        ),
        ("", "", "v1.36.30", r#"unable to find a compatible release named "v1.36.30""#.to_owned()),
        ("", "", "v1.36.3---vmw", r#"unable to find a compatible release named "v1.36.3---vmw""#.to_owned()),
        (
            "v1.23.8+vmware.3-tkg.1",
            "",
            "v1.22",
            r#"release reference "v1.22" does not match full version "v1.23.8+vmware.3-tkg.1""#.to_owned(),
        ),
        ("", "v1.2", "v1.22", r#"release reference "v1.22" does not match version hint "v1.2""#.to_owned()),
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
fn a_query_narrows_what_a_prefix_or_nothing_names() {
    let mut available = available(&SITE_VERSIONS);
    for (at, track) in [(7, "stable"), (8, "stable"), (9, "edge")] {
        available[at].labels.insert("track".to_owned(), track.to_owned());
    }
    let chosen = |reference: &str, hint: &str, query: &str| {
        resolve_release(ReleaseRequest { hint, reference, query, ..ReleaseRequest::default() }, &available)
            .map(|candidate| candidate.version.to_string())
            .map_err(|e| e.to_string())
    };
    for (reference, hint, query, expected) in [
        ("", "", "track=stable", SITE_VERSIONS[8]),
        ("", "", "track,!v1.33", SITE_VERSIONS[9]),
        ("v1", "", "track=stable", SITE_VERSIONS[8]),
        ("v1.32", "", "track in (stable, edge)", SITE_VERSIONS[7]),
        ("", "v1", "track=edge", SITE_VERSIONS[9]),
        ("", "", "v1.35", SITE_VERSIONS[10]),
    ] {
        assert_eq!(chosen(reference, hint, query).as_deref(), Ok(expected), "{reference} {hint} {query}");
    }
    let nothing = chosen("", "", "track=none").unwrap_err();
    assert_eq!(nothing, r#"unable to find a compatible release matching query "track=none""#);
    assert!(chosen("v1.33", "", "track=edge").is_err());
    assert!(chosen("", "", "v1.17").unwrap_err().contains("older than v1.22"));
}

#[test]
fn a_reference_that_is_a_whole_name_means_that_release() {
    let versions = ["v1.33.1", "v1.33.1+vmware.1", "v1.33.1+vmware.2"];
    assert_eq!(chosen("", "", "v1.33.1", &versions).as_deref(), Ok("v1.33.1"));
    assert_eq!(chosen("", "", "v1.33.1", &versions[1..]).as_deref(), Ok("v1.33.1+vmware.2"));
    assert_eq!(chosen("v1.33.1", "", "v1.33.1", &versions[1..]).ok(), None, "a full version is no prefix");
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
fn steps_between_minor_releases_are_of_one_vendor_where_they_can_be() {
    let available = available(&[
        "v1.34.2+vmware.1-vkr.1",
        "v1.35.1+vmware.1-vkr.1",
        "v1.35.4+layercake.1",
        "v1.36.3+layercake.1",
        "v1.36.3+vmware.1-vkr.1",
        "v1.36.9",
    ]);
    let v = |text: &str| Version::parse(text).unwrap();
    for (to, between) in [
        ("v1.36.3+vmware.1-vkr.1", "v1.35.1+vmware.1-vkr.1"),
        ("v1.36.3+layercake.1", "v1.35.4+layercake.1"),
        ("v1.36.9", "v1.35.4+layercake.1"),
    ] {
        let to = v(to);
        let steps = find_steps(&v("v1.34.2+vmware.1-vkr.1"), &to, &available).unwrap();
        assert_eq!(steps, [&v(between), &to]);
    }
}

#[test]
fn a_warning_outside_the_supported_window() {
    let warned: Vec<bool> =
        SITE_VERSIONS.iter().map(|text| support_warning(&Version::parse(text).unwrap()).is_some()).collect();
    assert_eq!(warned.iter().filter(|warned| **warned).count(), 7);
    assert!(warned[6] && !warned[7] && !warned[11]);
}

#[test]
fn a_prefix_takes_the_newest_release_with_the_operating_system_that_is_asked_for() {
    let image = |os: &str| {
        node_image("", &[("os-name", os), ("os-type", if os == "windows" { os } else { "linux" })])
    };
    let with = |version: &str, systems: &[&str]| AvailableRelease {
        images: systems.iter().map(|os| image(os)).collect(),
        ..AvailableRelease::of(Version::parse(version).unwrap())
    };
    let (own, both, newest) = ("v1.36.1+layercake.1", "v1.36.2+vmware.1", "v1.36.3+vmware.1");
    let available = [
        with(own, &["debian"]),
        with(both, &["photon", "ubuntu"]),
        with(newest, &["photon"]),
        with("v1.36.9+own.1", &["windows"]),
        with("v1.35.1+vmware.1", &["ubuntu"]),
    ];
    let chosen = |hint: &str, os_image: &str| {
        let request = ReleaseRequest { hint, os_image, ..ReleaseRequest::default() };
        resolve_release(request, &available).unwrap().version.to_string()
    };
    for (hint, os_image, expected) in [
        ("v1.36", "os-name=debian", own),
        ("v1.36", "os-name=ubuntu", both),
        ("v1.36", "os-name=photon", newest),
        ("v1", "os-name in (ubuntu, debian)", both),
        // Windows images don't count, because they can't boot nodes.
        ("v1.36", "", newest),
        // Admission then reports the release's images.
        ("v1.36", "os-name=rhel", "v1.36.9+own.1"),
        ("v1.36.3", "os-name=ubuntu", newest),
    ] {
        assert_eq!(chosen(hint, os_image), expected, "{hint} {os_image}");
    }
}

proptest! {
    #[test]
    fn any_text_resolves_to_a_fit_offer_or_an_error(full in ".{0,12}", hint in "v?1?\\.?[0-9]{0,2}.{0,4}", reference in ".{0,6}") {
        let available = available(&SITE_VERSIONS);
        if let Ok(candidate) = resolve_release(ReleaseRequest { full: &full, hint: &hint, reference: &reference, ..ReleaseRequest::default() }, &available) {
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
