//! A user moves a Cluster API cluster to another management cluster with `clusterctl move`. Its machines, which are
//! named by templates, aren't touched.

use std::path::Path;
use std::process::Command;

use kube::api::{DeleteParams, DynamicObject, ListParams};
use layercake::args::SiteNetwork;
use layercake::site::manifests::storage_quota;
use plane::{Plane, Program};
use serde_json::{Value, json};

use crate::clusters::plain::{CLUSTER_NAME, delete_cluster, template_documents};
use crate::harness::command::exe;
use crate::harness::objects::{POLICY, storage_class};
use crate::harness::own_server::{OwnServer, prepare_stack};
use crate::harness::second_cluster::{SecondCluster, copy_object};
use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, disruptive_story};
use crate::moves::cluster::assert_untouched;

/// The Machine's name with another word in the middle.
const NAMING: &str = "{{ .machine.name | trunc 8 }}-vm-{{ .machine.name | trunc -5 }}";

#[test]
fn a_cluster_moves_with_clusterctl_and_nothing_happens_to_its_machines() {
    disruptive_story("moved-cluster", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        for object in storage(&story.namespace) {
            story.apply_object(&object).await;
        }
        let file = match network() {
            SiteNetwork::Nsx => "cluster-template-nsx.yaml",
            SiteNetwork::PortGroups => "cluster-template.yaml",
        };
        for mut document in template_documents(&story, file, ["1", "0"]) {
            if document["kind"] == "WCPMachineTemplate" {
                let spec = &mut document["spec"]["template"]["spec"];
                spec["className"] = "best-effort-xsmall".into();
                spec["naming"] = json!({"template": NAMING});
            }
            if document["kind"] == "KubeadmControlPlane" {
                document["spec"]["machineNaming"] =
                    json!({"template": "{{ .cluster.name }}-cp-{{ .random }}"});
            }
            story.apply_object(&document).await;
        }
        let first = story.api("Machine");
        let node = story.wait_for("its node has joined", CLUSTER, || node_of(&first)).await;
        story.wait_for_condition("Cluster", CLUSTER_NAME, "ControlPlaneInitialized", "True").await;
        let before = vms_of(&story, CLUSTER_NAME).await;
        assert_named_by_templates(&story, &before, &node).await;
        if network() == SiteNetwork::Nsx {
            eprintln!("not moved: the load balancer would be made anew");
            return delete_cluster(&story).await;
        }

        let second = management_cluster(&story).await;
        story.shared.control().take_journal().await.unwrap();
        clusterctl_move(&story, &story.shared.session.kubeconfig, second.kubeconfig());
        let there = |kind| second.api(kind, &story.namespace);
        let moved = there("Machine");
        story.wait_for("the Machine has its node again", SOON, || node_of(&moved)).await;
        for kind in ["WCPCluster", "WCPMachine"] {
            story
                .wait_for(&format!("the {kind} is provisioned as before"), SOON, || async {
                    let object = there(kind).list(&ListParams::default()).await.ok()?.items.pop()?;
                    (object.data["status"]["initialization"]["provisioned"] == true).then_some(())
                })
                .await;
        }
        assert_untouched(&story).await;
        assert_eq!(vms_of(&story, CLUSTER_NAME).await, before);
        assert!(story.list("VirtualMachine").await.is_empty(), "nothing is left where it came from");

        there("Cluster").delete(CLUSTER_NAME, &DeleteParams::default()).await.unwrap();
        // The Cluster itself waits for its address claim, which isn't served here.
        let machines = there("WCPMachine");
        story
            .wait_for("its machines are gone", SOON, || async {
                machines.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
            })
            .await;
        assert!(vms_of(&story, CLUSTER_NAME).await.is_empty());
        second.stop().await;
    });
}

/// Checks that the Machine, its VM and its Node have the names that the templates define.
async fn assert_named_by_templates(story: &Story, vms: &[(String, String, String)], node: &str) {
    let machines = story.list("Machine").await;
    let machine = machines[0]["metadata"]["name"].as_str().expect("a name");
    let random = machine.strip_prefix(&format!("{CLUSTER_NAME}-cp-")).expect("the name of its template");
    assert_eq!(vms.len(), 1);
    assert_eq!(vms[0].0, format!("{CLUSTER_NAME}-vm-{random}"));
    assert_eq!(node, vms[0].0);
}

/// Starts another management cluster on the same vCenter: Cluster API, capw and the VM operator.
pub async fn management_cluster(story: &Story) -> SecondCluster {
    let (guard, options) = prepare_stack(story, sim::tools::definitions().unwrap());
    let server = OwnServer { guard, plane: Plane::start(options).await.unwrap() };
    let second = SecondCluster::adopt(story, server, &[]).await;
    second.run(Program::new("capw", exe())).await;
    for object in storage(&story.namespace) {
        second.apply(&object).await;
    }
    let pool = story.cluster_api("GlobalInClusterIPPool");
    copy_object(&pool, "control-planes", &second.client()).await;
    second.run_operator().await;
    second
}

fn storage(namespace: &str) -> [Value; 2] {
    let gold = storage_class("gold", &json!({ "storagePolicyID": POLICY }));
    [gold, storage_quota("storage", namespace, ["gold"])]
}

pub fn clusterctl_move(story: &Story, from: &Path, to: &Path) {
    let output = clusterctl_move_command(story, from, to).output().expect("clusterctl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the node of the only Machine, if it is known.
async fn node_of(machines: &kube::Api<DynamicObject>) -> Option<String> {
    let machine = machines.list(&ListParams::default()).await.ok()?.items.pop()?;
    Some(machine.data["status"]["nodeRef"]["name"].as_str()?.to_owned())
}

/// Returns the names, IDs and power states of a cluster's VMs in vCenter.
pub async fn vms_of(story: &Story, cluster: &str) -> Vec<(String, String, String)> {
    let inventory = story.shared.control().inventory().await.unwrap();
    let ours = inventory.vms.into_iter().filter(|vm| vm.name.starts_with(&format!("{cluster}-")));
    ours.map(|vm| (vm.name, vm.moid, vm.power_state)).collect()
}

pub fn clusterctl_move_command(story: &Story, from: &Path, to: &Path) -> Command {
    let mut command = clusterctl(story, from, &["move"]);
    command.arg("--to-kubeconfig").arg(to);
    command
}

/// Returns a clusterctl command for the story's namespace in the management cluster behind `kubeconfig`.
pub fn clusterctl(story: &Story, kubeconfig: &Path, what: &[&str]) -> Command {
    let mut command = Command::new(crate::harness::shared_stack::build_tool(&plane::tools::CLUSTERCTL));
    command
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .env("HOME", story.folder())
        .args(what)
        .args(["--namespace", &story.namespace, "--kubeconfig"])
        .arg(kubeconfig);
    command
}
