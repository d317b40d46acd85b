//! A cluster autoscaler resizes a pool. The story sends the requests that its Cluster API provider would send,
//! because the autoscaler itself isn't available here.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::harness::story::{CLUSTER, SOON, Story, story};

const MANIFEST: &str = r#"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata:
  name: elastic
  namespace: NAMESPACE
  annotations:
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "0"
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "3"
spec:
  distribution: {version: v1.35}
  topology:
    controlPlane: {replicas: 1, vmClass: best-effort-xsmall, storageClass: gold}
    nodePools:
    - name: batch
      vmClass: best-effort-medium
      storageClass: gold
      labels: {workload: batch}
      taints: [{key: dedicated, value: batch, effect: NoSchedule}]
"#;

#[test]
fn an_autoscaler_scales_a_pool_from_none_and_back() {
    story("autoscaler", |story| async move {
        story.apply(MANIFEST).await;
        story.wait_until_running("elastic").await;
        let deployment = node_group(&story).await;
        assert_eq!(deployment.data["spec"]["replicas"], 0, "it begins with the fewest");
        let bound = |of: &str| {
            let key = format!("cluster.x-k8s.io/cluster-api-autoscaler-node-group-{of}-size");
            deployment.annotations().get(&key).cloned().unwrap()
        };
        assert_eq!([bound("min"), bound("max")], ["0", "3"]);
        a_node_is_known_before_there_is_one(&story, &deployment).await;

        scale(&story, &deployment, 2).await;
        wait_for_workers(&story, 2).await;
        // The pool size must survive an unrelated change.
        let label = json!({"metadata": {"labels": {"team": "batch"}}});
        story.patch("TanzuKubernetesCluster", "elastic", label).await;

        let machines = story.api("Machine");
        let of_pool = ListParams::default().labels("run.tanzu.vmware.com/node-pool=batch");
        let before = machines.list(&of_pool).await.unwrap().items;
        let idle = before[0].name_any();
        let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "2026-01-01"}}});
        story.patch("Machine", &idle, mark).await;
        scale(&story, &deployment, 1).await;
        wait_for_workers(&story, 1).await;
        let left: BTreeSet<_> =
            machines.list(&of_pool).await.unwrap().iter().map(ResourceExt::name_any).collect();
        assert_eq!(left, BTreeSet::from([before[1].name_any()]), "the idle one went");
        scale(&story, &deployment, 0).await;
        wait_for_workers(&story, 0).await;
    });
}

/// Returns the MachineDeployment that the autoscaler discovers by its annotations.
async fn node_group(story: &Story) -> DynamicObject {
    let mut found = story.api("MachineDeployment").list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The autoscaler reads the capacity, labels and taints for a pool's nodes while the pool is empty.
async fn a_node_is_known_before_there_is_one(story: &Story, deployment: &DynamicObject) {
    let reference = &deployment.data["spec"]["template"]["spec"]["infrastructureRef"]["name"];
    let template = story.get("WCPMachineTemplate", reference.as_str().unwrap()).await.unwrap();
    assert_eq!(template["status"]["capacity"], json!({"cpu": "2", "memory": "8Gi"}));
    let announced =
        |of: &str| &deployment.annotations()[&format!("capacity.cluster-autoscaler.kubernetes.io/{of}")];
    assert_eq!(announced("labels"), "workload=batch");
    assert_eq!(announced("taints"), "dedicated=batch:NoSchedule");
}

/// Sets the replicas through the scale subresource, like the autoscaler.
async fn scale(story: &Story, deployment: &DynamicObject, replicas: i32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let deployments = story.api("MachineDeployment");
    deployments.patch_scale(&deployment.name_any(), &PatchParams::default(), &patch).await.unwrap();
}

async fn wait_for_workers(story: &Story, count: i32) {
    story
        .wait_for(
            &format!("it runs with {count} workers"),
            if count > 0 { CLUSTER } else { SOON },
            || async {
                let cluster = story.get("TanzuKubernetesCluster", "elastic").await?;
                let machines = story.list("Machine").await.len();
                let status = &cluster["status"];
                let there = status["totalWorkerReplicas"].as_i64().unwrap_or_default();
                let settled = status["phase"] == "running" && machines == 1 + usize::try_from(count).ok()?;
                (settled && there == i64::from(count)).then_some(())
            },
        )
        .await;
}
