//! A user applies a manifest that can't become a cluster. Admission refuses it with the field, the reason and the
//! remedy.

use base64::Engine as _;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use layercake::kube::manifest;
use serde_json::{Value, json};

use crate::harness::shared_stack::MANAGEMENT;
use crate::harness::story::{SOON, Story, api_resource, assert_contains, merge, story};

const ONE: &str = r#"
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  topology:
    controlPlane: {count: 1, class: best-effort-small, storageClass: gold}
    workers: {count: 1, class: best-effort-small, storageClass: gold}
  distribution: {version: v1.33}
  settings:
    network:
      services: {cidrBlocks: ["10.96.0.0/12"]}
      pods: {cidrBlocks: ["192.168.0.0/16"]}
"#;

const THREE: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  topology:
    controlPlane: {replicas: 1, vmClass: best-effort-small, storageClass: gold, tkr: {reference: {name: v1.34.2---vmware.1-vkr.1}}}
    nodePools:
    - {name: a, replicas: 1, vmClass: best-effort-small, storageClass: gold}
    - {name: b, replicas: 1, vmClass: best-effort-small, storageClass: gold}
";

/// Manifests with a replacement (old and new text), and the words that the refusal must contain.
const REFUSALS: &[(&str, &str, &str, &[&str])] = &[
    (
        ONE,
        "version: v1.33",
        "version: v1.99",
        &["spec.distribution.version", "v1.99", "v1.33.1+vmware.1-fips-vkr.2"],
    ),
    (ONE, "version: v1.33", "version: v1.17.4", &["1.22", "v1.22.9+vmware.1-tkg.1.cc71bc8"]),
    (ONE, "version: v1.33", "version: nonsense", &["nonsense"]),
    (
        ONE,
        "version: v1.33",
        "version: v1.34, fullVersion: v1.33.1+vmware.1-fips-vkr.2",
        &["full version", "does not match version hint \"v1.34\""],
    ),
    (
        ONE,
        "count: 1, class: best-effort-small, storageClass: gold}\n    workers",
        "count: 2, class: best-effort-small, storageClass: gold}\n    workers",
        &["control plane can only be either 1 or 3 nodes"],
    ),
    (ONE, "10.96.0.0/12", "192.168.128.0/18", &["192.168", "overlap"]),
    (ONE, "10.96.0.0/12", "10.96.0.0/64", &["10.96.0.0/64"]),
    (
        ONE,
        "192.168.0.0/16",
        "203.0.0.0/16",
        &[
            "spec.settings.network.pods.cidrBlocks[0]",
            "203.0.0.0/16 overlaps with",
            MANAGEMENT,
            "belongs to the management network",
        ],
    ),
    (ONE, "settings:", "settings:\n    security: {podSecurityPolicy: x}", &["spec.settings.security"]),
    (ONE, "    network:", "    network:\n      cni: {name: cilium}", &["cni", "antrea", "calico", "flannel"]),
    (
        ONE,
        "    network:",
        "    network:\n      proxy: {httpProxy: \"http://10.0.0.1:3128\"}",
        &["proxy", "httpsProxy"],
    ),
    (ONE, "NAME,", "a-cluster-name-that-is-so-long-that-its-machines-can-not-be-named-any-more,", &["long"]),
    (
        THREE,
        "replicas: 1, vmClass: best-effort-small, storageClass: gold, tkr",
        "count: 1, vmClass: best-effort-small, storageClass: gold, tkr",
        &["count"],
    ),
    (THREE, "name: b,", "name: a,", &["nodePools", "a"]),
    (THREE, "name: b, replicas: 1,", "name: b, replicas: 1000000,", &["nodePools[1].replicas", "5000"]),
    (ONE, "workers: {count: 1,", "workers: {count: 1000000,", &["workers.count", "5000"]),
    (THREE, "name: b, replicas: 1,", "name: b, replicas: 4999,", &["spec.topology", "5001 nodes"]),
    (THREE, "name: b, replicas: 1,", "name: b, replicas: 300,", &["256 nodes", "302 nodes"]),
    (
        THREE,
        "name: v1.34.2---vmware.1-vkr.1",
        "name: v1.34.9---vmware.1-vkr.1",
        &["v1.34.9---vmware.1-vkr.1", "v1.34.2---vmware.1-vkr.1"],
    ),
];

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    story("admission", |story| async move {
        for (number, (manifest, from, to, words)) in REFUSALS.iter().enumerate() {
            assert!(manifest.contains(from), "{from}");
            let text = manifest.replacen(from, to, 1).replace("NAME,", &format!("refused-{number},"));
            let refusal = story.try_apply(&text).await.expect_err(&format!("accepted: {to}"));
            eprintln!("[admission] {to} → {refusal}");
            assert_contains(&refusal, words);
        }
        assert!(story.list("TanzuKubernetesCluster").await.is_empty());
    });
}

