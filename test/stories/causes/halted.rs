//! One cluster halts repeatedly, each time for another cause, and the user sees the cause on the cluster: an
//! unreachable node or endpoint, an add-on that blocks an upgrade, or a deletion that is refused or blocked.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sim::control::{FaultKind, FaultRule, GuestReport, InventoryVm};
use sim::guest::Phase;

use crate::harness::objects::{SMALL, one_node, upgrade};
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, merge, story};

const NAME: &str = "halting";
/// An address outside the site's ranges, on which nothing listens.
const NOWHERE: &str = "10.254.254.254";

#[test]
fn a_cluster_that_halts_says_why_and_goes_on() {
    story(NAME, |story| async move {
        story.shared.guests.hold("halting-*");
        let cluster = one_node(NAME, "v1.34.2---vmware.1-vkr.1", SMALL);
        story.apply(&cluster.replace("replicas: 1,", "replicas: 1, nodeDrainTimeout: 5m,")).await;
        who_is_not_reached_is_named_with_its_address(&story).await;
        what_somebody_edits_is_put_right(&story).await;
        an_add_on_keeps_an_update_back(&story).await;
        a_deletion_that_halts_says_what_holds_it(&story).await;
    });
}

async fn node(story: &Story) -> InventoryVm {
    story.wait_for("there is a VM", CLUSTER, || async { story.vms().await.pop() }).await
}

/// The API server is unreachable: first Cluster API's kubeconfig names a wrong endpoint, then the guest reports a
/// wrong address.
async fn who_is_not_reached_is_named_with_its_address(story: &Story) {
    let vm = node(story).await;
    story.shared.guests.reached(&vm.name, |phase| *phase == Phase::Held).await;
    let kubeconfig = Kubeconfig::read(story).await;
    kubeconfig.set("127.254.254.254:6443").await;
    story.shared.guests.release("halting-*");
    let boot = story.shared.guests.reached(&vm.name, |phase| *phase == Phase::Node).await;
    story.wait_for_ready(NAME, &["WaitingForNode", "can reach the endpoint", &kubeconfig.endpoint]).await;

    let report = async |ip: String| {
        let report = GuestReport { ip: Some(ip), host_name: Some(vm.name.clone()), tools_running: true };
        story.shared.control().report(&vm.moid, &report).await.unwrap();
    };
    report(NOWHERE.to_owned()).await;
    let unassigned = [NOWHERE, "is not probed", "Add a range with this address to GuestAddressRanges"];
    story.wait_for_ready(NAME, &unassigned).await;
    let silent = silent_neighbor(boot.address.reported);
    report(silent.clone()).await;
    let probe = format!("{silent}:6443: connection refused");
    story.wait_for_ready(NAME, &["NodeNotReached", "VirtualMachine", &vm.name, &probe]).await;
    report(boot.address.reported.to_string()).await;
    kubeconfig.set(&kubeconfig.endpoint).await;
    story.wait_until_running(NAME).await;
}

/// Returns an address in the range of a node's address on which nothing listens.
fn silent_neighbor(node: Ipv4Addr) -> String {
    let [a, b, ..] = node.octets();
    format!("{a}.{b}.254.254")
}

/// The kubeconfig with which Cluster API connects to the cluster.
struct Kubeconfig {
    secrets: Api<Secret>,
    name: String,
    text: String,
    endpoint: String,
}

impl Kubeconfig {
    async fn read(story: &Story) -> Self {
        let secrets: Api<Secret> = Api::namespaced(story.client(), &story.namespace);
        let name = format!("{NAME}-kubeconfig");
        let there = || async { secrets.get_opt(&name).await.ok().flatten() };
        let secret = story.wait_for("there is a kubeconfig", SOON, there).await;
        let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
        let cluster = story.get("Cluster", NAME).await.unwrap();
        let endpoint = &cluster["spec"]["controlPlaneEndpoint"];
        let endpoint = format!("{}:{}", endpoint["host"].as_str().unwrap(), endpoint["port"]);
        assert_contains(&text, &[&endpoint]);
        Self { secrets, name, text, endpoint }
    }

    async fn set(&self, endpoint: &str) {
        let text = self.text.replace(&self.endpoint, endpoint);
        merge(&self.secrets, &self.name, json!({"stringData": {"value": text}})).await.unwrap();
    }
}

