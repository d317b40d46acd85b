//! The network provider doesn't respond: a VirtualNetwork isn't realized, or a load balancer doesn't get an address.
//! The user sees both on the cluster.

use api::names::{self, label};
use layercake::args::SiteNetwork;
use serde_json::{Value, json};
use sim::network::RunningNetworkProvider;

use crate::harness::objects::{cluster, nodes};
use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, disruptive_story};

/// Sites with port groups don't run NSX. A cluster keeps the network objects that it started with, so the story
/// creates the NSX objects before the clusters.
#[test]
fn what_nsx_owes_a_cluster_is_named_at_the_top() {
    disruptive_story("owed", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: the site's NSX answers");
            return;
        }
        story.prepare_namespace("best-effort-xsmall").await;
        story.apply_object(&of_cluster(&story, "VirtualNetwork", &virtual_network())).await;
        story.apply_object(&of_cluster(&story, "VirtualMachineService", &load_balancer())).await;
        let control_plane = nodes(1, "best-effort-xsmall", "gc-storage-profile");
        for name in [UNROUTED, UNBALANCED] {
            story.apply_object(&cluster(&story.namespace, name, "v1.35", &control_plane, &[])).await;
        }
        let words =
            ["ClusterNetworkProvisionStarted", "WCPCluster unrouted", "VirtualNetwork owed/unrouted-vnet"];
        story.wait_for_ready(UNROUTED, &words).await;
        let words = ["WaitingForLoadBalancerIP", "WCPCluster unbalanced", "unbalanced-control-plane-service"];
        story.wait_for_ready(UNBALANCED, &words).await;
        assert!(story.vms().await.is_empty(), "a machine was made");

        let subnet = story.shared.stack().await.site().subnet().clone();
        let provider = RunningNetworkProvider::serving(story.client(), subnet);
        for name in [UNROUTED, UNBALANCED] {
            let goes_on =
                |cluster: &Value| cluster["status"]["initialization"]["infrastructureProvisioned"] == true;
            story.wait_for_object(&format!("{name} goes on"), SOON, ("Cluster", name), goes_on).await;
        }
        let realized = ["SuccessfulRealizeNSXResource"];
        story.wait_for_events("VirtualNetwork", &names::virtual_network(UNROUTED), &realized).await;
        for name in [UNROUTED, UNBALANCED] {
            story.delete("TanzuKubernetesCluster", name, CLUSTER).await;
        }
        drop(provider);
    });
}

const UNROUTED: &str = "unrouted";
const UNBALANCED: &str = "unbalanced";

fn virtual_network() -> (String, &'static str, Value) {
    (names::virtual_network(UNROUTED), UNROUTED, json!({}))
}

fn load_balancer() -> (String, &'static str, Value) {
    let port = json!({"name": "apiserver", "protocol": "TCP", "port": 6443, "targetPort": 6443});
    let selector =
        json!({label::CAPW_CLUSTER_NAME: UNBALANCED, label::CAPW_CLUSTER_ROLE: names::ROLE_CONTROL_PLANE});
    let spec = json!({"type": "LoadBalancer", "ports": [port], "selector": selector});
    (names::control_plane_service(UNBALANCED), UNBALANCED, spec)
}

fn of_cluster(story: &Story, kind: &str, (name, cluster, spec): &(String, &str, Value)) -> Value {
    let version =
        if kind == "VirtualNetwork" { "vmware.com/v1alpha1" } else { "vmoperator.vmware.com/v1alpha1" };
    json!({
        "apiVersion": version, "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": story.namespace, "labels": {label::CLUSTER_NAME: cluster}},
    })
}
