//! Tests release references that are name prefixes.

use api::gcm::TanzuKubernetesCluster;
use serde_json::{Value, json};

use super::super::defaults::with_defaults;
use super::super::validate;
use super::{REFERENCE, set, stored, updated};
use crate::testing::{SITE_VERSIONS, available, sound};

/// Returns all release names in a cluster: reference, full version, and pool references.
fn release_names(tkc: &TanzuKubernetesCluster) -> Vec<String> {
    fn reference(tkr: Option<&api::gcm::parts::Tkr>) -> &str {
        tkr.and_then(api::gcm::parts::Tkr::name).unwrap_or_default()
    }
    let topology = &tkc.spec.topology;
    let full = tkc.spec.distribution.as_ref().and_then(|d| d.full_version.clone()).unwrap_or_default();
    let mut names = vec![reference(topology.control_plane.tkr.as_ref()).to_owned(), full];
    names.extend(topology.node_pools.iter().map(|pool| reference(pool.tkr.as_ref()).to_owned()));
    names
}

#[test]
fn a_reference_may_be_a_prefix_and_is_written_out() {
    let of = |version: &str| {
        let name = version.replace('+', "---");
        vec![name.clone(), version.to_owned(), name]
    };
    let (old, new) = ("v1.32.0+vmware.6-fips-vkr.2", "v1.33.1+vmware.1-fips-vkr.2");
    let mut written = sound();
    for (control_plane, pool) in [
        ("v1.32", None),
        ("v1.32.0", Some("v1.32")),
        ("v1.32.0---vmware", Some("v1.32.0---vmware.6-fips-vkr.2")),
    ] {
        written.spec.topology.control_plane.tkr = Some(api::gcm::parts::Tkr::named(control_plane));
        written.spec.topology.node_pools[0].tkr = pool.map(api::gcm::parts::Tkr::named);
        let available = available(&SITE_VERSIONS);
        let full = with_defaults(&written, None, &available);
        assert_eq!(release_names(&full), of(old), "{control_plane}");
        assert_eq!(validate(&full, None, &available), []);
    }
    let before = stored("v1.32");
    // Apply the same manifest again, then one that names the next release, with and without pool references.
    let pool = "/spec/topology/nodePools/0/tkr/reference/name";
    for (reference, in_pool, runs) in [
        ("v1.32", None, old),
        ("v1.33", None, new),
        ("v1.33", Some("v1.33"), new),
        ("v1.33", Some("v1.32"), new),
    ] {
        let (after, denials) = updated(&before, |value| {
            set(REFERENCE, json!(reference))(value);
            if let Some(name) = in_pool {
                set(pool, json!(name))(value);
            }
        });
        assert_eq!((release_names(&after), denials), (of(runs), Vec::new()), "{reference} {in_pool:?}");
    }
    let outcomes = [
        updated(&before, set(REFERENCE, json!("v1.34"))).1,
        updated(&before, set(REFERENCE, json!("v1.29"))).1,
        updated(&before, set(pool, json!("v1.34"))).1,
        updated(&stored_by_hint("v1.32"), set(REFERENCE, json!("v1.33"))).1,
    ];
    insta::assert_yaml_snapshot!(outcomes);
}

/// A newer patch release doesn't upgrade a cluster whose manifest is applied again.
#[test]
fn the_same_prefix_again_is_no_upgrade() {
    let before = with_defaults(&stored("v1.33"), None, &available(&SITE_VERSIONS));
    let mut newer = SITE_VERSIONS.to_vec();
    newer.push("v1.33.9+vmware.1-vkr.1");
    for distribution in [serde_json::to_value(&before.spec.distribution).unwrap(), Value::Null] {
        let mut again = serde_json::to_value(&before).unwrap();
        set(REFERENCE, json!("v1.33"))(&mut again);
        again["spec"]["distribution"] = distribution;
        let after = with_defaults(&serde_json::from_value(again).unwrap(), Some(&before), &available(&newer));
        assert_eq!(release_names(&after), release_names(&before));
    }
    let mut meant = serde_json::to_value(&before).unwrap();
    set(REFERENCE, json!("v1.33.9"))(&mut meant);
    let after = with_defaults(&serde_json::from_value(meant).unwrap(), Some(&before), &available(&newer));
    assert_eq!(release_names(&after)[0], "v1.33.9---vmware.1-vkr.1");
}

fn stored_by_hint(hint: &str) -> TanzuKubernetesCluster {
    let mut cluster = sound();
    cluster.spec.topology.control_plane.tkr = None;
    cluster.spec.distribution =
        Some(api::gcm::parts::Distribution { version: Some(hint.to_owned()), ..Default::default() });
    with_defaults(&cluster, None, &available(&SITE_VERSIONS))
}
