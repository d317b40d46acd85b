//! Tests the webhooks with the requests that an API server sends.

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{from_slice, from_value, json, to_value};
use support::api_server::{Request, refusal, server};

use super::*;
use crate::cluster::fixtures::{release_cache, tkr};
use crate::release::ReleaseImage;
use crate::release::virtual_ip::VirtualIpFlags;
use crate::testing::{SITE_VERSIONS, manifest, sound};

/// Returns webhooks that know the simulated vCenter's releases without node images, and that use a fake API server.
fn webhooks() -> State<Arc<Webhooks>> {
    // The fake API server responds with 404 for Secrets and 500 for all other requests.
    let (client, _) = server(|request: &Request| {
        let is_secret = request.path.contains("/secrets/");
        if is_secret { refusal(404, "NotFound") } else { refusal(500, "InternalError") }
    });
    let management = vec!["10.200.0.0/16".parse().unwrap()];
    State(Arc::new(Webhooks {
        release_cache: release_cache(SITE_VERSIONS.map(tkr)),
        client,
        management,
        virtual_ip: VirtualIpFlags::default(),
        configuration: ServiceConfiguration::default(),
        lookers: Lookers::default(),
    }))
}

fn review(new: &TanzuKubernetesCluster, version: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "run.tanzu.vmware.com", "version": "v1alpha3", "kind": "TanzuKubernetesCluster"},
            "requestKind": {"group": "run.tanzu.vmware.com", "version": version, "kind": "TanzuKubernetesCluster"},
            "operation": "CREATE",
            "object": new,
            "oldObject": null,
        },
    })
}

/// Parses a review as received over HTTP.
fn sent(review: &Value) -> Review {
    Review::read(review.to_string()).unwrap()
}

#[tokio::test]
async fn a_cluster_is_filled_in() {
    let State(webhooks) = webhooks();
    webhooks.release_cache.set_image("photon", Some(ReleaseImage::default()));
    let Json(answer) = mutate(State(webhooks), sent(&review(&sound(), "v1alpha3"))).await;
    assert_eq!(answer["response"]["uid"], "u-1");
    assert_eq!(answer["response"]["allowed"], true);
    let patch = STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    let patch: Vec<Value> = from_slice(&patch).unwrap();
    let full = patch.iter().find(|operation| operation["path"] == "/spec/distribution/fullVersion").unwrap();
    assert_eq!(full["value"], "v1.33.1+vmware.1-fips-vkr.2");
}

#[tokio::test]
async fn a_container_network_is_not_guessed_before_an_image_is_known() {
    let Json(answer) = mutate(webhooks(), sent(&review(&sound(), "v1alpha3"))).await;
    assert_eq!(answer["response"]["allowed"], false);
    insta::assert_snapshot!(answer["response"]["status"]["message"].as_str().unwrap());

    let mut named = sound();
    let network = named.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    network.cni = Some(from_value(json!({"name": "calico"})).unwrap());
    let mut moved = sound();
    moved.metadata.finalizers = Some(vec![api::names::finalizer::TKC.to_owned()]);
    for accepted in [named, moved] {
        let Json(answer) = mutate(webhooks(), sent(&review(&accepted, "v1alpha3"))).await;
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
    }
}

#[tokio::test]
async fn a_new_cluster_gets_what_the_configuration_says() {
    let State(webhooks) = webhooks();
    let spec = json!({"defaultCNI": "antrea-nsx-routed", "defaultNodeDrainTimeout": "5m"});
    webhooks.configuration.set(from_value(spec).unwrap());
    let mut new = sound();
    new.spec.settings = None;
    let Json(answer) = mutate(State(webhooks), sent(&review(&new, "v1alpha3"))).await;
    let patch = STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    let patch = String::from_utf8(patch).unwrap();
    assert!(patch.contains("antrea-nsx-routed") && patch.contains("\"5m\""), "{patch}");
    assert!(!patch.contains("192.168.0.0/16"), "routed pods have addresses of NSX: {patch}");
}

