//! Tests real manifests, and each rule once.

mod references;

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use jiff::Timestamp;
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::defaults::{filled_in, missing_values, patch, with_defaults};
use super::{path_in, validate, warnings};
use crate::testing::{AUTHORITY, SITE_VERSIONS, available, cluster, hub, manifest, set_at, sound};

/// Returns the resolved release of a changed manifest, or the denials with the author's field names.
fn admitted(name: &str, change: impl Fn(&mut Value)) -> Result<String, Vec<String>> {
    let (_, mut written) = manifest(name);
    change(&mut written);
    let version = written["apiVersion"].as_str().unwrap().rsplit_once('/').unwrap().1.to_owned();
    let available = available(&SITE_VERSIONS);
    let cluster = with_defaults(&hub(&written), None, &available);
    let denials = validate(&cluster, None, &available);
    if denials.is_empty() {
        return Ok(crate::spec::release::current_version(&cluster).unwrap().to_string());
    }
    Err(denials
        .into_iter()
        .map(|denial| {
            assert!(!denial.field.is_empty() && !denial.reason.is_empty() && !denial.remedy.is_empty());
            path_in(&version, &denial.to_string())
        })
        .collect())
}

const ALL: [&str; 11] = [
    "minimal-hint.yaml",
    "volumes-etcd-containerd.yaml",
    "upgrade-full-version-null.yaml",
    "seed-test-cluster.yaml",
    "tab-before-comment.yaml",
    "node-pool-service-domain.yaml",
    "converted-distribution-and-tkr.yaml",
    "full-proxy-trust.yaml",
    "windows-line-ends.yaml",
    "invalid/unknown-settings-security.yaml",
    "invalid/v1alpha1-fields-under-v1alpha3.yaml",
];

#[test]
fn real_manifests_are_accepted_or_refused_with_the_right_words() {
    let outcomes: Vec<Value> = ALL
        .iter()
        .map(|name| match admitted(name, |_| {}) {
            Ok(release) => json!({ *name: { "accepted": release } }),
            Err(denials) => json!({ *name: { "refused": denials } }),
        })
        .collect();
    insta::assert_yaml_snapshot!(outcomes);
}

#[test]
fn real_manifests_of_old_releases_are_sound_but_for_the_release() {
    for name in ALL.iter().take(9).filter(|name| **name != "full-proxy-trust.yaml") {
        let outcome = admitted(name, |written| {
            written["spec"]["distribution"] = json!({ "version": "v1.33" });
            for group in ["controlPlane", "nodePools"] {
                match &mut written["spec"]["topology"][group] {
                    Value::Array(pools) => {
                        for pool in pools {
                            pool.as_object_mut().unwrap().remove("tkr");
                        }
                    }
                    Value::Object(group) => drop(group.remove("tkr")),
                    _ => {}
                }
            }
        });
        assert_eq!(outcome.as_deref(), Ok("v1.33.1+vmware.1-fips-vkr.2"), "{name}");
    }
}

#[test]
fn the_same_manifest_means_the_same_in_every_version() {
    let available = available(&SITE_VERSIONS);
    for name in ALL.into_iter().take(9) {
        let (hub, _) = manifest(name);
        let mut value = serde_json::to_value(&hub).unwrap();
        for version in ["v1alpha2", "v1alpha1", "v1alpha3"] {
            value = api::gcm::convert(&value, &format!("run.tanzu.vmware.com/{version}")).unwrap();
        }
        let back: TanzuKubernetesCluster = serde_json::from_value(value).unwrap();
        assert_eq!(validate(&back, None, &available), validate(&hub, None, &available), "{name}");
    }
}

/// Returns the denials for a valid cluster after a change to its document.
fn denied(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut value = serde_json::to_value(sound()).unwrap();
    change(&mut value);
    let available = available(&SITE_VERSIONS);
    let changed = with_defaults(&serde_json::from_value(value).unwrap(), None, &available);
    validate(&changed, None, &available).iter().map(ToString::to_string).collect()
}

/// Returns a change that sets the value at a JSON pointer.
fn set(pointer: &str, new: Value) -> impl FnOnce(&mut Value) {
    move |value| set_at(value, pointer, new)
}

const CONTROL_PLANE: &str = "/spec/topology/controlPlane";
const POOL: &str = "/spec/topology/nodePools/0";
const NETWORK: &str = "/spec/settings/network";
const PODS: &str = "/spec/settings/network/pods";
const SERVICES: &str = "/spec/settings/network/services";

