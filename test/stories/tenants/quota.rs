//! A namespace's ResourceQuota limits its VM count. The user sees that a cluster exceeds it, and raises the quota.

use serde_json::json;

use crate::harness::objects::one_and_one;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, story};

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
        let refused = story.try_apply(&one_and_one("limited", "workers")).await.unwrap_err();
        assert_contains(refused, &["has 2 nodes, but ResourceQuota objects allows 1"]);
        story.apply_object(&quota(2)).await;
        // A VM in the namespace uses one of the two places. It is paused, so it doesn't exist in vCenter.
        let other = PlainVm { class: "best-effort-small".to_owned(), ..PlainVm::named("other") };
        let mut other = other.object(&story.namespace);
        other["metadata"]["annotations"] = json!({"vmoperator.vmware.com/pause-reconcile": "true"});
        story.apply_object(&other).await;
        story.wait_until("the VM counts", SOON, async || used(&story).await.as_deref() == Some("1")).await;
        story.apply(&one_and_one("limited", "workers")).await;
        story.wait_for_ready("limited", &["exceeded quota: objects", VMS]).await;
        assert_eq!((story.list("VirtualMachine").await.len(), story.vms().await.len()), (2, 1));
        assert_eq!(used(&story).await.as_deref(), Some("2"));
        story.apply_object(&quota(3)).await;
        story.wait_until_running("limited").await;
        story.delete("TanzuKubernetesCluster", "limited", SOON).await;
    });
}

/// Returns how many VMs the quota counts, once it counts them.
async fn used(story: &Story) -> Option<String> {
    let quota = story.get("ResourceQuota", "objects").await?;
    quota["status"]["used"][VMS].as_str().map(str::to_owned)
}