#[test]
fn what_real_manifests_look_like_is_taken() {
    story("wild", |story| async move {
        for (from, to, wanted) in [
            ("version: v1.33", "version: 1.33.1", "v1.33.1+vmware.1-fips-vkr.2"),
            ("version: v1.33", "version: v1.33.1+vmware.1-fips-vkr.2", "v1.33.1+vmware.1-fips-vkr.2"),
            ("version: v1.33", "fullVersion: null, version: v1.33", "v1.33.1+vmware.1-fips-vkr.2"),
            ("version: v1.33", "fullVersion: 1.34.2+vmware.1-vkr.1", "v1.34.2+vmware.1-vkr.1"),
            ("10.96.0.0/12", "198.51.100.0/12", "v1.33.1+vmware.1-fips-vkr.2"),
        ] {
            let text = ONE.replacen(from, to, 1).replace("NAME,", "wild,");
            let (cluster, _) = dry_run(&story, &text).await;
            let full = cluster["spec"]["distribution"]["fullVersion"].as_str().unwrap();
            assert_eq!(full.trim_start_matches('v'), wanted.trim_start_matches('v'), "{to}");
        }
        let (_, warning) = dry_run(&story, &ONE.replace("v1.33", "v1.26").replace("NAME,", "old,")).await;
        assert_contains(warning, &["1.26", "1.31"]);
    });
}

/// The user sees the full release name for a prefix or a query, and a warning for a field that the API server drops.
#[test]
fn what_is_written_out_or_dropped_is_shown() {
    story("shown", |story| async move {
        let named = |name: &str| THREE.replace("v1.34.2---vmware.1-vkr.1", name).replace("NAME,", "shown,");
        for prefix in ["v1.34", "v1.34.2", "v1.34.2---vmware"] {
            let (cluster, _) = dry_run(&story, &named(prefix)).await;
            let topology = &cluster["spec"]["topology"];
            for group in [&topology["controlPlane"], &topology["nodePools"][1]] {
                assert_eq!(group["tkr"]["reference"]["name"], "v1.34.2---vmware.1-vkr.1", "{prefix}");
            }
            assert_eq!(cluster["spec"]["distribution"]["fullVersion"], "v1.34.2+vmware.1-vkr.1");
        }
        let query = "shown, annotations: {run.tanzu.vmware.com/resolve-tkr: \"v1.33\"},";
        let queried =
            THREE.replace("tkr: {reference: {name: v1.34.2---vmware.1-vkr.1}}", "nodeDrainTimeout: 5m");
        let queried = queried.replace("NAME,", query);
        let (cluster, _) = dry_run(&story, &queried).await;
        assert_eq!(
            cluster["metadata"]["labels"]["run.tanzu.vmware.com/tkr"],
            "v1.33.1---vmware.1-fips-vkr.2"
        );

        let applied =
            json!({"apiVersion": "run.tanzu.vmware.com/v1alpha3", "spec": {"proxy": {}}}).to_string();
        let annotation = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
        let dropped = THREE.replace("NAME,", &format!("shown, annotations: {annotation},"));
        let (_, warning) = dry_run(&story, &dropped).await;
        assert_contains(warning, &["spec.proxy: the field does not exist", "spec.settings.network.proxy"]);
    });
}

