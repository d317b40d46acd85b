//! A change to a running cluster is blocked, and the user sees the cause on the cluster: a disruption budget or a
//! lost certificate authority.

use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::story::{CLUSTER, SOON, Story, merge};

const BUDGET: &str = "never-fewer";

/// Starts a Pod on the worker that can't be evicted.
pub async fn forbid_a_drain(story: &Story, cluster: &str) {
    let guest = story.guest_client(cluster).await;
    let all: Api<Pod> = Api::all(guest.clone());
    let vms: Vec<_> = story.vms().await.into_iter().map(|vm| vm.name).collect();
    // Take the node and image from a Pod on an existing worker.
    let is_on_worker = |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        vms.contains(&node) && !node.contains("-control-plane-")
    };
    let other = story
        .wait_for("a Pod runs on the worker", SOON, || async {
            let pods = all.list(&ListParams::default()).await.ok()?.items;
            pods.into_iter().find(&is_on_worker)?.spec
        })
        .await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "precious", "labels": {"app": "precious"}},
        "spec": {"nodeName": other.node_name, "containers": [{"name": "a", "image": other.containers[0].image}]},
    });
    let pods: Api<Pod> = Api::namespaced(guest.clone(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": BUDGET},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "precious"}}},
    });
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(guest, "default");
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    story
        .wait_for("the Pod runs", SOON, || async {
            let pod = pods.get("precious").await.ok()?;
            (pod.status?.phase? == "Running").then_some(())
        })
        .await;
}

/// The cluster names the Pod and its budget. The user deletes the budget, so that the drain can finish.
pub async fn the_budget_is_named(story: &Story, cluster: &str) {
    let words = ["default/precious", BUDGET, "disruption budget", "Machine"];
    story.wait_for_complaint_within(CLUSTER, "TanzuKubernetesCluster", cluster, &words).await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(story.guest_client(cluster).await, "default");
    budgets.delete(BUDGET, &DeleteParams::default()).await.unwrap();
}

/// The lost authority isn't recreated, because nodes trust the old one. The user restores it.
pub async fn a_lost_authority_is_named(story: &Story, cluster: &str) {
    let secrets: Api<Secret> = Api::namespaced(story.client(), &story.namespace);
    let name = format!("{cluster}-ca");
    let mut lost = secrets.get(&name).await.unwrap();
    secrets.delete(&name, &DeleteParams::default()).await.unwrap();
    touch_control_plane(story).await;
    let words = ["KubeadmControlPlane", "ca is not available", "Restore", &name];
    story.wait_for_complaint("TanzuKubernetesCluster", cluster, &words).await;
    assert!(secrets.get_opt(&name).await.unwrap().is_none(), "another was made");

    lost.metadata.resource_version = None;
    lost.metadata.uid = None;
    secrets.create(&PostParams::default(), &lost).await.unwrap();
    touch_control_plane(story).await;
    story.wait_until_running(cluster).await;
}

/// Triggers a control plane reconcile. Cluster API doesn't watch these Secrets and resyncs every ten minutes.
async fn touch_control_plane(story: &Story) {
    let control_planes = story.api("KubeadmControlPlane");
    let object = control_planes.list(&ListParams::default()).await.unwrap().items.remove(0);
    let count = object.annotations().get("touched").map_or(1, |text| text.len() + 1);
    merge(
        &control_planes,
        &object.name_any(),
        json!({"metadata": {"annotations": {"touched": "x".repeat(count)}}}),
    )
    .await
    .unwrap();
}