#[tokio::test]
async fn a_wrong_configuration_is_refused() {
    let spec = |spec: Value| {
        sent(&json!({"request": {"uid": "u-1", "object": {
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TkgServiceConfiguration",
            "metadata": {"name": "tkg-service-configuration"}, "spec": spec,
        }}}))
    };
    let Json(answer) = validate_configuration(spec(json!({"defaultCNI": "cilium"}))).await;
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("spec.defaultCNI: \"cilium\""), "{message}");
    let Json(right) = validate_configuration(spec(json!({"defaultCNI": "calico"}))).await;
    assert_eq!(right["response"]["allowed"], true);
}

#[tokio::test]
async fn a_wrong_cluster_is_refused_in_the_words_of_its_version() {
    let (cluster, _) = manifest("seed-test-cluster.yaml");
    let mut wrong = cluster.clone();
    wrong.spec.topology.control_plane.replicas = Some(2);
    wrong.spec.topology.node_pools[0].vm_class = String::new();
    let Json(answer) = validate(webhooks(), sent(&review(&wrong, "v1alpha1"))).await;
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["code"], 422);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    for words in [
        "spec.topology.controlPlane.count: control plane can only be either 1 or 3 nodes",
        "spec.topology.workers.class: it is missing",
        "spec.distribution.version: unable to find a compatible full version matching version hint \"v1.17.4\"",
    ] {
        assert!(message.contains(words), "{words} is not in {message}");
    }
}

#[tokio::test]
async fn a_range_of_management_is_refused_to_a_new_cluster() {
    let mut wrong = sound();
    let network = wrong.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    network.pods.as_mut().unwrap().cidr_blocks = Some(vec!["10.200.128.0/17".to_owned()]);
    let Json(answer) = validate(webhooks(), sent(&review(&wrong, "v1alpha3"))).await;
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.settings.network.pods.cidrBlocks[0]: 10.200.128.0/17 overlaps"),
        "{message}"
    );
    let mut moved = review(&wrong, "v1alpha3");
    moved["request"]["object"]["metadata"]["finalizers"] = json!([api::names::finalizer::TKC]);
    let Json(kept) = validate(webhooks(), sent(&moved)).await;
    assert_eq!(kept["response"]["allowed"], true, "{kept}");
    let warning = kept["response"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("10.200.128.0/17 overlaps") && warning.contains("gcm creates nothing for it"),
        "{warning}"
    );
    let mut later = review(&wrong, "v1alpha3");
    later["request"]["oldObject"] = to_value(&wrong).unwrap();
    later["request"]["object"]["spec"]["topology"]["nodePools"][0]["replicas"] = json!(2);
    let Json(kept) = validate(webhooks(), sent(&later)).await;
    assert_eq!(kept["response"]["allowed"], true, "{kept}");
}

/// `kubectl replace` with a v1alpha1 manifest doesn't send the annotation that preserves the other pools.
#[tokio::test]
async fn v1alpha1_removes_no_pool_that_it_cannot_show() {
    let mut old = sound();
    let pool = old.spec.topology.node_pools[0].clone();
    old.spec.topology.node_pools.push(api::gcm::parts::NodePool { name: "gpu".to_owned(), ..pool });
    let asked = |keep: bool, version: &'static str| {
        let hub = serde_json::to_value(&old).unwrap();
        let mut shown = convert(&hub, "run.tanzu.vmware.com/v1alpha1").unwrap();
        shown["spec"]["topology"]["workers"]["count"] = json!(4);
        if !keep {
            shown["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        let mut review = review(&crate::testing::hub(&shown), version);
        review["request"]["oldObject"] = hub;
        review
    };
    let Json(kept) = validate(webhooks(), sent(&asked(true, "v1alpha1"))).await;
    assert_eq!(kept["response"]["allowed"], true, "{kept}");
    let Json(lost) = validate(webhooks(), sent(&asked(false, "v1alpha1"))).await;
    let message = lost["response"]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("spec.topology.workers: ") && message.contains("gpu"), "{message}");
    let Json(meant) = validate(webhooks(), sent(&asked(false, "v1alpha3"))).await;
    assert_eq!(meant["response"]["allowed"], true, "{meant}");
}

