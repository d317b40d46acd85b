//! A cluster breaks for good. Remediation stops by itself, the user sees the cause on the cluster, and can still
//! delete it.

use std::process::Command;

use api::names::label;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::Value;
use sim::control::PowerAction;

use crate::harness::objects::one_and_one;
use crate::harness::story::{CLUSTER, SOON, Story, story};

/// gcm's default limit for node remediations.
const REMEDIATIONS: u64 = 3;

#[test]
fn an_ill_cluster_is_not_eaten_up_and_goes_with_its_namespace() {
    story("ill", |story| async move {
        story.apply(&one_and_one("ill", "doomed")).await;
        story.wait_until_running("ill").await;
        remediation_ends_by_itself(&story).await;
        an_api_server_that_hangs_is_named(&story).await;
        it_goes_with_its_namespace(&story).await;
    });
}

async fn remediation_ends_by_itself(story: &Story) {
    for count in 1..=REMEDIATIONS {
        let lost = destroy_worker(story).await;
        story
            .wait_for(&format!("worker {count} is replaced"), CLUSTER, || async {
                let status = cluster(story).await?["status"].clone();
                let replaced = status["nodeRemediationCount"] == count && status["phase"] == "running";
                (replaced && !workers(story).await.contains(&lost)).then_some(())
            })
            .await;
    }
    let lost = destroy_worker(story).await;
    story
        .wait_for_complaint_within(
            CLUSTER,
            "TanzuKubernetesCluster",
            "ill",
            &["TooManyRemediations", "doomed"],
        )
        .await;
    assert_eq!(workers(story).await, [lost], "it is left alone");
    assert_eq!(cluster(story).await.unwrap()["status"]["nodeRemediationCount"], REMEDIATIONS);
}

/// The API server process is stopped with SIGSTOP, so it accepts connections but doesn't respond.
async fn an_api_server_that_hangs_is_named(story: &Story) {
    let node = story.vm_with("-control-plane-").await;
    let folder = story.shared.session.kubeconfig.parent().unwrap().join("guests").join(&node.moid);
    let server = format!("kube-apiserver .*{}/", folder.display());
    let stopped = Command::new("pkill").args(["-STOP", "-f", &server]).status().unwrap();
    assert!(stopped.success(), "no API server of {}", node.name);
    story
        .wait_for_complaint_within(CLUSTER, "TanzuKubernetesCluster", "ill", &["API server does not answer"])
        .await;
}

async fn it_goes_with_its_namespace(story: &Story) {
    let namespaces: Api<Namespace> = Api::all(story.client());
    namespaces.delete(&story.namespace, &DeleteParams::default()).await.unwrap();
    let gone = async || matches!(namespaces.get_opt(&story.namespace).await, Ok(None));
    story.wait_until("the namespace is gone", CLUSTER, gone).await;
    assert!(story.vms().await.is_empty(), "a VM is left");
}

async fn cluster(story: &Story) -> Option<Value> {
    story.get("TanzuKubernetesCluster", "ill").await
}

async fn workers(story: &Story) -> Vec<String> {
    let of_pool = ListParams::default().labels(&format!("{}=doomed", label::NODE_POOL));
    let machines = story.api("Machine").list(&of_pool).await.unwrap();
    machines.items.into_iter().filter_map(|machine| machine.metadata.name).collect()
}

/// Destroys a worker's VM in vCenter, and returns the worker's name.
async fn destroy_worker(story: &Story) -> String {
    let there = || async { story.vms().await.into_iter().find(|vm| vm.name.contains("-doomed-")) };
    let worker = story.wait_for("there is a worker", SOON, there).await;
    story.shared.control().power(&worker.moid, PowerAction::Destroy).await.unwrap();
    worker.name
}
