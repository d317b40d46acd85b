//! The VM operator is killed at the worst moments, and there is still exactly one VM.

use sim::control::{FaultKind, FaultRule};

use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, disruptive_story};

#[test]
fn killed_between_clone_and_status_it_finds_its_vm_again() {
    disruptive_story("crash-after", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let name = "crash-after-vm";
        story
            .shared
            .control()
            .plant(&FaultRule::once("CloneVM_Task", FaultKind::LostAnswer).on(name))
            .await
            .unwrap();
        story.apply_object(&PlainVm::named(name).object(&story.namespace)).await;
        story.wait_until("the VM exists", SOON, async || !story.vms_named(name).await.is_empty()).await;
        restart_vmop(&story).await;
        story.shared.control().remove_faults(None).await.unwrap();
        assert_exactly_one(&story, name).await;
    });
}

#[test]
fn killed_while_the_clone_still_runs_it_waits_for_it() {
    disruptive_story("crash-during", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let name = "crash-during-vm";
        let control = story.shared.control();
        let fault = control.plant(&FaultRule::once("CloneVM_Task", FaultKind::Hold).on(name)).await.unwrap();
        story.apply_object(&PlainVm::named(name).object(&story.namespace)).await;
        story
            .wait_for("the clone is held", SOON, || async {
                let faults = control.faults().await.ok()?;
                faults.to_string().contains(name).then_some(()).filter(|()| has_held(&faults))
            })
            .await;
        restart_vmop(&story).await;
        control.remove_faults(Some(&fault)).await.unwrap();
        assert_exactly_one(&story, name).await;
    });
}

fn has_held(faults: &serde_json::Value) -> bool {
    faults.as_array().or_else(|| faults["faults"].as_array()).into_iter().flatten().any(|fault| {
        fault["held"].as_u64().is_some_and(|held| held > 0)
            || fault["held"].as_array().is_some_and(|held| !held.is_empty())
    })
}

pub async fn restart_vmop(story: &Story) {
    let stack = story.shared.stack().await;
    let vmop = stack.program("vmop").unwrap();
    vmop.kill().await;
    vmop.revive().await;
}

async fn assert_exactly_one(story: &Story, name: &str) {
    let vm = story.wait_until_powered_on(name).await;
    let vms = story.vms_named(name).await;
    assert_eq!(vms.len(), 1, "{vms:?}");
    assert_eq!(vm["status"]["uniqueID"], vms[0].moid.as_str());
    assert_eq!(vm["spec"]["instanceUUID"], vms[0].instance_uuid.as_str());
    story.delete("VirtualMachine", name, SOON).await;
    assert!(story.vms_named(name).await.is_empty());
}