#[tokio::test]
async fn a_right_cluster_is_accepted_whether_or_not_its_classes_can_be_seen() {
    let Json(answer) = validate(webhooks(), sent(&review(&sound(), "v1alpha3"))).await;
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"].get("warnings"), None);
}

#[tokio::test]
async fn users_who_could_not_log_in_to_a_new_cluster_are_counted_in_a_warning() {
    let binding = |role: &str, kinds: &[&str]| {
        let subject = |(at, kind): (usize, &&str)| {
            let group = if *kind == "ServiceAccount" { "" } else { "rbac.authorization.k8s.io" };
            json!({"apiGroup": group, "kind": kind, "name": format!("n{at}"), "namespace": "ns"})
        };
        let subjects: Vec<_> = kinds.iter().enumerate().map(subject).collect();
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        json!({"metadata": {"name": role["name"], "namespace": "ns"}, "roleRef": role, "subjects": subjects})
    };
    let login_service = json!({"metadata": {
        "name": "login", "namespace": "ns", "labels": {"tkg.tanzu.vmware.com/addon-name": "login"},
        "annotations": {"tkg.tanzu.vmware.com/addon-type": "authservice"},
    }});
    let people = || vec![binding("edit", &["User", "User"]), binding("admin", &["Group", "ServiceAccount"])];
    let mut with_issuer = sound();
    with_issuer.spec.settings.as_mut().unwrap().authentication = Some(
        from_value(json!({"jwt": [{
            "issuer": {"url": "https://login.example.com", "audiences": ["kubernetes"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": "corp:"}},
        }]}))
        .unwrap(),
    );
    let programs_only = vec![binding("edit", &["ServiceAccount"]), binding("view", &["User"])];
    for (cluster, bindings, maps, warns) in [
        (sound(), people(), vec![], true),
        (sound(), people(), vec![login_service.clone()], false),
        (with_issuer, people(), vec![], false),
        (sound(), programs_only, vec![], false),
        (sound(), vec![], vec![], false),
    ] {
        let State(webhooks) = webhooks();
        let (client, _) = server(move |request: &Request| {
            let list = |kind: &str, items: &[Value]| {
                (200, json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items}))
            };
            match request.path.split('?').next().unwrap_or_default() {
                path if path.contains("/secrets/") => refusal(404, "NotFound"),
                path if path.ends_with("/rolebindings") => list("RoleBindingList", &bindings),
                path if path.ends_with("/configmaps") => list("PartialObjectMetadataList", &maps),
                _ => refusal(500, "InternalError"),
            }
        });
        let webhooks = State(Arc::new(Webhooks { client, ..(*webhooks).clone() }));
        let Json(answer) = validate(webhooks, sent(&review(&cluster, "v1alpha3"))).await;
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        let warnings: Vec<String> = from_value(answer["response"]["warnings"].clone()).unwrap_or_default();
        assert_eq!(warnings.len(), usize::from(warns), "{warnings:?}");
        if warns {
            insta::assert_snapshot!(warnings[0], @"spec.settings.authentication: it does not list an issuer of tokens, so 2 users and 1 group with edit rights in namespace ns cannot log in to the cluster. Add an issuer (docs/login.md), or use the kubeconfig in Secret c-kubeconfig");
        }
    }
}

