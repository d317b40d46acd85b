//! A user operates a running cluster: machines are lost, the control plane grows, and pools are added, renamed and
//! removed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use api::names::{annotation, label};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sim::control::{GuestReport, PowerAction};
use tokio::task::JoinSet;

use crate::clusters::day_two_causes;
use crate::harness::objects::cluster_of_release;
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, condition, merge, story};

#[test]
fn a_running_cluster_is_repaired_and_changed() {
    story("days", |story| async move {
        story.apply(&cluster_of_release("days", "v1.34.2---vmware.1-vkr.1", 1, ("old", 1))).await;
        story.wait_until_running("days").await;
        a_lost_worker_is_replaced_at_once(&story).await;
        what_changes_in_place_replaces_nothing(&story).await;
        an_update_that_halts_says_where_and_goes_on(&story).await;
        day_two_causes::a_lost_authority_is_named(&story, "days").await;
        what_is_a_pools_replaces_its_nodes_alone(&story).await;
        what_is_everybodys_replaces_every_node(&story).await;
        its_control_plane_grows(&story).await;
        a_pool_is_renamed(&story).await;
        its_nodes_exchange_their_addresses(&story).await;
        virtual_machines_rest_with_their_cluster(&story).await;
        a_paused_cluster_is_not_deleted_and_says_so(&story).await;
        story.delete("TanzuKubernetesCluster", "days", CLUSTER).await;
    });
}

async fn machines(story: &Story) -> BTreeSet<String> {
    let list = story.api("Machine").list(&ListParams::default()).await.unwrap().items;
    let of_cluster =
        |machine: &DynamicObject| machine.labels().get(label::CLUSTER_NAME) == Some(&"days".to_owned());
    list.iter().filter(|machine| of_cluster(machine)).map(ResourceExt::name_any).collect()
}

async fn change(story: &Story, spec: Value) {
    story.patch("TanzuKubernetesCluster", "days", json!({ "spec": spec })).await;
}

/// Waits until the cluster runs with its current spec, and returns it.
async fn wait_until_settled(story: &Story) -> Value {
    let is_settled = |cluster: &Value| {
        let (status, generation) = (&cluster["status"], &cluster["metadata"]["generation"]);
        status["observedGeneration"] == *generation && status["phase"] == "running"
    };
    let days = ("TanzuKubernetesCluster", "days");
    story.wait_for_object("days runs with its new spec", CLUSTER, days, is_settled).await
}

/// A worker's VM is destroyed in vCenter. It is replaced without waiting for its node to time out.
async fn a_lost_worker_is_replaced_at_once(story: &Story) {
    let worker = story.vm_with("-old-").await;
    story.shared.control().power(&worker.moid, PowerAction::Destroy).await.unwrap();
    story.wait_for_events("TanzuKubernetesCluster", "days", &["NodeRemediated"]).await;
    let cluster = story
        .wait_for("another worker serves", CLUSTER, || async {
            let cluster = story.get("TanzuKubernetesCluster", "days").await?;
            let all = machines(story).await;
            let replaced = all.len() == 2 && !all.contains(&worker.name);
            let serves =
                cluster["status"]["phase"] == "running" && condition(&cluster, "Ready")?["status"] == "True";
            (replaced && serves).then_some(cluster)
        })
        .await;
    let status = &cluster["status"];
    assert_eq!(status["nodeRemediationCount"], 1, "{status}");
    assert_eq!(status["remediatedNodes"][0]["machine"], worker.name.as_str(), "{status}");
    assert_eq!(status["remediatedNodes"][0]["reason"], "VirtualMachineLost", "{status}");
    let message = status["remediatedNodes"][0]["message"].as_str().unwrap();
    assert_contains(message, &["VmRemovedEvent at ", "decides whether to replace it"]);
}

/// Timeouts and labels that Cluster API copies are updated on existing machines.
async fn what_changes_in_place_replaces_nothing(story: &Story) {
    let before = machines(story).await;
    let mut pool = pool("old", 1);
    pool["nodeDrainTimeout"] = json!("3m");
    pool["labels"] = json!({"node-role.kubernetes.io/batch": ""});
    change(story, json!({"topology": {"controlPlane": {"nodeDrainTimeout": "3m"}, "nodePools": [pool]}}))
        .await;
    wait_until_settled(story).await;
    let guest: Api<k8s_openapi::api::core::v1::Node> = Api::all(story.guest_client("days").await);
    story
        .wait_for("the worker has its new label", CLUSTER, || async {
            let labelled = ListParams::default().labels("node-role.kubernetes.io/batch");
            (guest.list(&labelled).await.ok()?.items.len() == 1).then_some(())
        })
        .await;
    let list = story.api("Machine").list(&ListParams::default()).await.unwrap().items;
    for machine in &list {
        assert_eq!(
            machine.data["spec"]["deletion"]["nodeDrainTimeoutSeconds"],
            180,
            "{}",
            machine.name_any()
        );
    }
    assert_eq!(machines(story).await, before);
}

