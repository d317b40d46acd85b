//! A first boot fails or a guest stays silent. The user sees the cause, the VM and the remedy on the cluster.

use std::time::Duration;

use sim::guest::Failure;

use crate::harness::objects::one_node;
use crate::harness::story::{CLUSTER, Story, assert_contains, condition, story};
use crate::harness::vsphere_soap;

const CONDITION: &str = "guestinfo.vmservice.bootstrap.condition";
/// A timeout that exceeds the time for which the VM operator waits for a guest's report.
const SILENCE: Duration = Duration::from_mins(6);

fn manifest(name: &str, workers: &str) -> String {
    let cluster = one_node(name, "v1.36.3---vmware.1-vkr.1", ["best-effort-small", "gold"]);
    cluster.replace("nodePools: []", &format!("nodePools: [{workers}]"))
}

#[test]
fn a_first_boot_that_fails_names_its_cause_at_the_top() {
    story("port-in-use", |story| async move {
        let found = Failure::preflight("Port-10259", "Port 10259 is in use");
        story.shared.guests.provoke("occupied-control-plane-*", found);
        story.apply(&manifest("occupied", "")).await;
        let cause = "kubeadm init failed: Port 10259 is in use";
        let message = cluster_says(&story, "occupied", CLUSTER, &[cause, "Use a clean node image"]).await;
        assert_contains(&message, &["BootstrapFailed", "VirtualMachine port-in-use/occupied-control-plane-"]);
        assert_contains(story.describe("occupied").await.blocking.unwrap().message, &[cause]);
        every_layer_says_it(&story, cause).await;
        story.wait_for_events("WCPMachine", &only(&story, "WCPMachine").await, &["BootstrapFailed"]).await;
        story.shared.guests.stop_provoking("occupied-control-plane-*");
        story.delete("TanzuKubernetesCluster", "occupied", CLUSTER).await;
    });
}

#[test]
fn a_worker_that_cannot_pull_its_images_is_explained_while_the_control_plane_runs() {
    story("bad-registry", |story| async move {
        let found = Failure::preflight(
            "ImagePull",
            "failed to pull image registry.example/pause:3.10: dial tcp: lookup registry.example: no such host",
        );
        story.shared.guests.provoke("unpulled-pool-*", found);
        let pool = "{name: pool, replicas: 1, vmClass: best-effort-small, storageClass: gold}";
        story.apply(&manifest("unpulled", pool)).await;
        let cause = "kubeadm join failed: failed to pull image registry.example/pause:3.10";
        cluster_says(&story, "unpulled", CLUSTER, &[cause, "spec.settings.network.proxy"]).await;
        a_node_that_booted_reports_success(&story).await;
        story.shared.guests.stop_provoking("unpulled-pool-*");
        story.delete("TanzuKubernetesCluster", "unpulled", CLUSTER).await;
    });
}

#[test]
fn a_guest_that_says_nothing_is_named_with_its_power_and_tools() {
    story("silent-boot", |story| async move {
        story.shared.guests.hold("mute-control-plane-*");
        story.apply(&manifest("mute", "")).await;
        let words = [
            "NoBootstrapStatus",
            "powered on",
            "has not reported",
            "VMware Tools are not running",
            "console",
        ];
        cluster_says(&story, "mute", SILENCE, &words).await;
        story.shared.guests.release("mute-control-plane-*");
        story.wait_until_running("mute").await;
        let vm = only(&story, "VirtualMachine").await;
        story.wait_for_condition("VirtualMachine", &vm, "GuestBootstrap", "True").await;
        story.delete("TanzuKubernetesCluster", "mute", CLUSTER).await;
    });
}

/// Waits until the cluster's `Ready` message contains all these words, and returns it.
async fn cluster_says(story: &Story, name: &str, deadline: Duration, words: &[&str]) -> String {
    story.wait_for_message(("TanzuKubernetesCluster", name), "Ready", deadline, words).await
}

async fn every_layer_says_it(story: &Story, cause: &str) {
    let vm = story.get("VirtualMachine", &only(story, "VirtualMachine").await).await.unwrap();
    let booted = condition(&vm, "GuestBootstrap").unwrap();
    assert_eq!((&booted["status"], &booted["reason"]), (&"False".into(), &"BootstrapFailed".into()));
    assert_eq!(booted["message"], cause, "in the guest's own words");
    assert_eq!(condition(&vm, "VirtualMachineCreated").unwrap()["status"], "True");
    let machine = only(story, "Machine").await;
    story.wait_for_message(("Machine", &machine), "InfrastructureReady", CLUSTER, &[cause]).await;
    let keys = vsphere_soap::extra_config(&story.shared.session, &story.vms().await[0].moid).await;
    assert_contains(&keys["guestinfo.vmservice.bootstrap.log"], &["[ERROR Port-10259]"]);
}

async fn a_node_that_booted_reports_success(story: &Story) {
    let control_plane = story.vm_with("-control-plane-").await;
    let reported = async || {
        let keys = vsphere_soap::extra_config(&story.shared.session, &control_plane.moid).await;
        keys.get(CONDITION).is_some_and(|condition| condition == "true")
    };
    story.wait_until("the control plane's report", CLUSTER, reported).await;
}

async fn only(story: &Story, kind: &str) -> String {
    let all = story.list(kind).await;
    assert_eq!(all.len(), 1, "{kind}");
    all[0]["metadata"]["name"].as_str().unwrap().to_owned()
}
