//! Clusters from each kind of node image: what their nodes contain decides what holds the address of the control plane.

use std::process::{Command, Stdio};

use kube::api::ListParams;
use kube::{Api, ResourceExt};
use layercake::args::SiteNetwork;
use serde_json::Value;
use sim::control::PowerAction;

use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, story, story_without_registry};

/// The release of each kind of node image, and the static Pod that holds the address there, with its image.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("named", "v1.34.2---vmware.1-vkr.1", "kube-vip", "localhost:5000/vmware.io/kube-vip:v0.8.9_vmware.1"),
    ("pulled", "v1.33.1---vmware.1-fips-vkr.2", "kube-vip", "ghcr.io/kube-vip/kube-vip:v1.0.1"),
    ("built", "v1.31.4", "kube-vip", "ghcr.io/kube-vip/kube-vip:v1.0.1"),
    ("own", "v1.36.3---layercake.1", "keepalived", "localhost/layercake/keepalived:debian-13"),
];
/// A release whose image contains nothing that holds an address.
const HOLDS_NOTHING: &str = "v1.33.1---vmware.1-fips-vkr.2";
/// A release that needs nothing from a registry.
const NEEDS_NOTHING: &str = "v1.36.3---layercake.1";

fn manifest(name: &str, release: &str, control_planes: u32, query: &str) -> String {
    format!(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata:
  name: {name}
  namespace: NAMESPACE
  annotations: {{run.tanzu.vmware.com/resolve-os-image: \"{query}\"}}
spec:
  topology:
    controlPlane:
      replicas: {control_planes}
      vmClass: best-effort-xsmall
      storageClass: gold
      tkr: {{reference: {{name: {release}}}}}
    nodePools:
    - {{name: workers, replicas: 1, vmClass: best-effort-xsmall, storageClass: gold}}
"
    )
}

#[test]
fn every_kind_of_node_image_makes_a_cluster_where_nodes_reach_a_registry() {
    story("kinds", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: with NSX a load balancer has the address");
            return;
        }
        for (name, release, pod, image) in KINDS {
            story.apply(&manifest(name, release, 1, "")).await;
            let control_plane = story
                .wait_for("a control plane is made", SOON, || async {
                    story.get("KubeadmControlPlane", &format!("{name}-control-plane")).await
                })
                .await;
            let files = control_plane["spec"]["kubeadmConfigSpec"]["files"].to_string();
            assert_contains(files, &[&format!("/etc/kubernetes/manifests/{pod}.yaml"), image]);
        }
        for (name, ..) in KINDS {
            story.wait_until_running(name).await;
        }
    });
}

#[test]
fn a_cluster_that_no_node_image_can_make_is_refused_and_another_outlives_its_holders() {
    story_without_registry("cut-off", |story| async move {
        let remedy = ["neither keepalived nor kube-vip", "layercake image build", "--nodes-pull-images"];
        let refusal = story.try_apply(&manifest("refused", HOLDS_NOTHING, 1, "")).await.unwrap_err();
        assert_contains(&refusal, &remedy);
        assert_contains(doctor(&story, &manifest("refused", HOLDS_NOTHING, 1, "")), &remedy);
        let other = manifest("refused", NEEDS_NOTHING, 1, "os-name=ubuntu");
        let systems = ["no node image of", "os-name=debian,os-version=13"];
        assert_contains(story.try_apply(&other).await.unwrap_err(), &systems);
        assert!(story.list("TanzuKubernetesCluster").await.is_empty());

        story.apply(&manifest("held", NEEDS_NOTHING, 3, "")).await;
        story.wait_until_running("held").await;
        each_node_goes_once(&story).await;
    });
}

/// Resets one control plane node after the other, and so at least once the one that holds the address.
async fn each_node_goes_once(story: &Story) {
    let vms: Vec<_> = story.vms().await.into_iter().filter(|vm| vm.name.contains("control-plane")).collect();
    assert_eq!(vms.len(), 3);
    for vm in vms {
        story.shared.control().power(&vm.moid, PowerAction::Off).await.unwrap();
        story
            .wait_for("another node holds the address", SOON, || async {
                let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(story.guest_client("held").await);
                let nodes = nodes.list(&ListParams::default()).await.ok()?;
                nodes.iter().any(|node| node.name_any() != vm.name).then_some(())
            })
            .await;
        story
            .wait_for("the control plane has three nodes again", CLUSTER, || async {
                let control_plane = story.get("KubeadmControlPlane", "held-control-plane").await?;
                let status = &control_plane["status"];
                let machines = story.list("Machine").await;
                let runs = |machine: &Value| machine["status"]["phase"] == "Running";
                (status["readyReplicas"] == 3 && machines.iter().all(runs)).then_some(())
            })
            .await;
    }
}

/// What the doctor says of a manifest.
fn doctor(story: &Story, manifest: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifest.replace("NAMESPACE", &story.namespace)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_layercake"))
        .args(["doctor", "-o", "json", "--only", "LC10", "--kubeconfig"])
        .arg(&story.shared.session.kubeconfig)
        .arg("-f")
        .arg(file.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