/// Returns the denials for each change. A change consists of its name, the parent path, the key, and the new value.
fn refused(changes: Vec<(&str, &str, &str, Value)>) -> Vec<Value> {
    let refuse = |(name, parent, key, value): (&str, &str, &str, Value)| {
        let denials = denied(set(&format!("{parent}/{key}"), value));
        assert!(!denials.is_empty(), "{name} was accepted");
        assert!(!denials.concat().contains("secret"), "{name} repeats a password");
        json!({ name: denials })
    };
    changes.into_iter().map(refuse).collect()
}

#[test]
fn a_sound_cluster_is_accepted() {
    assert!(denied(|_| {}).is_empty());
    let labels =
        json!({"workload": "gpu", "node.cluster.x-k8s.io/a": "b", "node-role.kubernetes.io/gpu": ""});
    assert_eq!(denied(set("/spec/topology/nodePools/0/labels", labels)), Vec::<String>::new());
    assert!(denied(set("/spec/topology/nodePools", json!([]))).is_empty());
    assert!(denied(set("/spec/topology/nodePools/0/replicas", json!(0))).is_empty());
    assert!(denied(set("/spec/settings/network/pods/cidrBlocks", json!(["192.0.2.7/16"]))).is_empty());
}

#[test]
fn every_rule_names_field_reason_and_remedy() {
    let text = "x".repeat(42);
    let ca = json!([{ "name": "ca", "data": "LS0tLS1C...LS0tCg==" }]);
    let volume =
        |mount: &str, size: &str| json!([{"name": "v", "mountPath": mount, "capacity": {"storage": size}}]);
    let twins = json!([
        {"name": "a", "vmClass": "s", "storageClass": "g"},
        {"name": "a", "vmClass": "s", "storageClass": "g"},
    ]);
    let list = refused(vec![
        ("long name", "/metadata", "name", json!(text)),
        ("name with a digit first", "/metadata", "name", json!("1c")),
        ("two control plane nodes", CONTROL_PLANE, "replicas", json!(2)),
        ("no class", POOL, "vmClass", json!("")),
        ("negative replicas", POOL, "replicas", json!(-1)),
        ("pool name", POOL, "name", json!("Pool_1")),
        ("reserved pool name", POOL, "name", json!("control-plane")),
        ("pools of one name", "/spec/topology", "nodePools", twins),
        ("pool of another release", POOL, "tkr/reference/name", json!("v1.32.0---vmware.6-fips-vkr.2")),
        ("mount path", POOL, "volumes", volume("var/lib", "4Gi")),
        ("size", POOL, "volumes", volume("/var/lib/etcd", "much")),
        ("no size", POOL, "volumes", json!([{"name": "v", "mountPath": "/v", "capacity": {}}])),
        ("drain timeout", CONTROL_PLANE, "nodeDrainTimeout", json!("soon")),
        ("label", POOL, "labels", json!({"a b": "c"})),
        ("label of kubernetes.io", POOL, "labels", json!({"foo.kubernetes.io/a": "b"})),
        ("taint", POOL, "taints", json!([{"key": "a", "effect": "Never"}])),
        ("no range", PODS, "cidrBlocks", json!(["192.168.0.0"])),
        ("overlap", SERVICES, "cidrBlocks", json!(["192.168.128.5/17"])),
        ("small services", SERVICES, "cidrBlocks", json!(["10.96.0.0/30"])),
        ("large services", SERVICES, "cidrBlocks", json!(["10.0.0.0/8"])),
        ("small pods", PODS, "cidrBlocks", json!(["192.168.0.0/25"])),
        ("two ranges", PODS, "cidrBlocks", json!(["192.168.0.0/17", "192.169.0.0/17"])),
        ("domain", NETWORK, "serviceDomain", json!("Cluster_Local")),
        ("cni", NETWORK, "cni", json!({"name": "ncp"})),
        ("half a proxy", NETWORK, "proxy", json!({"httpProxy": "http://u:secret@10.0.0.1:80"})),
        (
            "proxy without scheme",
            NETWORK,
            "proxy",
            json!({"httpProxy": "u:secret@p", "httpsProxy": "ftp://u:secret@p", "noProxy": []}),
        ),
        ("placeholder authority", NETWORK, "trust", json!({"additionalTrustedCAs": ca})),
        (
            "PEM authority",
            NETWORK,
            "trust",
            json!({"additionalTrustedCAs": [{"name": "a/b", "data": "-----BEGIN CERTIFICATE-----"}]}),
        ),
        ("unknown release", CONTROL_PLANE, "tkr/reference/name", json!("v1.29.4---vmware.3-fips.1-tkg.1")),
    ]);
    insta::assert_yaml_snapshot!(list);
}