#[test]
fn what_may_not_change_is_refused() {
    story("immutable", |story| async move {
        // The cluster is paused, so nothing is created for it.
        let paused = THREE.replace("NAME,", "fixed, annotations: {cluster.x-k8s.io/paused: \"\"},");
        story.apply(&paused).await;
        let changes = [
            (
                json!({"spec": {"settings": {"network": {"pods": {"cidrBlocks": ["10.200.0.0/16"]}}}}}),
                ["pods"].as_slice(),
            ),
            (
                json!({"spec": {"settings": {"network": {"serviceDomain": "other.local"}}}}),
                &["serviceDomain"],
            ),
            (release("v1.33.1---vmware.1-fips-vkr.2"), &["v1.33.1"]),
            (release("v1.36.3---vmware.1-vkr.1"), &["v1.36.3"]),
            (two_releases(), &BOTH),
        ];
        let api = story.api("TanzuKubernetesCluster");
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        for (change, words) in changes {
            let refusal = api.patch("fixed", &params, &Patch::Merge(&change)).await;
            assert_contains(refusal.expect_err(words[0]), words);
        }
        // If only the full version changes, the release reference follows.
        let full = json!({"spec": {"distribution": {"fullVersion": "v1.35.1+vmware.1-vkr.1"}}});
        let cluster = api.patch("fixed", &params, &Patch::Merge(&full)).await.unwrap();
        let topology = &cluster.data["spec"]["topology"];
        assert_eq!(topology["controlPlane"]["tkr"]["reference"]["name"], "v1.35.1---vmware.1-vkr.1");
        story.delete("TanzuKubernetesCluster", "fixed", crate::harness::story::SOON).await;
    });
}

/// A user changes a manifest's API version in Git, and a tool applies it with the same field manager.
#[test]
fn a_manifest_of_another_version_is_applied_by_the_same_manager() {
    story("versions", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let versions = ["v1alpha1", "v1alpha2", "v1alpha3"];
        let pairs = versions.into_iter().flat_map(|from| versions.map(|to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let name = format!("{from}-{to}");
            apply_by_tool(&story, &cluster_of_version(&name, from, &json!({"first": "only"}))).await;
            // By now gcm owns status fields, in the stored version.
            story.wait_for_condition("TanzuKubernetesCluster", &name, "Paused", "True").await;
            let applied = apply_by_tool(&story, &cluster_of_version(&name, to, &json!({}))).await;
            assert!(!applied.to_string().contains("partial-object"), "{applied}");
            let stored = story.get("TanzuKubernetesCluster", &name).await.unwrap();
            assert_eq!(stored["metadata"]["labels"].get("first"), None, "{name}: {stored}");
            let pools = stored["spec"]["topology"]["nodePools"].as_array().unwrap();
            assert_eq!((pools.len(), &pools[0]["replicas"]), (1, &json!(1)), "{name}");
            story.delete("TanzuKubernetesCluster", &name, SOON).await;
        }
    });
}

/// Returns a paused cluster, for which nothing is created.
fn cluster_of_version(name: &str, version: &str, labels: &Value) -> Value {
    let old = version == "v1alpha1";
    let [count, class] = if old { ["count", "class"] } else { ["replicas", "vmClass"] };
    let nodes = json!({count: 1, class: "best-effort-xsmall", "storageClass": "gold"});
    let mut topology = json!({"controlPlane": nodes});
    if old {
        topology["workers"] = nodes;
    } else {
        let mut pool = nodes;
        pool["name"] = json!("workers");
        topology["nodePools"] = json!([pool]);
    }
    json!({
        "apiVersion": format!("run.tanzu.vmware.com/{version}"), "kind": "TanzuKubernetesCluster",
        "metadata": {"name": name, "labels": labels, "annotations": {"cluster.x-k8s.io/paused": "true"}},
        "spec": {"distribution": {"version": "v1.34"}, "topology": topology},
    })
}

