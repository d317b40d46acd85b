//! A vCenter operation is blocked by a question. The user sees it on the VirtualMachine, during a deletion too.

use kube::api::DeleteParams;
use serde_json::json;
use sim::control::{FaultKind, FaultRule};

use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, story};

#[test]
fn a_question_of_vcenter_is_shown_and_the_deletion_waits_for_it() {
    story("question", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let name = "question-vm";
        story.apply_object(&PlainVm::named(name).object(&story.namespace)).await;
        let up = story.wait_until_powered_on(name).await;
        let moid = up["status"]["uniqueID"].as_str().unwrap();
        let control = story.shared.control();
        let held =
            control.plant(&FaultRule::once("PowerOffVM_Task", FaultKind::Hold).on(name)).await.unwrap();
        let question = "There is no more space for virtual disk question-vm.vmdk";
        control.ask(moid, Some(question)).await.unwrap();
        story.patch("VirtualMachine", name, json!({"spec": {"powerState": "poweredOff"}})).await;

        let words = [question, "Answer it in the vSphere Client", "govc vm.question"];
        let object = ("VirtualMachine", name);
        story.wait_for_message(object, "Ready", SOON, &words).await;
        story.api("VirtualMachine").delete(name, &DeleteParams::default()).await.unwrap();
        story.wait_for_message(object, "Ready", SOON, &["The deletion waits", question]).await;

        control.ask(moid, None).await.unwrap();
        control.remove_faults(Some(&held)).await.unwrap();
        story.wait_until_gone("VirtualMachine", name, SOON).await;
        assert!(story.vms_named(name).await.is_empty());
    });
}
