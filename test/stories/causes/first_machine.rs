//! A cluster's first machine doesn't come up. The user sees each cause on the cluster.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use kube::api::{DeleteParams, ListParams};
use layercake::args::SiteNetwork;
use layercake::site::manifests::storage_quota;
use serde_json::{Value, json};
use sim::control::PowerAction;

use crate::harness::objects::{POLICY, cluster, nodes, storage_class};
use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, disruptive_story, merge, story};

/// Cluster names with their VM class and storage class, and the words that the `Ready` message must contain.
const CAUSES: [(&str, [&str; 2], &[&str]); 4] = [
    (
        "greedy",
        ["greedy", "gold"],
        &["VirtualMachine causes/greedy-control-plane-", "Memory resources", "insufficient"],
    ),
    (
        "unpolicied",
        ["best-effort-xsmall", "unpolicied"],
        &["VirtualMachine causes/unpolicied-control-plane-", "no-such-policy"],
    ),
    (
        "addressless",
        ["best-effort-xsmall", "gold"],
        &["WaitingForNetworkAddress", "VirtualMachine causes/addressless-control-plane-", "address"],
    ),
    (
        "classless",
        ["classless", "gold"],
        &["VirtualMachineClassNotFound", "VirtualMachineClass classless does not exist"],
    ),
];

#[test]
fn causes_of_the_first_machine_are_named_at_the_top() {
    story("causes", |story| async move {
        what_is_to_go_wrong(&story).await;
        for (name, [class, storage], _) in CAUSES {
            story
                .apply_object(&cluster(&story.namespace, name, "v1.35", &nodes(1, class, storage), &[]))
                .await;
        }
        for (name, _, words) in CAUSES {
            let message = story.wait_for_complaint("TanzuKubernetesCluster", name, words).await;
            let blocking = story.describe(name).await.blocking.unwrap();
            assert!(blocking.object.contains(name), "{name}: {message} {blocking:?}");
        }
        corrects_the_class(&story).await;
        loses_its_only_control_plane_node(&story).await;
        a_pause_holds_its_deletion(&story).await;
        story.shared.guests.release("addressless-*");
        for name in ["greedy", "unpolicied", "addressless"] {
            story.delete("TanzuKubernetesCluster", name, CLUSTER).await;
        }
        story.wait_until_gone("TanzuKubernetesCluster", "classless", CLUSTER).await;
        let classes = story.cluster_api("VirtualMachineClass");
        classes.delete("greedy", &DeleteParams::default()).await.unwrap();
        let storage = story.cluster_api("StorageClass");
        storage.delete("unpolicied", &DeleteParams::default()).await.unwrap();
    });
}

/// The user corrects the VM class in the manifest, and the first node is replaced.
async fn corrects_the_class(story: &Story) {
    let corrected = nodes(1, "best-effort-xsmall", "gold");
    story.apply_object(&cluster(&story.namespace, "classless", "v1.35", &corrected, &[])).await;
    story.wait_until_running("classless").await;
    let machines = story.list("WCPMachine").await;
    let mut own = machines.iter().filter(|machine| machine["metadata"]["labels"][NAME_LABEL] == "classless");
    assert!(own.all(|machine| machine["spec"]["className"] == "best-effort-xsmall"));
}

/// `Ready` says that the etcd data is lost, because health checks don't replace the only control plane node.
async fn loses_its_only_control_plane_node(story: &Story) {
    let vm = story.vm_with("classless-control-plane-").await;
    story.shared.control().power(&vm.moid, PowerAction::Destroy).await.unwrap();
    let words = [
        "CannotBeRemediated",
        "the only copy of etcd's data",
        "Nothing replaces it",
        "layercake delete classless",
    ];
    story.wait_for_ready("classless", &words).await;
    let blocking = story.describe("classless").await.blocking.unwrap();
    assert_eq!(blocking.reason, "CannotBeRemediated", "{blocking:?}");
}

