//! A TanzuKubernetesCluster goes to another management cluster with `clusterctl move`, and lives on there.

use kube::api::{DeleteParams, Patch, PatchParams};
use layercake::args::SiteNetwork;
use serde_json::json;
use sim::SiteNetworks;

use crate::plain_cluster_move::{clusterctl_move, management_cluster};
use crate::requests::Requests;
use crate::shared_stack::network;
use crate::story::{CLUSTER, SOON, Story, disruptive_story};

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: mover, namespace: NAMESPACE}
spec:
  distribution: {version: v1.35}
  topology:
    controlPlane: {replicas: 1, vmClass: best-effort-xsmall, storageClass: gold}
    nodePools:
    - {name: workers, replicas: 1, vmClass: best-effort-xsmall, storageClass: gold}
";

#[test]
fn a_cluster_moves_with_all_below_it_and_its_endpoint_answers_all_along() {
    disruptive_story("moving", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: a load balancer of another management cluster gives another address");
            return;
        }
        story.apply(MANIFEST).await;
        story.wait_until_running("mover").await;
        let second = management_cluster(&story, &["gcm", "capw"]).await;
        let releases = story.cluster_api("TanzuKubernetesRelease");
        story
            .wait_for("the other management cluster has the releases", SOON, || async {
                let there =
                    second.cluster_api("TanzuKubernetesRelease").list(&Default::default()).await.ok()?;
                (there.items.len() >= releases.list(&Default::default()).await.ok()?.items.len())
                    .then_some(())
            })
            .await;
        let client = Requests::of(story.guest_config("mover").await);
        let before = vms_of(&story).await;
        story.shared.control().take_journal().await.unwrap();

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