#[test]
fn what_would_mislead_programs_is_refused() {
    let ours = json!({"run.tanzu.vmware.com/kubernetesDistributionVersion": "v1.2.3"});
    let broken =
        json!({"httpProxy": "http://u:secret@p\nExecStartPre=x", "httpsProxy": "http://p", "noProxy": []});
    let twins = json!([{"name": "corp", "data": AUTHORITY}, {"name": "corp.crt", "data": AUTHORITY}]);
    let list = refused(vec![
        ("label of Cluster API", POOL, "labels", json!({"cluster.x-k8s.io/control-plane": ""})),
        ("label of ours", POOL, "labels", ours),
        ("proxy with a line break", NETWORK, "proxy", broken),
        ("authorities of one file", NETWORK, "trust", json!({"additionalTrustedCAs": twins})),
    ]);
    insta::assert_yaml_snapshot!(list);
}

#[test]
fn certificates_and_proxies_that_are_real_are_accepted() {
    let network = json!({
        "trust": {"additionalTrustedCAs": [{"name": "CompanyInternalCA-1", "data": AUTHORITY}]},
        "proxy": {"httpProxy": "http://user:pw@10.0.0.1:3128", "httpsProxy": "http://10.0.0.1:3128", "noProxy": ["10.0.0.0/8"]},
    });
    assert_eq!(denied(set("/spec/settings/network", network)), Vec::<String>::new());
}

/// Returns the changed cluster after the mutating webhook, and the denials for the change.
fn updated(
    before: &TanzuKubernetesCluster,
    change: impl FnOnce(&mut Value),
) -> (TanzuKubernetesCluster, Vec<String>) {
    let mut value = serde_json::to_value(before).unwrap();
    change(&mut value);
    let available = available(&SITE_VERSIONS);
    let after = with_defaults(&serde_json::from_value(value).unwrap(), Some(before), &available);
    let denials = validate(&after, Some(before), &available).iter().map(ToString::to_string).collect();
    (after, denials)
}

fn stored(version: &str) -> TanzuKubernetesCluster {
    let mut cluster = sound();
    cluster.spec.topology.control_plane.tkr = Some(api::gcm::parts::Tkr::named(version));
    with_defaults(&cluster, None, &available(&SITE_VERSIONS))
}

const REFERENCE: &str = "/spec/topology/controlPlane/tkr/reference/name";

#[test]
fn what_changes_takes_along_what_admission_filled_in() {
    let before = stored("v1.32.0---vmware.6-fips-vkr.2");
    let expect = |after: &TanzuKubernetesCluster| {
        let names: Vec<_> = after
            .spec
            .topology
            .node_pools
            .iter()
            .map(|pool| pool.tkr.as_ref().unwrap().name().unwrap())
            .collect();
        assert_eq!(names, ["v1.33.1---vmware.1-fips-vkr.2"]);
        let distribution = after.spec.distribution.as_ref().unwrap();
        assert_eq!(distribution.full_version.as_deref(), Some("v1.33.1+vmware.1-fips-vkr.2"));
        assert_eq!(
            after.spec.topology.control_plane.tkr.as_ref().unwrap().name(),
            Some("v1.33.1---vmware.1-fips-vkr.2")
        );
    };
    for change in [
        set(REFERENCE, json!("v1.33.1---vmware.1-fips-vkr.2")),
        set("/spec/distribution/fullVersion", json!("v1.33.1+vmware.1-fips-vkr.2")),
        set("/spec/distribution", json!({"version": "v1.33"})),
    ]
    .map(|change| Box::new(change) as Box<dyn FnOnce(&mut Value)>)
    {
        let (after, denials) = updated(&before, change);
        assert_eq!(denials, Vec::<String>::new());
        expect(&after);
    }
}

#[test]
fn upgrades_that_cannot_be_are_refused() {
    let before = stored("v1.33.1---vmware.1-fips-vkr.2");
    let outcomes: Vec<Vec<String>> = vec![
        updated(&before, set(REFERENCE, json!("v1.32.0---vmware.6-fips-vkr.2"))).1,
        updated(&before, set(REFERENCE, json!("v1.35.1---vmware.1-vkr.1"))).1,
        updated(&before, set("/spec/distribution/version", json!("v1.34"))).1,
        updated(&before, set("/spec/distribution", json!({"version": "v1.28"}))).1,
    ];
    insta::assert_yaml_snapshot!(outcomes);
}

