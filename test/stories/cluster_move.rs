//! A TanzuKubernetesCluster goes to another management cluster with `clusterctl move`, and lives on there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};
use kube::{Client, ResourceExt};
use layercake::args::SiteNetwork;
use serde_json::json;
use sim::SiteNetworks;

use crate::plain_cluster_move::{clusterctl, clusterctl_move, clusterctl_move_command, management_cluster};
use crate::requests::Requests;
use crate::shared_stack::network;
use crate::story::{CLUSTER, SOON, Story, assert_contains, disruptive_story, one_and_one};

/// Owners whose objects are nothing by themselves: an account's rights and its token are made where it is.
const MADE_ANEW: [&str; 2] = ["ProviderServiceAccount", "ServiceAccount"];

#[test]
fn a_cluster_moves_with_all_below_it_and_its_endpoint_answers_all_along() {
    disruptive_story("moving", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: a load balancer of another management cluster gives another address");
            return;
        }
        story.apply(&one_and_one("mover", "workers")).await;
        story.wait_until_running("mover").await;
        clusterctl_describes_it(&story);
        let second = management_cluster(&story, &["gcm", "capw"]).await;
        let releases = story.cluster_api("TanzuKubernetesRelease");
        story
            .wait_for("the other management cluster has the releases", SOON, || async {
                let there =
                    second.cluster_api("TanzuKubernetesRelease").list(&ListParams::default()).await.ok()?;
                (there.items.len() >= releases.list(&ListParams::default()).await.ok()?.items.len())
                    .then_some(())
            })
            .await;
        let client = Requests::of(story.guest_config("mover").await);
        let before = vms_of(&story).await;
        story.shared.control().take_journal().await.unwrap();

        let below = below_cluster(&story.client(), &story.namespace).await;
        assert!(below.len() > 20, "{below:?}");
        let there = second.api("Machine", &story.namespace);
        break_off(&story, second.kubeconfig(), async || !names(&there).await.is_empty()).await;
        // clusterctl moves no Cluster that is paused, and has paused it itself.
        let resumed = Patch::Merge(json!({"spec": {"paused": false}}));
        story.api("Cluster").patch("mover", &PatchParams::default(), &resumed).await.unwrap();
        clusterctl_move(&story, second.kubeconfig());
        let clusters = second.api("TanzuKubernetesCluster", &story.namespace);
        story
            .wait_for("it runs where it went", CLUSTER, || async {
                let cluster = clusters.get_opt("mover").await.ok()??;
                let uid = cluster.metadata.uid.clone();
                let made_as =
                    cluster.metadata.annotations.as_ref()?.get("run.tanzu.vmware.com/made-as").cloned();
                (cluster.data["status"]["phase"] == "running" && made_as == uid).then_some(())
            })
            .await;
        let calls = story.shared.control().take_journal().await.unwrap();
        assert!(calls.is_empty(), "somebody changed something: {calls:?}");
        assert_eq!(vms_of(&story).await, before);
        let moved = below_cluster(&second.client(), &story.namespace).await;
        let missing: Vec<_> = below.difference(&moved).collect();
        assert!(missing.is_empty(), "what Kubernetes removes with its owner did not come along: {missing:?}");
        for kind in ["TanzuKubernetesCluster", "Cluster", "Machine", "VirtualMachine"] {
            assert!(story.list(kind).await.is_empty(), "a {kind} is left where it came from");
        }
        client.assert_none_lost();

        // Who gives addresses there is the admin's to bring; so far nobody needed any.
        let providers =
            story.shared.stack.lock().await.site().providers(&second.client(), SiteNetworks::PortGroups);
        let pool = json!([{"name": "workers", "replicas": 2, "vmClass": "best-effort-xsmall", "storageClass": "gold"}]);
        let patch = Patch::Merge(json!({"spec": {"topology": {"nodePools": pool}}}));
        clusters.patch("mover", &PatchParams::default(), &patch).await.unwrap();
        story
            .wait_for("it is scaled where it went", CLUSTER, || async {
                let cluster = clusters.get_opt("mover").await.ok()??;
                let status = &cluster.data["status"];
                (status["phase"] == "running" && status["totalWorkerReplicas"] == 2).then_some(())
            })
            .await;
        clusters.delete("mover", &DeleteParams::default()).await.unwrap();
        story
            .wait_for("it is gone", CLUSTER, || async {
                clusters.get_opt("mover").await.ok()?.is_none().then_some(())
            })
            .await;
        assert!(vms_of(&story).await.is_empty());
        drop(providers);
        second.stop().await;
    });
}

/// The VMs of the cluster in vCenter: which they are and how they are.
async fn vms_of(story: &Story) -> Vec<(String, String, String)> {
    let inventory = story.shared.control().inventory().await.unwrap();
    let ours = inventory.vms.into_iter().filter(|vm| vm.name.starts_with("mover-"));
    ours.map(|vm| (vm.name, vm.moid, vm.power_state)).collect()
}

fn clusterctl_describes_it(story: &Story) {
    let output = clusterctl(story, &["describe", "cluster", "mover", "--grouping=false"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    let parts = [
        "Cluster moving/mover",
        "WCPCluster moving/mover",
        "MachineDeployment moving/mover-workers-",
        "Machine moving/mover-control-plane-",
    ];
    assert_contains(&tree, &parts);
    assert!(!tree.contains("False"), "{tree}");
}

/// Begins the move, and kills clusterctl as soon as `at` is true.
async fn break_off(story: &Story, to: &Path, at: impl AsyncFn() -> bool) {
    let mut command = tokio::process::Command::from(clusterctl_move_command(story, to));
    let mut clusterctl =
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    story.wait_for("clusterctl is in the midst of it", SOON, async || at().await.then_some(())).await;
    clusterctl.kill().await.unwrap();
}

async fn names(api: &Api<DynamicObject>) -> Vec<String> {
    let objects = api.list(&ListParams::default()).await.unwrap().items;
    objects.iter().map(ResourceExt::name_any).collect()
}

/// Kinds and names of all that is there because of the cluster, but for what is made anew wherever it is.
async fn below_cluster(client: &Client, namespace: &str) -> BTreeSet<(String, String)> {
    let discovered = Discovery::new(client.clone()).run().await.unwrap();
    let kinds = discovered.groups().flat_map(ApiGroup::recommended_resources);
    let mut below = BTreeSet::new();
    for (kind, capabilities) in kinds {
        if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let objects = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
        let owned = |object: &DynamicObject| {
            object.owner_references().iter().any(|owner| !MADE_ANEW.contains(&owner.kind.as_str()))
        };
        let objects = objects.list(&ListParams::default()).await.unwrap().items;
        below.extend(
            objects
                .iter()
                .filter(|object| owned(object))
                .map(|object| (kind.kind.clone(), object.name_any())),
        );
    }
    below
}
