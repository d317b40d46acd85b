//! A user manages one cluster's add-ons: they are applied, kept in sync, changed and pruned.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::objects::{SMALL, one_node};
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, condition, merge, story};

const BUNDLES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: NAMESPACE
  labels: {tkg.tanzu.vmware.com/addon-name: web}
data:
  version: v1
  web.yaml: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: web}
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
          containers: [{name: web, image: "registry.k8s.io/e2e-test-images/agnhost:2.53"}]
    ---
    {apiVersion: v1, kind: ConfigMap, metadata: {name: page, namespace: web}, data: {text: hello}}
    ---
    {apiVersion: v1, kind: ConfigMap, metadata: {name: dropped, namespace: web}}
    ---
    {apiVersion: v1, kind: Namespace, metadata: {name: web}}
  values.yaml.jinja: |
    {apiVersion: v1, kind: ConfigMap, metadata: {name: values, namespace: web}, data: {pods: "{{ pod_cidr }}"}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: bad
  namespace: NAMESPACE
  labels: {tkg.tanzu.vmware.com/addon-name: bad}
data:
  bad.yaml: |
    {apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: default}}
    ---
    {apiVersion: apps/v1, kind: Deployment, metadata: {name: broken, namespace: default}, spec: {replicas: many}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: once
  namespace: NAMESPACE
  labels: {tkg.tanzu.vmware.com/addon-name: once, tkg.tanzu.vmware.com/cluster-name: added}
data:
  mode: ApplyOnce
  version: v1
  once.yaml: |
    {apiVersion: v1, kind: ConfigMap, metadata: {name: once, namespace: default}, data: {text: first}}
---"#;
const SETTINGS: &str = "  settings: {network: {pods: {cidrBlocks: [10.17.0.0/16]}}}\n";

#[test]
fn a_clusters_add_ons_are_applied_kept_and_pruned() {
    story("added", |story| async move {
        let cluster = one_node("added", "v1.33.1---vmware.1-fips-vkr.2", SMALL);
        story.apply(&format!("{BUNDLES}{cluster}{SETTINGS}")).await;
        a_bad_manifest_is_named_and_the_others_go_on(&story).await;
        let guest = story.guest_client("added").await;
        they_are_what_their_bundles_are(&guest).await;
        the_bad_one_is_mended(&story).await;
        what_others_change_is_corrected(&story, &guest).await;
        what_a_new_version_drops_is_pruned(&story, &guest).await;
        what_is_applied_once_is_its_users(&story, &guest).await;
        story.delete("TanzuKubernetesCluster", "added", CLUSTER).await;
    });
}

fn addon<'c>(cluster: &'c Value, name: &str) -> Option<&'c Value> {
    cluster["status"]["addons"].as_array()?.iter().find(|addon| addon["name"] == name)
}

fn is_provisioned(cluster: &Value, name: &str) -> bool {
    addon(cluster, name).is_some_and(|addon| addon["conditions"][0]["status"] == "True")
}

async fn a_bad_manifest_is_named_and_the_others_go_on(story: &Story) {
    let cluster = story
        .wait_for("flannel, web and once are applied, and bad is not", CLUSTER, || async {
            let cluster = story.get("TanzuKubernetesCluster", "added").await?;
            let others = ["flannel", "web", "once"].iter().all(|name| is_provisioned(&cluster, name));
            let failed = addon(&cluster, "bad")?["conditions"][0]["reason"] == "ProvisioningFailed";
            let ready =
                condition(&cluster, "Ready")?["message"].as_str().unwrap_or_default().contains("broken");
            (others && failed && ready).then_some(cluster)
        })
        .await;
    assert_eq!(addon(&cluster, "flannel").unwrap()["type"], "CNI");
    assert_eq!(addon(&cluster, "web").unwrap()["version"], "v1");
    let ready = condition(&cluster, "AddonsReady").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("AddonsReconciliationFailed")));
    let words = ["3 of 4 add-ons", "Add-on bad", "Deployment default/broken", "replicas"];
    assert_contains(&ready["message"], &words);
    story.wait_for_ready("added", &words).await;
}

async fn they_are_what_their_bundles_are(guest: &Client) {
    let nodes: Api<Node> = Api::all(guest.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap().items {
        let ready =
            node.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True", "{:?}", ready.message);
    }
    let maps: Api<ConfigMap> = Api::namespaced(guest.clone(), "web");
    assert_eq!(maps.get("values").await.unwrap().data.unwrap()["pods"], "10.17.0.0/16");
    let parents: Api<ConfigMap> = Api::namespaced(guest.clone(), "kube-system");
    let parent = parents.get("gcm-addon-web").await.unwrap().metadata;
    let id = parent.labels.unwrap()["applyset.kubernetes.io/id"].clone();
    let annotations = parent.annotations.unwrap();
    assert_eq!(annotations["applyset.kubernetes.io/tooling"], "gcm/v1");
    assert_contains(
        &annotations["applyset.kubernetes.io/contains-group-kinds"],
        &["ConfigMap", "Deployment.apps"],
    );
    let page = maps.get("page").await.unwrap().metadata;
    assert_eq!(page.labels.unwrap()["applyset.kubernetes.io/part-of"], id);
    let managers: Vec<_> =
        page.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["gcm/addon/web"]);
}

