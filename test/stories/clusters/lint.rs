//! `layercake lint` and API server admission refuse the same manifests, except for rules that need a cluster.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective};
use layercake::lint::finding::FindingSeverity;
use layercake::lint::lint;
use serde_json::{Value, json};

use crate::harness::story::{Story, story};

fn cluster(version: &str) -> Value {
    let pool = |name: &str| json!({"name": name, "replicas": 1, "vmClass": "best-effort-small", "storageClass": "gold"});
    let group = json!({"count": 1, "class": "best-effort-small", "storageClass": "gold"});
    let (topology, distribution) = if version == "v1alpha1" {
        (json!({"controlPlane": group, "workers": group}), json!({"fullVersion": "v1.34.2+vmware.1-vkr.1"}))
    } else {
        let control_plane = json!({
            "replicas": 1, "vmClass": "best-effort-small", "storageClass": "gold",
            "tkr": {"reference": {"name": "v1.34.2---vmware.1-vkr.1"}},
        });
        (json!({"controlPlane": control_plane, "nodePools": [pool("a"), pool("b")]}), Value::Null)
    };
    let mut cluster = json!({
        "apiVersion": format!("run.tanzu.vmware.com/{version}"), "kind": "TanzuKubernetesCluster",
        "metadata": {"name": "linted", "labels": {}, "annotations": {}},
        "spec": {"topology": topology, "settings": {"network": {
            "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
        }}},
    });
    if !distribution.is_null() {
        cluster["spec"]["distribution"] = distribution;
    }
    cluster
}

fn configuration() -> Value {
    json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TkgServiceConfiguration",
        "metadata": {"name": "tkg-service-configuration"}, "spec": {"defaultCNI": "antrea"},
    })
}

/// Returns variants for the network settings that clusters and the configuration share: proxies and certificate
/// authorities.
fn shared_settings(authority: &str) -> Vec<(&'static str, Value)> {
    let proxy = |url: &str, no: Value| json!({"httpProxy": url, "httpsProxy": url, "noProxy": no});
    let trust = |pem: &str| {
        let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
        json!({"additionalTrustedCAs": [{"name": "corp", "data": data}]})
    };
    let mut all = vec![
        ("proxy", json!({"httpProxy": "http://p:1"})),
        ("proxy", json!({})),
        ("trust", trust(authority)),
        ("trust", trust(&format!("{authority}-----BEGIN EC PRIVATE KEY-----\n"))),
        ("trust", trust("hello")),
        ("trust", json!({"additionalTrustedCAs": [{"name": "first", "data": "not base64!"}]})),
        ("trust", json!({"additionalTrustedCAs": [{"name": "a/b", "data": ""}]})),
        ("trust", json!({"additionalTrustedCAs": null})),
    ];
    for url in [
        "http://p:1",
        "http://CORP\\u:s@p:1",
        "http://u:%ss@p:1",
        "http://p:1\n",
        "http://u:{{x}}@p:1",
        "p:1",
    ] {
        all.push(("proxy", proxy(url, json!([".corp"]))));
    }
    for entry in ["10.0.0.0/8", "10.0.0.0/33", "a b", "{{x}}", "*.corp", "10.*"] {
        all.push(("proxy", proxy("http://p:1", json!([entry]))));
    }
    all
}

/// Returns cluster changes: JSON pointers with new values.
fn changes(version: &str, authority: &str) -> Vec<(String, Value)> {
    let (pool, replicas, class) = match version {
        "v1alpha1" => ("workers", "count", "class"),
        _ => ("nodePools/0", "replicas", "vmClass"),
    };
    let at = |group: &str, key: &str| format!("/spec/topology/{group}/{key}");
    let mut all = vec![("/spec/topology".to_owned(), json!({})), ("/spec/typo".to_owned(), json!(1))];
    for number in [json!(-1), json!(0), json!(3), json!(300), json!(5001), json!(1_000_000), json!("3")] {
        all.push((at(pool, replicas), number));
    }
    all.push((at(pool, replicas), json!(null)));
    if version == "v1alpha1" {
        let without_count = json!({"class": "best-effort-small", "storageClass": "gold"});
        all.push(("/spec/topology/workers".to_owned(), without_count));
    }
    for number in [json!(0), json!(2), json!(3), json!(6000), json!(null)] {
        all.push((at("controlPlane", replicas), number));
    }
    for group in [pool, "controlPlane"] {
        for text in [json!(""), json!(7), json!("x".repeat(254))] {
            all.push((at(group, class), text));
        }
        for size in [json!("20Gi"), json!(20), json!("63Ti"), json!("much"), json!(0)] {
            let volume = json!([{"name": "v", "mountPath": "/data", "capacity": {"storage": size}}]);
            all.push((at(group, "volumes"), volume));
        }
        let volume = |at: usize| json!({"name": format!("v{at}"), "mountPath": format!("/d/{at}"), "capacity": {"storage": "1Gi"}});
        all.push((at(group, "volumes"), (0..15).map(volume).collect()));
    }
    if version != "v1alpha1" {
        for name in [json!("Pool"), json!("control-plane"), json!("b"), json!("x".repeat(63)), json!("")] {
            all.push((at(pool, "name"), name));
        }
        for labels in [json!({"a": null}), json!({"a": "b"}), json!({"a b": "c"}), json!(null)] {
            all.push((at(pool, "labels"), labels));
        }
        all.push((at(pool, "taints"), json!([{"key": "a", "effect": "Never"}])));
        all.push((at(pool, "nodeDrainTimeout"), json!("soon")));
        all.push((at(pool, "failureDomain"), json!("zone-typo")));
    }
    for (key, value) in [
        ("cni", json!({"name": ""})),
        ("cni", json!({"name": "cilium"})),
        ("pods", json!({"cidrBlocks": ["192.168.0.0/24"]})),
        ("pods", json!({"cidrBlocks": ["192.168.0.0/30"]})),
        ("services", json!({"cidrBlocks": ["192.168.1.0/24"]})),
        ("serviceDomain", json!("Cluster_Local")),
    ] {
        all.push((format!("/spec/settings/network/{key}"), value));
    }
    for settings in shared_settings(authority) {
        all.push((format!("/spec/settings/network/{}", settings.0), settings.1));
    }
    all.extend(metadata_changes());
    all
}

