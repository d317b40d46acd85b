//! A prerequisite is missing. The user sees it in a condition and an event, adds it, and the VM comes up by itself.

use kube::api::{DeleteParams, Patch, PatchParams};
use layercake::describe::{self, Blocking};
use layercake::site::manifests::storage_quota;
use serde_json::{Value, json};

use crate::harness::objects::{one_node, role_binding, storage_class};
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, story};
use crate::harness::tenants::act_as;

#[test]
fn a_vm_waits_for_its_class() {
    story("no-class", |story| async move {
        story.prepare_namespace("tailored").await;
        let vm = PlainVm { class: "tailored".to_owned(), ..PlainVm::named("no-class-vm") };
        let class = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass",
            "metadata": {"name": "tailored"}, "spec": {"hardware": {"cpus": 4, "memory": "3Gi"}},
        });
        assert_waits_then_comes_up(&story, &vm, &["VirtualMachineClass", "tailored"], &[class]).await;
        assert_eq!(story.vms_named("no-class-vm").await[0].num_cpus, 4);
        delete_vm(&story, "no-class-vm").await;
        let classes = story.cluster_api("VirtualMachineClass");
        classes.delete("tailored", &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn a_vm_waits_for_its_storage_class() {
    story("no-storage", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let vm = PlainVm { storage_class: Some("platinum".to_owned()), ..PlainVm::named("no-storage-vm") };
        let storage = storage_class("platinum", &Value::Null);
        let quota = storage_quota("storage", &story.namespace, ["platinum"]);
        let object = vm.object(&story.namespace);
        let refusal = layercake::kube::apply::apply(&story.client(), &object).await.expect_err("accepted");
        assert_contains(
            format!("{refusal:#}"),
            &["platinum", "Storage policy is not associated with the namespace"],
        );
        story.create_as_program(&object).await;
        assert_waits_then_comes_up(&story, &vm, &["platinum"], &[storage, quota]).await;
        delete_vm(&story, "no-storage-vm").await;
    });
}

#[test]
fn a_vm_waits_for_its_image() {
    story("no-image", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let there = PlainVm::named("no-image-vm");
        let vm = PlainVm { image: "no-such-image".to_owned(), ..there.clone() };
        // Create the image as the VM operator does for a library item: an object with its status.
        let images = story.cluster_api("VirtualMachineImage");
        let mut image = serde_json::to_value(images.get(&there.image).await.unwrap()).unwrap();
        image["metadata"] = json!({"name": "no-such-image"});
        story.apply_object(&vm.object(&story.namespace)).await;
        story.wait_for_complaint("VirtualMachine", "no-image-vm", &["no-such-image"]).await;
        story.wait_for_events("VirtualMachine", "no-image-vm", &[]).await;
        story.apply_object(&image).await;
        let status = json!({"status": image["status"]});
        images.patch_status("no-such-image", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        story.wait_until_powered_on("no-image-vm").await;
        delete_vm(&story, "no-image-vm").await;
        images.delete("no-such-image", &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn a_cluster_tells_at_the_top_what_is_missing_at_the_bottom() {
    story("no-binding", |story| async move {
        let nodes = ["one-of-a-kind", "gold"];
        story.apply(&one_node("no-binding", "v1.34.2---vmware.1-vkr.1", nodes)).await;
        story
            .wait_for_complaint("TanzuKubernetesCluster", "no-binding", &["one-of-a-kind", "VirtualMachine"])
            .await;
        let blocking = story.describe("no-binding").await.blocking.unwrap();
        assert!(blocking.message.contains("one-of-a-kind"), "{blocking:?}");
        for role in ["view", "edit"] {
            assert_shows_the_cause_to(&story, role, &blocking).await;
        }
        story.delete("TanzuKubernetesCluster", "no-binding", crate::harness::story::CLUSTER).await;
    });
}

/// A user with a standard Kubernetes role in the namespace sees the same cause, and the Machines below the control
/// plane, which the role can't read.
async fn assert_shows_the_cause_to(story: &Story, role: &str, blocking: &Blocking) {
    let user = format!("{}-{role}", story.namespace);
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
    story.apply_object(&role_binding(&story.namespace, &user, role, &subjects)).await;
    let client = act_as(story, &user).await;
    // The description's reads run concurrently, so a new role may apply to some of them only.
    let look = || async {
        let seen = describe::describe(&client, &story.namespace, "no-binding").await.ok()?;
        (seen.unread == ["KubeadmControlPlane"]).then_some(seen)
    };
    let seen = story.wait_for("the role applies", SOON, look).await;
    assert_eq!(seen.blocking.as_ref(), Some(blocking));
    let text = seen.text(false);
    assert_contains(
        &text,
        &["you may not read KubeadmControlPlane", "Not shown, because", "Machine no-binding-"],
    );
    let stranger = act_as(story, "stranger").await;
    let refusal = describe::describe(&stranger, &story.namespace, "no-binding").await.expect_err("an answer");
    assert_contains(format!("{refusal:#}"), &["cannot read TanzuKubernetesCluster objects", "forbidden"]);
}

async fn assert_waits_then_comes_up(story: &Story, vm: &PlainVm, words: &[&str], missing: &[Value]) {
    if story.get("VirtualMachine", &vm.name).await.is_none() {
        story.apply_object(&vm.object(&story.namespace)).await;
    }
    story.wait_for_complaint("VirtualMachine", &vm.name, words).await;
    story.wait_for_events("VirtualMachine", &vm.name, &[]).await;
    assert!(story.vms_named(&vm.name).await.is_empty());
    for object in missing {
        story.apply_object(object).await;
    }
    story.wait_until_powered_on(&vm.name).await;
}

async fn delete_vm(story: &Story, name: &str) {
    story.delete("VirtualMachine", name, SOON).await;
    assert!(story.vms_named(name).await.is_empty(), "the VM of {name} is left");
}