#[test]
fn what_must_not_change_is_refused() {
    let before = stored("v1.33.1---vmware.1-fips-vkr.2");
    let mut three = before.clone();
    three.spec.topology.control_plane.replicas = Some(3);
    let outcomes: Vec<Vec<String>> = vec![
        updated(&before, set("/spec/settings/network/pods/cidrBlocks", json!(["192.168.0.0/17"]))).1,
        updated(&before, set("/spec/settings/network/cni/name", json!("calico"))).1,
        updated(&before, set("/spec/settings/network/serviceDomain", json!("other.local"))).1,
        updated(&three, set("/spec/topology/controlPlane/replicas", json!(1))).1,
    ];
    insta::assert_yaml_snapshot!(outcomes);
    assert!(updated(&before, set("/spec/topology/controlPlane/replicas", json!(3))).1.is_empty());
    assert!(updated(&before, set("/spec/topology/nodePools/0/vmClass", json!("large"))).1.is_empty());
}

#[test]
fn a_cluster_whose_release_is_gone_stays_editable() {
    let before = stored("v1.33.1---vmware.1-fips-vkr.2");
    let mut after = before.clone();
    after.spec.topology.node_pools[0].replicas = Some(5);
    assert!(validate(&after, Some(&before), &available(&SITE_VERSIONS[9..])).is_empty());
    let mut leaving = before.clone();
    leaving.spec.topology.control_plane.replicas = Some(2);
    assert!(!validate(&leaving, Some(&before), &available(&SITE_VERSIONS)).is_empty());
    leaving.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(validate(&leaving, Some(&before), &available(&SITE_VERSIONS)).is_empty());
}

#[test]
fn defaults_are_those_of_the_original_and_a_second_pass_adds_nothing() {
    let bare = cluster(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: c, namespace: ns}
spec:
  distribution: {version: v1.34}
  topology:
    controlPlane: {vmClass: s, storageClass: g}
    nodePools:
    - {name: a, vmClass: s, storageClass: g}
    - {name: b, vmClass: s, storageClass: g, replicas: 2}
",
    );
    let available = available(&SITE_VERSIONS);
    let full = with_defaults(&bare, None, &available);
    insta::assert_yaml_snapshot!(full);
    assert!(missing_values(&full, Some(&full), &available).is_empty());
    let document = serde_json::to_value(&bare).unwrap();
    insta::assert_yaml_snapshot!("patch", patch(&document, &missing_values(&bare, None, &available)));
}

#[test]
fn records_of_a_cluster_that_a_user_leaves_out_are_put_back() {
    let available = available(&SITE_VERSIONS);
    let mut old = with_defaults(&sound(), None, &available);
    let replaced = old.clone();
    for key in annotation::RECORDS {
        old.annotations_mut().insert((*key).to_owned(), "noted".to_owned());
    }
    old.annotations_mut().insert("a".to_owned(), "b".to_owned());
    let document = serde_json::to_value(&replaced).unwrap();
    let filled = filled_in(&document, &missing_values(&replaced, Some(&old), &available));
    let annotations = filled["metadata"]["annotations"].as_object().unwrap();
    assert!(annotations.keys().eq(annotation::RECORDS), "{annotations:?}");
    assert!(missing_values(&old, Some(&old), &available).is_empty());
    assert!(missing_values(&replaced, None, &available).is_empty());
}

#[test]
fn routed_pods_get_no_range() {
    let mut routed = sound();
    let network = routed.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    network.cni = Some(api::gcm::parts::Cni { name: "antrea-nsx-routed".to_owned() });
    network.pods = None;
    let full = with_defaults(&routed, None, &available(&SITE_VERSIONS));
    assert!(full.spec.settings.unwrap().network.unwrap().pods.is_none());
}

#[test]
fn warnings_are_worth_their_words() {
    let mut old = stored("v1.22.9---vmware.1-tkg.1.cc71bc8");
    let network = old.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    network.pods =
        Some(api::gcm::parts::NetworkRanges { cidr_blocks: Some(vec!["192.0.2.0/24".to_owned()]) });
    insta::assert_yaml_snapshot!(warnings(&old, &available(&SITE_VERSIONS), Timestamp::UNIX_EPOCH));
    let sound = stored("v1.33.1---vmware.1-fips-vkr.2");
    assert!(warnings(&sound, &available(&SITE_VERSIONS), Timestamp::UNIX_EPOCH).is_empty());
}