fn metadata_changes() -> Vec<(String, Value)> {
    const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    let bounds = |min: &str, max: &str| json!({MIN: min, MAX: max});
    let queried = |key: &str, query: &str| json!({format!("run.tanzu.vmware.com/{key}"): query});
    let annotations = [
        bounds("1", "3"),
        bounds("3", "1"),
        bounds("1", "two"),
        bounds("1", "5001"),
        json!({MIN: "1"}),
        queried("resolve-os-image", "os-name=a b"),
        queried("resolve-tkr", "track in stable"),
        queried("resolve-tkr", "v1.34"),
    ];
    let mut all: Vec<_> =
        annotations.into_iter().map(|value| ("/metadata/annotations".to_owned(), value)).collect();
    all.push(("/metadata/labels".to_owned(), json!({"a": null})));
    all.push(("/metadata/annotations".to_owned(), json!({"a": null})));
    all.push(("/metadata/name".to_owned(), json!("1-digit-first")));
    all
}

/// Returns the error with which the API server refuses an object, or `None` if it accepts it.
async fn refusal(story: &Story, object: &Value) -> Option<String> {
    let (group, version) = object["apiVersion"].as_str()?.split_once('/')?;
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str()?);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = if object["metadata"]["namespace"].is_string() {
        Api::namespaced_with(story.client(), &story.namespace, &resource)
    } else {
        Api::all_with(story.client(), &resource)
    };
    let mut params = PatchParams::apply("story").force().dry_run();
    params.field_validation = Some(ValidationDirective::Strict);
    let name = object["metadata"]["name"].as_str()?;
    api.patch(name, &params, &Patch::Apply(object)).await.err().map(|error| error.to_string())
}

#[test]
fn lint_and_admission_refuse_the_same() {
    story("linted", |story| async move {
        story.prepare_namespace("best-effort-small").await;
        let authority = std::fs::read_to_string(&story.shared.session.vcenter.ca_file).unwrap();
        let mut objects = Vec::new();
        for version in ["v1alpha1", "v1alpha2", "v1alpha3"] {
            let mut base = cluster(version);
            base["metadata"]["namespace"] = json!(story.namespace);
            objects.push((base.clone(), String::new(), Value::Null));
            objects.extend(
                changes(version, &authority).into_iter().map(|(at, value)| (base.clone(), at, value)),
            );
        }
        let configured =
            shared_settings(&authority).into_iter().map(|(key, value)| (format!("/spec/{key}"), value));
        let others = [
            ("/spec/defaultCNI", json!("Calico")),
            ("/spec/defaultNodeDrainTimeout", json!("soon")),
            ("/metadata/name", json!("another")),
        ];
        let others = others.map(|(at, value)| (at.to_owned(), value));
        objects.extend(configured.chain(others).map(|(at, value)| (configuration(), at, value)));
        let mut different = Vec::new();
        for (mut object, at, value) in objects {
            set(&mut object, &at, &value);
            let report = lint(&object.to_string(), "f");
            let refusal = refusal(&story, &object).await;
            if (report.count(FindingSeverity::Error) > 0) != refusal.is_some() {
                let version = &object["apiVersion"];
                different
                    .push(format!("{version} {at} = {value}\n  lint: {report}\n  admission: {refusal:?}"));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
    });
}

fn set(object: &mut Value, pointer: &str, value: &Value) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    let parent = object.pointer_mut(parent).expect("the parent");
    parent.as_object_mut().expect("an object").insert(key.to_owned(), value.clone());
}