#[tokio::test]
async fn a_new_object_that_was_exported_from_a_cluster_is_warned_of() {
    let mut exported = sound();
    exported.annotations_mut().insert(annotation::MADE_AS.to_owned(), "another".to_owned());
    let review = |operation: &str| {
        let mut review = review(&exported, "v1alpha3");
        if operation == "UPDATE" {
            review["request"]["oldObject"] = review["request"]["object"].clone();
        }
        review["request"]["operation"] = operation.into();
        sent(&review)
    };
    let Json(answer) = validate(webhooks(), review("CREATE")).await;
    let warning = answer["response"]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("no cluster is created from it"), "{warning}");
    let Json(answer) = validate(webhooks(), review("UPDATE")).await;
    assert_eq!(answer["response"].get("warnings"), None);
}

#[tokio::test]
async fn a_refusal_says_that_bundles_could_not_be_read() {
    let mut own = review(&sound(), "v1alpha3");
    own["request"]["object"]["spec"]["settings"]["network"]["cni"] = json!({"name": "own-network"});
    let Json(answer) = validate(webhooks(), sent(&own)).await;
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("own-network"), "{message}");
    assert!(message.contains("bundles of namespace") && message.contains("could not be read"), "{message}");
}

#[tokio::test]
async fn what_cannot_be_read_is_left_to_the_schema() {
    let mut odd = review(&sound(), "v1alpha3");
    odd["request"]["object"]["spec"]["topology"] = json!("wide");
    let Json(answer) = mutate(webhooks(), sent(&odd)).await;
    assert_eq!(answer["response"]["allowed"], true);
    let Json(answer) = validate(webhooks(), sent(&odd)).await;
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn objects_are_converted_all_or_none() {
    let (_, written) = manifest("seed-test-cluster.yaml");
    let ask = |objects: Value| {
        let request =
            json!({"uid": "u-2", "desiredAPIVersion": "run.tanzu.vmware.com/v1alpha3", "objects": objects});
        let review =
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
        Conversion::read(review.to_string()).unwrap()
    };
    let Json(answer) = converted(ask(json!([written, written]))).await;
    let response = &answer["response"];
    assert_eq!(
        (response["uid"].as_str(), response["result"]["status"].as_str()),
        (Some("u-2"), Some("Success"))
    );
    assert_eq!(response["convertedObjects"].as_array().unwrap().len(), 2);
    assert_eq!(response["convertedObjects"][1]["apiVersion"], "run.tanzu.vmware.com/v1alpha3");
    let Json(answer) = converted(ask(json!([written, {"apiVersion": "v1", "kind": "Pod"}]))).await;
    assert_eq!(answer["response"]["result"]["status"], "Failure");
    assert!(!answer["response"]["result"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn classes_that_a_namespace_lacks_are_named() {
    let topology = sound().spec.topology;
    let mut zoned = topology.clone();
    zoned.node_pools[0].failure_domain = Some("zone-typo".to_owned());
    let mut asks = sound().spec;
    asks.settings.as_mut().unwrap().storage = Some(api::gcm::parts::StorageSettings {
        classes: Some(vec!["gold".to_owned(), "lead".to_owned()]),
        default_class: Some("gold-latebinding".to_owned()),
    });
    let none = BTreeSet::new();
    let some = BTreeSet::from(["large".to_owned()]);
    insta::assert_yaml_snapshot!([
        admission::nodes::unbound(&topology, "ns", &none),
        admission::nodes::unbound(&topology, "ns", &some),
        admission::nodes::unassigned(&topology, "ns", &some),
        admission::nodes::unassigned(&topology, "ns", &BTreeSet::from(["gold".to_owned()])),
        admission::settings::unassigned(&asks, "ns", &some),
        admission::settings::unassigned(&asks, "ns", &BTreeSet::from(["gold".to_owned()])),
        admission::nodes::unzoned(&zoned, "ns", &BTreeSet::from(["zone-1".to_owned()])),
        admission::nodes::unzoned(&zoned, "ns", &BTreeSet::from(["zone-typo".to_owned()])),
    ]);
}
