//! A user upgrades a cluster to the next minor release while clients use its API server.

use std::cell::RefCell;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::objects::{cluster_of_release, upgrade};
use crate::harness::requests::RequestProbe;
use crate::harness::story::{CLUSTER, Story, assert_contains, condition, story};

const OLD: &str = "v1.34.2---vmware.1-vkr.1";

#[test]
fn an_upgrade_of_three_and_three_loses_no_request() {
    story("rising", |story| async move {
        story.apply(&cluster_of_release("rising", OLD, 3, ("workers", 3))).await;
        let cluster = story.wait_until_running("rising").await;
        let updates = "[1.35.1+vmware.1-vkr.1]";
        assert_eq!(condition(&cluster, "UpdatesAvailable").unwrap()["message"], updates);
        let client = RequestProbe::of(story.guest_config("rising").await);
        story.patch("TanzuKubernetesCluster", "rising", upgrade("v1.35.1---vmware.1-vkr.1")).await;
        assert!(control_planes_come_first(&story).await);
        let runs = |cluster: &Value| {
            let status = &cluster["status"];
            status["version"] == "v1.35.1+vmware.1-vkr.1" && status["phase"] == "running"
        };
        let rising = ("TanzuKubernetesCluster", "rising");
        let cluster = story.wait_for_object("the cluster runs v1.35.1", CLUSTER * 2, rising, runs).await;
        client.assert_none_lost();
        assert_eq!(cluster["spec"]["distribution"]["fullVersion"], "v1.35.1+vmware.1-vkr.1");
        let nodes: Api<Node> = Api::all(story.guest_client("rising").await);
        for node in nodes.list(&ListParams::default()).await.unwrap().items {
            let version = node.status.as_ref().unwrap().node_info.as_ref().unwrap().kubelet_version.clone();
            assert_contains(version, &["v1.35.1"]);
        }
        story.delete("TanzuKubernetesCluster", "rising", CLUSTER).await;
    });
}

/// The user skips a minor release, which is refused without an annotation. Then the control plane takes both steps,
/// and the pool only the last.
#[test]
fn an_upgrade_over_two_minor_releases_goes_in_steps() {
    story("steps", |story| async move {
        story.apply(&cluster_of_release("steps", OLD, 1, ("workers", 1))).await;
        story.wait_until_running("steps").await;
        let mut target = upgrade("v1.36.3---vmware.1-vkr.1");
        let refused = story.try_patch("TanzuKubernetesCluster", "steps", target.clone()).await.unwrap_err();
        assert_contains(
            refused,
            &["minor releases cannot be skipped", "run.tanzu.vmware.com/upgrade-in-steps=true"],
        );

        target["metadata"] = json!({"annotations": {"run.tanzu.vmware.com/upgrade-in-steps": "true"}});
        story.patch("TanzuKubernetesCluster", "steps", target).await;
        let seen = RefCell::new(BTreeSet::new());
        story
            .wait_for("the cluster runs v1.36.3", CLUSTER * 2, || async {
                for machine in story.api("Machine").list(&ListParams::default()).await.ok()?.items {
                    let kind =
                        if machine.name_any().contains("-workers-") { "worker" } else { "control plane" };
                    let version = machine.data["spec"]["version"].as_str()?.get(..5)?.to_owned();
                    seen.borrow_mut().insert((kind, version));
                }
                let cluster = story.get("TanzuKubernetesCluster", "steps").await?;
                let status = &cluster["status"];
                let runs = status["version"] == "v1.36.3+vmware.1-vkr.1" && status["phase"] == "running";
                runs.then_some(())
            })
            .await;
        let seen = seen.into_inner();
        let of = |kind: &str| -> Vec<String> {
            seen.iter().filter(|(of, _)| *of == kind).map(|(_, version)| version.clone()).collect()
        };
        assert_eq!(of("control plane"), ["v1.34", "v1.35", "v1.36"]);
        assert_eq!(of("worker"), ["v1.34", "v1.36"]);
        story.delete("TanzuKubernetesCluster", "steps", CLUSTER).await;
    });
}

/// Waits until a worker has the new version. Returns true if all control plane nodes already have it.
async fn control_planes_come_first(story: &Story) -> bool {
    let nodes: Api<Node> = Api::all(story.guest_client("rising").await);
    story
        .wait_for("the first worker has the new version", CLUSTER * 2, || async {
            let nodes = nodes.list(&ListParams::default()).await.ok()?.items;
            let old = |node: &&Node| {
                let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
                info.is_some_and(|info| info.kubelet_version.starts_with("v1.34"))
            };
            let (workers, masters): (Vec<&Node>, Vec<&Node>) =
                nodes.iter().partition(|node| node.name_any().contains("-workers-"));
            let begun = workers.iter().any(|worker| !old(worker));
            begun.then(|| !masters.iter().any(old))
        })
        .await
}