/// The pool's new VM class isn't assigned to the namespace yet.
async fn an_update_that_halts_says_where_and_goes_on(story: &Story) {
    let mut pool = pool("old", 1);
    pool["vmClass"] = json!("best-effort-medium");
    change(story, json!({"topology": {"nodePools": [pool]}})).await;
    let halted = ("/status/phase", "updateFailed");
    let cluster = story.wait_for_field(("TanzuKubernetesCluster", "days"), halted, CLUSTER).await;
    let error = cluster["status"]["clusterApiStatus"]["errorMessage"].as_str().unwrap();
    assert_contains(error, &["VirtualMachine", "best-effort-medium"]);
    story.wait_for_events("TanzuKubernetesCluster", "days", &["UpdateFailed"]).await;

    day_two_causes::forbid_a_drain(story, "days").await;
    story.prepare_namespace("best-effort-medium").await;
    day_two_causes::the_budget_is_named(story, "days").await;
    wait_until_settled(story).await;
    let worker = story.vm_with("-old-").await;
    assert_eq!(worker.memory_mb, 8192, "{}", worker.name);
}

async fn what_is_a_pools_replaces_its_nodes_alone(story: &Story) {
    let before = machines(story).await;
    let mut pool = pool("old", 1);
    pool["labels"] = json!({"tier": "batch"});
    pool["taints"] = json!([{"key": "dedicated", "value": "batch", "effect": "PreferNoSchedule"}]);
    pool["volumes"] =
        json!([{"name": "containerd", "mountPath": "/var/lib/containerd", "capacity": {"storage": "4Gi"}}]);
    change(story, json!({"topology": {"nodePools": [pool]}})).await;
    wait_until_settled(story).await;
    let stayed: Vec<_> = machines(story).await.intersection(&before).cloned().collect();
    assert!(stayed.len() == 1 && stayed[0].contains("-control-plane-"), "{before:?} {stayed:?}");
}

async fn what_is_everybodys_replaces_every_node(story: &Story) {
    let before = machines(story).await;
    let proxy = json!({
        "httpProxy": "http://10.9.9.9:3128", "httpsProxy": "http://10.9.9.9:3128", "noProxy": ["10.9.0.0/16"],
    });
    change(story, json!({"settings": {"network": {"proxy": proxy}}})).await;
    wait_until_settled(story).await;
    let after = machines(story).await;
    assert!(after.is_disjoint(&before) && after.len() == before.len(), "{before:?} {after:?}");
}

async fn its_control_plane_grows(story: &Story) {
    let before = machines(story).await;
    let phases = Phases::watch(story);
    let runs = || phases.seen().last().is_some_and(|phase| phase == "running");
    story.wait_until("the watch shows that it runs", SOON, async || runs()).await;
    phases.forget_former();
    change(story, json!({"topology": {"controlPlane": {"replicas": 3}}})).await;
    wait_until_settled(story).await;
    // The watch may deliver the last change later than a read.
    story.wait_until("the watch shows it, too", SOON, async || phases.seen().len() > 1 && runs()).await;
    assert_eq!(phases.seen(), ["running", "updating", "running"], "growing is no illness");
    let after = machines(story).await;
    assert!(after.is_superset(&before) && after.len() == before.len() + 2, "{before:?} {after:?}");
}

/// A user renames a pool: the new pool's nodes are created and the old ones are deleted.
async fn a_pool_is_renamed(story: &Story) {
    change(story, json!({"topology": {"nodePools": [pool("new", 1), pool("second", 0)]}})).await;
    wait_until_settled(story).await;
    let names = machines(story).await;
    assert_eq!(names.iter().filter(|name| name.contains("-new-")).count(), 1, "{names:?}");
    story
        .wait_until("the old pool is gone", CLUSTER, async || {
            !machines(story).await.iter().any(|name| name.contains("-old-"))
        })
        .await;
    change(story, json!({"topology": {"nodePools": []}})).await;
    let cluster = wait_until_settled(story).await;
    assert_eq!(cluster["status"]["totalWorkerReplicas"], 0);
}

