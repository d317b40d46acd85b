//! What keeps a cluster's first machine from coming up, each cause provoked, and read where a user looks first.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use layercake::args::SiteNetwork;
use serde_json::{Value, json};

use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, disruptive_story, story};

/// A cluster, its VM class and storage class, and the words that its condition Ready must have.
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
            story.apply_object(&cluster(&story, name, class, storage)).await;
        }
        for (name, _, words) in CAUSES {
            let message = story.wait_for_complaint("TanzuKubernetesCluster", name, words).await;
            let described =
                layercake::describe::describe(&story.client(), &story.namespace, name).await.unwrap();
            let blocking = described.blocking.unwrap();
            assert!(blocking.object.contains(name), "{name}: {message} {blocking:?}");
        }
        story.shared.guests.release("addressless-*");
        for (name, ..) in CAUSES {
            story.delete("TanzuKubernetesCluster", name, CLUSTER).await;
        }
        let classes = story.cluster_api("VirtualMachineClass");
        classes.delete("greedy", &DeleteParams::default()).await.unwrap();
        let storage = story.cluster_api("StorageClass");
        storage.delete("unpolicied", &DeleteParams::default()).await.unwrap();
    });
}

/// A pool has one address, and another has it: that is named at the top, and ends when the address is free again.
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
        set_addresses(&pools, &json!([last])).await;
        let steps = AssertUnwindSafe(wait_for_an_address(&story, &last)).catch_unwind().await;
        set_addresses(&pools, &whole).await;
        steps.unwrap();
        story.delete("TanzuKubernetesCluster", "late", CLUSTER).await;
    });
}

const POOL: &str = "control-planes";

async fn set_addresses(pools: &Api<DynamicObject>, addresses: &Value) {
    let patch = Patch::Merge(json!({"spec": {"addresses": addresses}}));
    pools.patch(POOL, &PatchParams::default(), &patch).await.unwrap();
}

async fn wait_for_an_address(story: &Story, address: &str) {
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": "other", "namespace": story.namespace},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": POOL}},
    });
    story.apply_object(&claim).await;
    let given =
        || async { (story.get("IPAddress", "other").await?["spec"]["address"] == address).then_some(()) };
    story.wait_for("another has the address", SOON, given).await;
    story.apply_object(&cluster(story, "late", "best-effort-xsmall", "gc-storage-profile")).await;
    let words = ["WaitingForIPAddress", "IPAddressClaim used-up/", "PoolExhausted"];
    story.wait_for_complaint("TanzuKubernetesCluster", "late", &words).await;
    story.delete("IPAddressClaim", "other", SOON).await;
    story
        .wait_for("the address is the cluster's", SOON, || async {
            let endpoint = story.get("Cluster", "late").await?["spec"]["controlPlaneEndpoint"].clone();
            (endpoint["host"] == address).then_some(())
        })
        .await;
}

/// More memory than any host has, a policy that vCenter has not, and a guest that does not boot.
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
    let storage = |name: &str, parameters: Value| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "csi.vsphere.vmware.com", "parameters": parameters,
        })
    };
    let known = json!({"storagePolicyID": "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"});
    story.apply_object(&storage("gold", known)).await;
    story.apply_object(&storage("unpolicied", json!({"storagePolicyName": "no-such-policy"}))).await;
    let quota = ["gold", "unpolicied"]
        .map(|class| (format!("{class}.storageclass.storage.k8s.io/requests.storage"), "1Ti"));
    story
        .apply_object(&json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "storage", "namespace": story.namespace},
            "spec": {"hard": quota.into_iter().collect::<std::collections::BTreeMap<_, _>>()},
        }))
        .await;
    story.shared.guests.hold("addressless-*");
}

fn cluster(story: &Story, name: &str, class: &str, storage: &str) -> Value {
    json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": name, "namespace": story.namespace},
        "spec": {
            "distribution": {"version": "v1.35"},
            "topology": {
                "controlPlane": {"replicas": 1, "vmClass": class, "storageClass": storage}, "nodePools": [],
            },
        },
    })
}
