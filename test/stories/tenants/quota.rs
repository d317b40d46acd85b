//! What a namespace's ResourceQuota allows, and no more.

use serde_json::json;

use crate::harness::objects::one_and_one;
use crate::harness::story::{SOON, Story, story};

const VMS: &str = "count/virtualmachines.vmoperator.vmware.com";

#[test]
fn a_cluster_gets_no_more_vms_than_its_namespace_may_have() {
    story("quota", |story| async move {
        story.prepare_namespace("best-effort-small").await;
        let quota = |vms: u32| {
            json!({
                "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "objects", "namespace": story.namespace},
                "spec": {"hard": {VMS: vms.to_string()}},
            })
        };
        story.apply_object(&quota(1)).await;
        story.wait_until("the quota is in force", SOON, async || used(&story).await.is_some()).await;
        story.apply(&one_and_one("limited", "workers")).await;
        story.wait_for_ready("limited", &["exceeded quota: objects", VMS]).await;
        assert_eq!((story.list("VirtualMachine").await.len(), story.vms().await.len()), (1, 1));
        assert_eq!(used(&story).await.as_deref(), Some("1"));
        story.apply_object(&quota(2)).await;
        story.wait_until_running("limited").await;
        story.delete("TanzuKubernetesCluster", "limited", SOON).await;
    });
}

/// How many VMs the quota counts, once it counts them.
async fn used(story: &Story) -> Option<String> {
    let quota = story.get("ResourceQuota", "objects").await?;
    quota["status"]["used"][VMS].as_str().map(str::to_owned)
}