/// `Ready` says that a pause blocks the deletion, and names the command that ends the pause.
async fn a_pause_holds_its_deletion(story: &Story) {
    let paused = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    story.patch("TanzuKubernetesCluster", "classless", paused(json!(""))).await;
    let api = story.api("TanzuKubernetesCluster");
    api.delete("classless", &DeleteParams::default()).await.unwrap();
    let resume = "kubectl annotate tkc classless -n causes cluster.x-k8s.io/paused-";
    story.wait_for_ready("classless", &["Paused", "the deletion is paused", resume]).await;
    let description = story.describe("classless").await;
    assert!(
        description.blocking.as_ref().is_some_and(layercake::describe::Blocking::is_pause),
        "{description:?}"
    );
    story.patch("TanzuKubernetesCluster", "classless", paused(Value::Null)).await;
}

const NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// The pool's only free address belongs to another claim. The user sees this on the cluster, which goes on when the
/// address is free.
#[test]
fn an_address_pool_that_is_used_up_is_named_and_waited_for() {
    disruptive_story("used-up", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: a load balancer has the addresses of control planes");
            return;
        }
        story.prepare_namespace("best-effort-xsmall").await;
        let pools = story.cluster_api("GlobalInClusterIPPool");
        let pool = pools.get(POOL).await.unwrap();
        let whole = pool.data["spec"]["addresses"].clone();
        let last = whole[0].as_str().unwrap().rsplit('-').next().unwrap().to_owned();
        // The provider rejects a pool without the addresses in use. A cluster that was moved away leaves its address
        // behind.
        let claims = story.cluster_api("IPAddressClaim");
        let all = ListParams::default();
        let none = async || claims.list(&all).await.is_ok_and(|claims| claims.items.is_empty());
        story.wait_until("no other cluster waits for an address or gives one back", CLUSTER, none).await;
        let left = story.cluster_api("IPAddress").list(&all).await.unwrap();
        let mut addresses: Vec<_> = left.iter().map(|one| one.data["spec"]["address"].clone()).collect();
        addresses.push(json!(last));
        merge(&pools, POOL, json!({"spec": {"addresses": addresses}})).await.unwrap();
        // Until the provider sees the change, it may give a claim any address from the whole pool.
        story
            .wait_until("one address is free", SOON, async || {
                pools.get(POOL).await.unwrap().data["status"]["ipAddresses"]["free"] == 1
            })
            .await;
        let steps = AssertUnwindSafe(wait_for_an_address(&story, &last)).catch_unwind().await;
        merge(&pools, POOL, json!({"spec": {"addresses": whole}})).await.unwrap();
        steps.unwrap();
        story.delete("TanzuKubernetesCluster", "late", CLUSTER).await;
    });
}

const POOL: &str = "control-planes";

async fn wait_for_an_address(story: &Story, address: &str) {
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": "other", "namespace": story.namespace},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": POOL}},
    });
    story.apply_object(&claim).await;
    story.wait_for_field(("IPAddress", "other"), ("/spec/address", address), SOON).await;
    let control_plane = nodes(1, "best-effort-xsmall", "gc-storage-profile");
    story.apply_object(&cluster(&story.namespace, "late", "v1.35", &control_plane, &[])).await;
    let words = ["WaitingForIPAddress", "IPAddressClaim used-up/", "has no free address"];
    story.wait_for_complaint("TanzuKubernetesCluster", "late", &words).await;
    story.delete("IPAddressClaim", "other", SOON).await;
    story.wait_for_field(("Cluster", "late"), ("/spec/controlPlaneEndpoint/host", address), SOON).await;
}

/// Creates a class with more memory than any host has and a storage class whose policy vCenter doesn't have, and
/// holds a guest's boot.
async fn what_is_to_go_wrong(story: &Story) {
    story.prepare_namespace("best-effort-xsmall").await;
    let class = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass",
        "metadata": {"name": "greedy"},
        "spec": {
            "hardware": {"cpus": 2, "memory": "4Ti"}, "policies": {"resources": {"requests": {"memory": "4Ti"}}},
        },
    });
    story.apply_object(&class).await;
    story.prepare_namespace("greedy").await;
    let (known, unknown) =
        (json!({"storagePolicyID": POLICY}), json!({"storagePolicyName": "no-such-policy"}));
    story.apply_object(&storage_class("gold", &known)).await;
    story.apply_object(&storage_class("unpolicied", &unknown)).await;
    story.apply_object(&storage_quota("storage", &story.namespace, ["gold", "unpolicied"])).await;
    story.shared.guests.hold("addressless-*");
}
