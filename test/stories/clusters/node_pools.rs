//! A user creates a v1alpha3 cluster with two pools, and sees that their nodes differ as requested.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::harness::story::story;

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: pools, namespace: NAMESPACE}
spec:
  topology:
    controlPlane:
      replicas: 1
      vmClass: guaranteed-small
      storageClass: gold
      tkr: {reference: {name: v1.35.1---vmware.1-vkr.1}}
    nodePools:
    - {name: plain, replicas: 1, vmClass: best-effort-small, storageClass: gold}
    - name: gpu
      replicas: 1
      vmClass: best-effort-medium
      storageClass: gold
      labels: {workload: gpu}
      taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
";

#[test]
fn pools_differ_as_the_manifest_says() {
    story("pools", |story| async move {
        story.apply(MANIFEST).await;
        story.wait_until_running("pools").await;
        let nodes: Api<Node> = Api::all(story.guest_client("pools").await);
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(nodes.len(), 3);
        let gpu = nodes.iter().find(|node| node.name_any().contains("gpu")).unwrap();
        assert_eq!(gpu.labels().get("workload").map(String::as_str), Some("gpu"));
        let taints = gpu.spec.as_ref().unwrap().taints.as_ref().unwrap();
        assert!(taints.iter().any(|taint| taint.key == "dedicated" && taint.value.as_deref() == Some("gpu")));
        for vm in story.vms().await {
            let (cpus, memory) = if vm.name.contains("gpu") { (2, 8192) } else { (2, 4096) };
            assert_eq!((vm.num_cpus, vm.memory_mb), (cpus, memory), "{}", vm.name);
            let reserved = vm.name.contains("control-plane");
            assert_eq!(vm.memory_reservation.unwrap_or_default() > 0, reserved, "{}", vm.name);
        }
    });
}