/// A user edits generated objects. The control plane edit is reverted, the template edit is refused, and machines
/// aren't replaced.
async fn what_somebody_edits_is_put_right(story: &Story) {
    let before = machines(story).await;
    let control_planes = story.api("KubeadmControlPlane");
    let name = control_planes.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let read = async || control_planes.get(&name).await.unwrap().data["spec"].clone();
    let was = read().await;
    let edit = json!({"machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 77}}}});
    merge(&control_planes, &name, json!({"spec": edit})).await.unwrap();
    story.wait_until("the edit of the control plane is undone", SOON, async || read().await == was).await;

    let templates = story.api("WCPMachineTemplate");
    let name = was["machineTemplate"]["spec"]["infrastructureRef"]["name"].as_str().unwrap();
    let refused =
        merge(&templates, name, json!({"spec": {"template": {"spec": {"className": "best-effort-xsmall"}}}}))
            .await
            .unwrap_err();
    assert_contains(refused, &["spec.template.spec may not be changed", "Create another template"]);
    assert_eq!(machines(story).await, before);
}

async fn machines(story: &Story) -> Vec<String> {
    let machines = story.api("Machine").list(&ListParams::default()).await.unwrap().items;
    machines.iter().map(ResourceExt::name_any).collect()
}

/// A user adds a broken add-on and upgrades. The upgrade waits, because the next version would reject the add-on too.
async fn an_add_on_keeps_an_update_back(story: &Story) {
    let broken = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "broken", "namespace": story.namespace,
            "labels": {"tkg.tanzu.vmware.com/addon-name": "broken", "tkg.tanzu.vmware.com/cluster-name": NAME},
        },
        "data": {"broken.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}, spec: {replicas: many}}"},
    });
    story.apply_object(&broken).await;
    let words = ["AddonsReconciliationFailed", "Add-on broken", "Deployment default/web", "replicas"];
    story.wait_for_ready(NAME, &words).await;
    story.patch("TanzuKubernetesCluster", NAME, upgrade("v1.35.1---vmware.1-vkr.1")).await;
    let words = ["the control plane keeps its version", "Add-on broken", "Deployment default/web"];
    story.wait_for_ready(NAME, &words).await;
    let status = story.get("TanzuKubernetesCluster", NAME).await.unwrap()["status"].clone();
    assert_eq!(
        (&status["phase"], &status["version"]),
        (&json!("updating"), &json!("v1.34.2+vmware.1-vkr.1"))
    );
    let control_plane = story.list("KubeadmControlPlane").await.remove(0);
    assert_contains(&control_plane["spec"]["version"], &["v1.34.2"]);
}

const HELD: &str = "story.test/held";

/// vCenter refuses to destroy the VM. Then foreign finalizers block the deletion, and the user sees each one.
async fn a_deletion_that_halts_says_what_holds_it(story: &Story) {
    let vm = node(story).await;
    let control = story.shared.control();
    let refused = FaultRule::once("Destroy_Task", FaultKind::Fault)
        .with("NoPermission", "Permission to perform this operation was denied")
        .on(&vm.moid)
        .times(1000);
    let fault = control.plant(&refused).await.unwrap();
    for kind in ["Machine", "VirtualMachine"] {
        hold(story, kind, &vm.name).await;
    }
    story.api("TanzuKubernetesCluster").delete(NAME, &DeleteParams::default()).await.unwrap();
    story
        .wait_for_ready(NAME, &["to be deleted", "DeletionFailed", "VirtualMachine halting/", "Permission"])
        .await;
    control.remove_faults(Some(&fault)).await.unwrap();
    let name = format!("halting/{}: ", vm.name);
    for (kind, word) in [
        ("VirtualMachine", "The VM is gone from vCenter"),
        ("Machine", "DeletionHeld: deletion is blocked by"),
    ] {
        story.wait_for_ready(NAME, &["to be deleted", &format!("{kind} {name}{word}"), HELD]).await;
        let object = story.api(kind).get(&vm.name).await.unwrap();
        let others: Vec<_> = object.finalizers().iter().filter(|finalizer| *finalizer != HELD).collect();
        story.patch(kind, &vm.name, json!({"metadata": {"finalizers": others}})).await;
    }
    story.wait_until_gone("TanzuKubernetesCluster", NAME, CLUSTER).await;
}

async fn hold(story: &Story, kind: &str, name: &str) {
    let object = story.api(kind).get(name).await.unwrap();
    let finalizers: Vec<_> = object.finalizers().iter().cloned().chain([HELD.to_owned()]).collect();
    story.patch(kind, name, json!({"metadata": {"finalizers": finalizers}})).await;
}