async fn the_bad_one_is_mended(story: &Story) {
    let manifests = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: default}}";
    story.patch("ConfigMap", "bad", json!({"data": {"bad.yaml": manifests}})).await;
    story
        .wait_for("all add-ons are applied, and the cluster runs", SOON, || async {
            let cluster = story.get("TanzuKubernetesCluster", "added").await?;
            let applied = condition(&cluster, "AddonsReady")?["status"] == "True";
            (applied && is_provisioned(&cluster, "bad") && cluster["status"]["phase"] == "running")
                .then_some(())
        })
        .await;
}

async fn what_others_change_is_corrected(story: &Story, guest: &Client) {
    let sets: Api<DaemonSet> = Api::namespaced(guest.clone(), "kube-flannel");
    let deployments: Api<Deployment> = Api::namespaced(guest.clone(), "web");
    let maps: Api<ConfigMap> = Api::namespaced(guest.clone(), "web");
    let unlabelled =
        json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": null, "own": "label"}}});
    merge(&sets, "kube-flannel-ds", unlabelled).await.unwrap();
    let scaled = json!({"spec": {"replicas": 0, "paused": true}});
    merge(&deployments, "web", scaled).await.unwrap();
    maps.delete("page", &DeleteParams::default()).await.unwrap();
    story
        .wait_for("what was changed is as it was", SOON, || async {
            let labels = sets.get("kube-flannel-ds").await.ok()?.metadata.labels?;
            let spec = deployments.get("web").await.ok()?.spec?;
            let page = maps.get_opt("page").await.ok()??;
            // Fields that only the user has set stay.
            let kept = labels.get("own").is_some_and(|own| own == "label") && spec.paused == Some(true);
            let corrected = labels.contains_key("applyset.kubernetes.io/part-of") && spec.replicas == Some(1);
            (kept && corrected && page.data?.get("text")? == "hello").then_some(())
        })
        .await;
    merge(&deployments, "web", json!({"spec": {"paused": null}})).await.unwrap();
}

async fn what_a_new_version_drops_is_pruned(story: &Story, guest: &Client) {
    let own = "{apiVersion: v1, kind: ConfigMap, metadata: {name: page, namespace: web}, data: {text: bye}}";
    story.patch("ConfigMap", "web", json!({"data": {"version": "v2", "web.yaml": own}})).await;
    let maps: Api<ConfigMap> = Api::namespaced(guest.clone(), "web");
    let deployments: Api<Deployment> = Api::namespaced(guest.clone(), "web");
    story
        .wait_for("the new version is applied, and what it dropped is gone", SOON, || async {
            let cluster = story.get("TanzuKubernetesCluster", "added").await?;
            let page = maps.get_opt("page").await.ok()??;
            let gone = maps.get_opt("dropped").await.ok()?.is_none()
                && deployments.get_opt("web").await.ok()?.is_none();
            let applied = addon(&cluster, "web")?["version"] == "v2" && is_provisioned(&cluster, "web");
            (gone && applied && page.data?.get("text")? == "bye").then_some(())
        })
        .await;
    // The namespace isn't pruned, because that would delete users' objects in it.
    assert!(maps.get_opt("values").await.unwrap().is_some());
}

async fn what_is_applied_once_is_its_users(story: &Story, guest: &Client) {
    let maps: Api<ConfigMap> = Api::namespaced(guest.clone(), "default");
    merge(&maps, "once", json!({"data": {"text": "changed"}})).await.unwrap();
    let text =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: once, namespace: default}, data: {text: second}}";
    story.patch("ConfigMap", "once", json!({"data": {"once.yaml": text, "version": "v2"}})).await;
    // All bundles are read together, so when this change is applied, the one before it was read too.
    story.patch("ConfigMap", "bad", json!({"data": {"version": "v9"}})).await;
    let is_seen = |cluster: &Value| addon(cluster, "bad").is_some_and(|addon| addon["version"] == "v9");
    let added = ("TanzuKubernetesCluster", "added");
    let cluster = story.wait_for_object("the new versions were looked at", SOON, added, is_seen).await;
    assert!(addon(&cluster, "once").unwrap()["version"] == "v1" && is_provisioned(&cluster, "once"));
    assert_eq!(maps.get("once").await.unwrap().data.unwrap()["text"], "changed");
}