/// A DHCP server loses its leases. It swaps two nodes' addresses, then rotates three nodes' addresses.
async fn its_nodes_exchange_their_addresses(story: &Story) {
    let address = |vm: &Value| vm["status"]["endpointAddresses"][0].as_str().map(str::to_owned);
    let before = machines(story).await;
    let mut nodes = Vec::new();
    for vm in story.list("VirtualMachine").await {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        nodes.push((text(&vm["metadata"]["name"]), text(&vm["status"]["uniqueID"]), address(&vm).unwrap()));
    }
    assert_eq!(nodes.len(), 3);
    for next in [[1, 0, 2], [1, 2, 0]] {
        let leased = next.map(|next| nodes[next].2.clone());
        for ((_, moid, ip), leased) in nodes.iter_mut().zip(leased) {
            let report = GuestReport { ip: Some(leased.clone()), host_name: None, tools_running: true };
            story.shared.control().report(moid, &report).await.unwrap();
            *ip = leased;
        }
        for (name, _, leased) in &nodes {
            let what = format!("{name} has the address {leased}");
            let has_it = |vm: &Value| {
                let ready = condition(vm, "Ready").is_some_and(|ready| ready["status"] == "True");
                address(vm).as_ref() == Some(leased) && ready && vm["status"]["keptAddresses"].is_null()
            };
            story.wait_for_object(&what, SOON, ("VirtualMachine", name), has_it).await;
            let has_it = |machine: &Value| {
                let addresses = machine["status"]["addresses"].as_array().into_iter().flatten();
                addresses.into_iter().any(|address| address["address"] == leased.as_str())
            };
            story.wait_for_object(&what, SOON, ("WCPMachine", name), has_it).await;
        }
    }
    wait_until_settled(story).await;
    assert_eq!(machines(story).await, before, "no node is replaced");
}

async fn virtual_machines_rest_with_their_cluster(story: &Story) {
    for paused in [true, false] {
        story.patch("Cluster", "days", json!({"spec": {"paused": paused}})).await;
        let what =
            if paused { "every virtual machine rests" } else { "every virtual machine is looked after" };
        story
            .wait_for(what, SOON, || async {
                let vms = story.list("VirtualMachine").await;
                let rests = |vm: &Value| vm["metadata"]["annotations"].get(annotation::PAUSED).is_some();
                (vms.len() == 3 && vms.iter().all(|vm| rests(vm) == paused)).then_some(())
            })
            .await;
    }
}

async fn a_paused_cluster_is_not_deleted_and_says_so(story: &Story) {
    let api = story.api("TanzuKubernetesCluster");
    let annotate = async |value: Value| {
        merge(&api, "days", json!({"metadata": {"annotations": {annotation::PAUSED: value}}})).await.unwrap();
    };
    annotate(json!("")).await;
    let days = ("TanzuKubernetesCluster", "days");
    story.wait_for_message(days, "Paused", SOON, &["nothing is changed or repaired"]).await;
    api.delete("days", &DeleteParams::default()).await.unwrap();
    story.wait_for_message(days, "Paused", SOON, &["the deletion is paused"]).await;
    assert_eq!(machines(story).await.len(), 3, "nothing was deleted");
    annotate(Value::Null).await;
}

fn pool(name: &str, replicas: i32) -> Value {
    json!({
        "name": name, "replicas": replicas,
        "vmClass": "best-effort-small", "storageClass": "gc-storage-profile",
    })
}

/// The phases that a cluster enters, in order.
struct Phases {
    seen: Arc<Mutex<Vec<String>>>,
    _watch: JoinSet<()>,
}

impl Phases {
    fn watch(story: &Story) -> Self {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let phases = Arc::clone(&seen);
        let named = watcher::Config::default().fields("metadata.name=days");
        let changes = watcher(story.api("TanzuKubernetesCluster"), named).default_backoff().applied_objects();
        let mut watch = JoinSet::new();
        watch.spawn(changes.into_stream().for_each(move |cluster| {
            let phase =
                cluster.ok().and_then(|cluster| Some(cluster.data["status"]["phase"].as_str()?.to_owned()));
            let mut phases = phases.lock().unwrap();
            let entered = phase.filter(|phase| phases.last() != Some(phase));
            phases.extend(entered);
            std::future::ready(())
        }));
        Self { seen, _watch: watch }
    }

    /// Forgets all phases except the current one.
    fn forget_former(&self) {
        let mut seen = self.seen.lock().unwrap();
        let former = seen.len().saturating_sub(1);
        seen.drain(..former);
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}