#[test]
fn fields_are_named_as_their_author_wrote_them() {
    for (field, old) in [
        ("spec.topology.controlPlane.replicas", "spec.topology.controlPlane.count"),
        ("spec.topology.nodePools[0].vmClass", "spec.topology.workers.class"),
        ("spec.topology.nodePools[0].volumes[1].name", "spec.topology.workers.volumes[1].name"),
        ("spec.topology.controlPlane.tkr.reference.name", "spec.distribution.fullVersion"),
        ("metadata.name", "metadata.name"),
    ] {
        assert_eq!(path_in("v1alpha1", field), old);
        assert_eq!(path_in("v1alpha2", field), field);
    }
}

proptest! {
    /// Validation doesn't panic on any value that a user writes.
    #[test]
    fn any_value_at_any_place_gets_an_answer(at in 0_usize..12, text in ".{0,20}", number in any::<i32>()) {
        let places = [
            "/metadata/name", "/spec/topology/controlPlane/replicas", "/spec/topology/controlPlane/vmClass",
            "/spec/topology/nodePools/0/name", "/spec/topology/nodePools/0/replicas", "/spec/topology/nodePools/0/nodeDrainTimeout",
            "/spec/distribution", "/spec/settings/network/serviceDomain", "/spec/settings/network/pods/cidrBlocks",
            "/spec/settings/network/cni", "/spec/settings/network/proxy", "/spec/topology/controlPlane/tkr/reference/name",
        ];
        let value = match places[at] {
            place if place.ends_with("replicas") => json!(number),
            "/spec/distribution" => json!({"version": text}),
            "/spec/settings/network/pods/cidrBlocks" => json!([text]),
            "/spec/settings/network/cni" => json!({"name": text}),
            "/spec/settings/network/proxy" => json!({"httpProxy": text}),
            _ => json!(text),
        };
        let denials = denied(set(places[at], value));
        prop_assert!(denials.iter().all(|denial| denial.starts_with("spec.") || denial.starts_with("metadata.")));
    }
}

#[test]
fn an_upgrade_over_minor_releases_is_asked_for() {
    let old = stored("v1.33.1+vmware.1-fips-vkr.2");
    let mut new = old.clone();
    new.spec.distribution.as_mut().unwrap().full_version = Some("v1.36.3+vmware.1-vkr.1".to_owned());
    let available = available(&SITE_VERSIONS);
    let refused = validate(&new, Some(&old), &available);
    insta::assert_snapshot!(refused[0].to_string());
    let mut annotations = new.metadata.annotations.take().unwrap_or_default();
    annotations.insert(api::names::annotation::UPGRADE_IN_STEPS.to_owned(), "true".to_owned());
    new.metadata.annotations = Some(annotations);
    assert_eq!(validate(&new, Some(&old), &available).len(), 0);
    // Steps can't cross a minor release without a usable release.
    let gap: Vec<_> =
        available.iter().filter(|release| release.version.minor() != (1, 35)).cloned().collect();
    assert!(validate(&new, Some(&old), &gap)[0].to_string().contains("minor releases cannot be skipped"));
}

#[test]
fn a_reference_may_be_a_prefix_of_a_release() {
    let mut old = stored("v1.34.2+vmware.1-vkr.1");
    old.spec.topology.node_pools[0].tkr = old.spec.topology.control_plane.tkr.clone();
    let available = available(&SITE_VERSIONS);
    let mut new = old.clone();
    let short = |name: &str| serde_json::from_value(json!({"reference": {"name": name}})).unwrap();
    new.spec.topology.control_plane.tkr = short("v1.35");
    new.spec.topology.node_pools[0].tkr = short("v1.35.1");
    assert_eq!(validate(&new, Some(&old), &available).len(), 0);
    let filled = with_defaults(&new, Some(&old), &available);
    let name = |tkr: &Option<api::gcm::parts::Tkr>| tkr.as_ref().unwrap().name().unwrap().to_owned();
    assert_eq!(name(&filled.spec.topology.control_plane.tkr), "v1.35.1---vmware.1-vkr.1");
    assert_eq!(name(&filled.spec.topology.node_pools[0].tkr), "v1.35.1---vmware.1-vkr.1");
    let full = filled.spec.distribution.as_ref().unwrap().full_version.as_deref();
    assert_eq!(full, Some("v1.35.1+vmware.1-vkr.1"));
    new.spec.topology.control_plane.tkr = short("v1.29");
    let refused = validate(&new, Some(&old), &available)[0].to_string();
    assert!(refused.contains(r#"unable to find a compatible release named "v1.29""#), "{refused}");
}
