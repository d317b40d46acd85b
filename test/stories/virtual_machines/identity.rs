//! A VM belongs to the object whose mark it carries. Other objects can't affect it.

use serde_json::json;

use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, story};

#[test]
fn a_vm_that_names_anothers_uuid_does_not_get_it() {
    story("thief", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let owner = PlainVm::named("thief-owner");
        story.apply_object(&owner.object(&story.namespace)).await;
        let vm = story.wait_until_powered_on("thief-owner").await;
        let uuid = vm["status"]["instanceUUID"].as_str().unwrap().to_owned();
        let before = story.vms_named("thief-owner").await;

        let thief = PlainVm { uuid: Some(uuid.clone()), ..PlainVm::named("thief-thief") };
        story.apply_object(&thief.object(&story.namespace)).await;
        story.wait_for_complaint("VirtualMachine", "thief-thief", &[&uuid]).await;
        assert!(story.vms_named("thief-thief").await.is_empty());
        story.delete("VirtualMachine", "thief-thief", SOON).await;
        let after = story.vms_named("thief-owner").await;
        assert_eq!((&after[0].moid, &after[0].power_state), (&before[0].moid, &before[0].power_state));
        story.delete("VirtualMachine", "thief-owner", SOON).await;
        assert!(story.vms_named("thief-owner").await.is_empty());
    });
}

#[test]
fn an_object_that_moves_to_another_cluster_leaves_its_vm_alone() {
    story("mover", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        story.apply_object(&PlainVm::named("mover-vm").object(&story.namespace)).await;
        story.wait_until_powered_on("mover-vm").await;
        let before = story.vms_named("mover-vm").await;
        let mark = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
        story.patch("VirtualMachine", "mover-vm", mark).await;
        // If the move is interrupted here, the other operator carries out spec changes.
        story.patch("VirtualMachine", "mover-vm", json!({"spec": {"powerState": "poweredOff"}})).await;
        // The VM operator creates this VM later, so it has processed the change by then.
        story.apply_object(&PlainVm::named("mover-next").object(&story.namespace)).await;
        story.wait_until_powered_on("mover-next").await;
        assert_eq!(story.vms_named("mover-vm").await[0].power_state, before[0].power_state);
        story.force_delete("VirtualMachine", "mover-vm").await;
        story.delete("VirtualMachine", "mover-next", SOON).await;
        let after = story.vms_named("mover-vm").await;
        assert_eq!(after.len(), 1);
        assert_eq!((&after[0].moid, &after[0].power_state), (&before[0].moid, &before[0].power_state));
        story.shared.control().power(&after[0].moid, sim::control::PowerAction::Destroy).await.unwrap();
    });
}