/// Applies an object like Flux and Argo CD do.
async fn apply_by_tool(story: &Story, object: &Value) -> Value {
    let (name, kind) = (object["metadata"]["name"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let mut resource = api_resource(kind);
    resource.api_version = object["apiVersion"].as_str().unwrap().to_owned();
    resource.version = resource.api_version.rsplit('/').next().unwrap().to_owned();
    let api = Api::<DynamicObject>::namespaced_with(story.client(), &story.namespace, &resource);
    let applied = api.patch(name, &PatchParams::apply("flux"), &Patch::Apply(object)).await;
    let applied = applied.unwrap_or_else(|error| panic!("{name} as {}: {error}", resource.version));
    serde_json::to_value(applied).unwrap()
}

/// A user creates, changes and deletes a one-megabyte cluster. An admission review contains it twice.
#[test]
fn a_cluster_of_a_megabyte_is_created_changed_and_deleted() {
    story("large", |story| async move {
        story.prepare_namespace("best-effort-small").await;
        let certificate = std::fs::read_to_string(&story.shared.session.vcenter.ca_file).unwrap();
        let bundle = certificate.repeat(800_000 / certificate.len());
        let data = base64::engine::general_purpose::STANDARD.encode(bundle);
        assert!(data.len() > 1_050_000, "{}", data.len());
        // The cluster is paused, so nothing is created for it.
        let paused = THREE.replace("NAME,", "large, annotations: {cluster.x-k8s.io/paused: \"\"},");
        let mut cluster =
            manifest::documents(&paused.replace("NAMESPACE", &story.namespace)).unwrap().remove(0);
        let authorities = json!([{"name": "bundle", "data": data}]);
        cluster["spec"]["settings"] = json!({"network": {"trust": {"additionalTrustedCAs": authorities}}});
        let api = story.api("TanzuKubernetesCluster");
        api.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
        for change in [
            json!({"metadata": {"labels": {"of": "somebody"}}}),
            json!({"spec": {"settings": {"network": {"proxy": null}, "storage": {"defaultClass": "gold"}}}}),
            json!({"metadata": {"finalizers": ["story.test/held"]}}),
        ] {
            let changed = merge(&api, "large", &change).await;
            changed.unwrap_or_else(|error| panic!("{change}: {error}"));
        }
        story.force_delete("TanzuKubernetesCluster", "large").await;
    });
}

/// The words in a refusal if two fields name different releases: both fields, and the remedy.
const BOTH: [&str; 5] = [
    "spec.topology.controlPlane.tkr.reference.name",
    "release reference \\\"v1.35.1---vmware.1-vkr.1\\\" does not match full version",
    "v1.36.3+vmware.1-vkr.1",
    "set spec.distribution: null",
    "remove spec.topology.controlPlane.tkr.reference.name",
];

fn two_releases() -> Value {
    let mut both = release("v1.35.1---vmware.1-vkr.1");
    both["spec"]["distribution"] = json!({"fullVersion": "v1.36.3+vmware.1-vkr.1"});
    both
}

fn release(name: &str) -> Value {
    json!({"spec": {"distribution": null, "topology": {
        "controlPlane": {"tkr": {"reference": {"name": name}}},
        "nodePools": [
            {"name": "a", "replicas": 1, "vmClass": "best-effort-small", "storageClass": "gold", "tkr": {"reference": {"name": name}}},
            {"name": "b", "replicas": 1, "vmClass": "best-effort-small", "storageClass": "gold", "tkr": {"reference": {"name": name}}},
        ],
    }}})
}

/// Applies a manifest in a server-side dry run, and returns the resulting object and the warnings.
async fn dry_run(story: &Story, text: &str) -> (Value, String) {
    let documents = manifest::documents(&text.replace("NAMESPACE", &story.namespace)).unwrap();
    let placement = story.shared.session.placement();
    layercake::local::up::prepare::prepare_namespaces(&story.client(), &documents, &placement).await.unwrap();
    let (namespace, name) = layercake::kube::apply::key(&documents[0]);
    let version = documents[0]["apiVersion"].as_str().unwrap();
    let path = format!(
        "/apis/{version}/namespaces/{namespace}/tanzukubernetesclusters/{name}?dryRun=All&fieldManager=story&force=true"
    );
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(kube::client::Body::from(serde_json::to_vec(&documents[0]).unwrap()))
        .unwrap();
    let response = story.client().send(request).await.unwrap();
    let warnings = response.headers().get_all("warning").iter();
    let warning = warnings.map(|value| value.to_str().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let body = response.into_body().collect_bytes().await.unwrap();
    let object: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(object["kind"], "TanzuKubernetesCluster", "{object}");
    (object, warning)
}
