//! Tests the conversion of TanzuKubernetesClusters: real manifests, changes between conversions, and property-based
//! round trips.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clusters;

use std::path::Path;

use api::{
    gcm::{convert, v1alpha1, v1alpha3},
    names::annotation::CONVERSION_DATA,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const V1: &str = "run.tanzu.vmware.com/v1alpha1";
const V2: &str = "run.tanzu.vmware.com/v1alpha2";
const V3: &str = "run.tanzu.vmware.com/v1alpha3";

fn manifest(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests").join(name);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn to(object: &Value, version: &str) -> Value {
    convert(object, version).unwrap()
}

fn annotated(object: &Value) -> bool {
    object["metadata"]["annotations"].get(CONVERSION_DATA).is_some()
}

#[test]
fn the_seeds_cluster_in_every_version() {
    let seed = manifest("seed-test-cluster.yaml");
    let hub = to(&seed, V3);
    insta::assert_yaml_snapshot!(hub);
    assert_eq!(to(&hub, V1), seed);
    let middle = to(&seed, V2);
    assert_eq!(middle["spec"], hub["spec"]);
    assert_eq!(to(&to(&middle, V3), V1), seed);
}

#[test]
fn a_full_version_becomes_the_release_of_all_nodes() {
    let mut cluster = manifest("seed-test-cluster.yaml");
    cluster["spec"]["distribution"]["fullVersion"] = json!("1.20.12+vmware.1-tkg.1.b9a42f3");
    let hub = to(&cluster, V3);
    let release = "v1.20.12---vmware.1-tkg.1.b9a42f3";
    assert_eq!(hub["spec"]["topology"]["controlPlane"]["tkr"]["reference"]["name"], release);
    assert_eq!(hub["spec"]["topology"]["nodePools"][0]["tkr"]["reference"]["name"], release);
    assert_eq!(hub["spec"]["distribution"]["fullVersion"], "1.20.12+vmware.1-tkg.1.b9a42f3");
    assert_eq!(to(&hub, V1), cluster);
}

#[test]
fn what_v1alpha1_cannot_show_comes_back() {
    let full = to(&manifest("full-proxy-trust.yaml"), V3);
    let shown = to(&full, V1);
    assert!(annotated(&shown));
    assert_eq!(shown["spec"]["distribution"]["fullVersion"], "v1.21.2+vmware.1-tkg.1.ee25d55");
    assert_eq!(shown["spec"]["topology"]["workers"]["count"], 3);
    let back = to(&shown, V3);
    assert!(!annotated(&back));
    assert_eq!(back, full);
}

#[test]
fn a_scaled_v1alpha1_view_keeps_the_other_pools() {
    let full = to(&manifest("full-proxy-trust.yaml"), V3);
    let mut shown = to(&full, V1);
    shown["spec"]["topology"]["workers"]["count"] = json!(7);
    let back = to(&shown, V3);
    let mut expected = full.clone();
    expected["spec"]["topology"]["nodePools"][0]["replicas"] = json!(7);
    assert_eq!(back, expected);
}

#[test]
fn an_upgrade_by_v1alpha1_reaches_every_pool() {
    let full = to(&manifest("full-proxy-trust.yaml"), V3);
    let mut shown = to(&full, V1);
    shown["spec"]["distribution"] = json!({ "fullVersion": "v1.33.1+vmware.1" });
    let back = to(&shown, V3);
    for pool in back["spec"]["topology"]["nodePools"].as_array().unwrap() {
        assert_eq!(pool["tkr"]["reference"]["name"], "v1.33.1---vmware.1");
    }
    shown["spec"]["distribution"] = json!({ "fullVersion": null, "version": "v1.33" });
    let back = to(&shown, V3);
    assert_eq!(back["spec"]["topology"]["controlPlane"].get("tkr"), None);
    assert_eq!(back["spec"]["topology"]["nodePools"][2].get("tkr"), None);
    assert_eq!(back["spec"]["topology"]["nodePools"].as_array().unwrap().len(), 3);
}

#[test]
fn status_is_seen_in_every_version() {
    let mut hub = to(&manifest("seed-test-cluster.yaml"), V3);
    hub["status"] = json!({
        "phase": "running",
        "apiEndpoints": [{ "host": "192.168.123.3", "port": 6443 }],
        "clusterApiStatus": { "phase": "provisioned" },
        "vmStatus": { "test-cluster-control-plane-jwsx7": "ready" },
        "nodeStatus": { "test-cluster-control-plane-jwsx7": "ready" },
        "addons": [
            { "name": "CoreDNS", "type": "DNS", "conditions": [{ "type": "Provisioned", "status": "True" }] },
            { "name": "calico", "type": "CNI", "conditions": [{
                "type": "Provisioned", "status": "False", "severity": "Warning",
                "reason": "ProvisioningFailed", "message": "no image"
            }] },
        ],
    });
    let old = to(&hub, V1);
    assert!(!annotated(&old));
    assert_eq!(old["status"]["clusterApiStatus"]["apiEndpoints"][0]["host"], "192.168.123.3");
    assert_eq!(old["status"]["clusterApiStatus"]["phase"], "provisioned");
    assert_eq!(old["status"]["addons"]["dns"]["status"], "applied");
    assert_eq!(old["status"]["addons"]["cni"]["lastErrorMessage"], "no image");
    assert_eq!(old["status"]["vmStatus"], hub["status"]["vmStatus"]);
    assert_eq!(to(&old, V3), hub);
    assert_eq!(to(&hub, V2)["status"], hub["status"]);
}

#[test]
fn metadata_is_left_alone() {
    let mut cluster = manifest("converted-distribution-and-tkr.yaml");
    assert_eq!(to(&cluster, V1)["metadata"]["labels"], cluster["metadata"]["labels"]);
    cluster["metadata"]["managedFields"] = json!([{ "manager": "kubectl" }]);
    cluster["metadata"]["annotations"] = json!({ "a": "b" });
    let back = to(&to(&cluster, V1), V2);
    assert_eq!(back, cluster);
}

#[test]
fn what_cannot_be_converted_is_named() {
    let mut cluster = manifest("seed-test-cluster.yaml");
    cluster["spec"]["topology"]["workers"]["count"] = json!("three");
    let error = convert(&cluster, V3).unwrap_err().to_string();
    assert!(error.starts_with("spec.topology.workers.count: "), "{error}");
    let error = convert(&cluster, "run.tanzu.vmware.com/v1").unwrap_err().to_string();
    assert!(error.contains("no version \"v1\""), "{error}");
    cluster["kind"] = json!("Cluster");
    assert!(convert(&cluster, V3).is_err());
}

#[test]
fn a_forged_annotation_does_no_harm() {
    let mut cluster = manifest("seed-test-cluster.yaml");
    for text in
        ["", "{}", "[]", "{\"version\":\"v1alpha3\",\"spec\":7}", "{\"version\":\"v1alpha3\",\"spec\":{}}"]
    {
        cluster["metadata"]["annotations"] = json!({ CONVERSION_DATA: text });
        let hub = to(&cluster, V3);
        assert!(!annotated(&hub), "{text}");
        assert_eq!(hub["spec"]["topology"]["controlPlane"]["replicas"], 3, "{text}");
        assert_eq!(hub["spec"]["topology"]["nodePools"][0]["replicas"], 3, "{text}");
    }
}

fn object<Spec: serde::Serialize, Status: serde::Serialize>(
    version: &str,
    spec: Spec,
    status: Status,
) -> Value {
    json!({
        "apiVersion": version,
        "kind": "TanzuKubernetesCluster",
        "metadata": { "name": "c", "namespace": "n" },
        "spec": spec,
        "status": status,
    })
}

proptest! {
    #[test]
    fn the_hub_survives_every_other_version(spec in clusters::hub_spec(), status in clusters::hub_status()) {
        let hub = object(V3, spec, status);
        prop_assert_eq!(&to(&to(&hub, V1), V3), &hub);
        prop_assert_eq!(&to(&to(&hub, V2), V3), &hub);
        prop_assert_eq!(&to(&to(&to(&hub, V2), V1), V3), &hub);
    }

    #[test]
    fn v1alpha1_survives_the_hub(spec in clusters::old_spec(), status in clusters::old_status()) {
        let old = object(V1, spec, status);
        prop_assert_eq!(&to(&to(&old, V3), V1), &old);
        prop_assert_eq!(&to(&to(&old, V2), V1), &old);
    }

    /// A v1alpha1 client always reads the values that it wrote, with or without kept data.
    #[test]
    fn what_is_visible_wins(hub in clusters::hub_spec(), old in clusters::old_spec()) {
        let mut shown = to(&object(V3, hub, json!({})), V1);
        let written = serde_json::to_value(&old).unwrap();
        shown["spec"] = written.clone();
        let stored = to(&shown, V3);
        let _: v1alpha3::TanzuKubernetesCluster = serde_json::from_value(stored.clone()).unwrap();
        let read = to(&stored, V1);
        let _: v1alpha1::TanzuKubernetesCluster = serde_json::from_value(read.clone()).unwrap();
        prop_assert_eq!(&read["spec"]["topology"], &written["topology"]);
        prop_assert_eq!(&read["spec"]["settings"], &written["settings"]);
    }
}
