//! The VM operator is killed at the worst moments, and there is still exactly one VM.

use sim::control::{Fault, FaultKind};

use crate::world::{PlainVm, SOON, Story, story};

#[test]
fn killed_between_clone_and_status_it_finds_its_vm_again() {
    story("crash-after", |story| async move {
        story.ready_for_vms("best-effort-xsmall").await;
        let name = "crash-after-vm";
        story
            .world
            .control()
            .plant(&Fault::once("CloneVM_Task", FaultKind::LostAnswer).on(name))
            .await
            .unwrap();
        story.made(&PlainVm::named(name).object(&story.namespace)).await;
        story
            .until("the VM exists", SOON, || async {
                (!story.vms_named(name).await.is_empty()).then_some(())
            })
            .await;
        killed_and_revived(&story).await;
        exactly_one(&story, name).await;
    });
}

#[test]
fn killed_while_the_clone_still_runs_it_waits_for_it() {
    story("crash-during", |story| async move {
        story.ready_for_vms("best-effort-xsmall").await;
        let name = "crash-during-vm";
        let control = story.world.control();
        let fault = control.plant(&Fault::once("CloneVM_Task", FaultKind::Hold).on(name)).await.unwrap();
        story.made(&PlainVm::named(name).object(&story.namespace)).await;
        story
            .until("the clone is held", SOON, || async {
                let faults = control.faults().await.ok()?;
                faults.to_string().contains(name).then_some(()).filter(|()| has_held(&faults))
            })
            .await;
        killed_and_revived(&story).await;
        control.remove_faults(Some(&fault)).await.unwrap();
        exactly_one(&story, name).await;
    });
}

fn has_held(faults: &serde_json::Value) -> bool {
    faults.as_array().or_else(|| faults["faults"].as_array()).into_iter().flatten().any(|fault| {
        fault["held"].as_u64().is_some_and(|held| held > 0)
            || fault["held"].as_array().is_some_and(|held| !held.is_empty())
    })
}

pub async fn killed_and_revived(story: &Story) {
    let stack = story.world.stack.lock().await;
    let vmop = stack.program("vmop").unwrap();
    vmop.kill().await;
    vmop.revive().await;
}

async fn exactly_one(story: &Story, name: &str) {
    let vm = story.powered_on(name).await;
    let vms = story.vms_named(name).await;
    assert_eq!(vms.len(), 1, "{vms:?}");
    assert_eq!(vm["status"]["uniqueID"], vms[0].moid.as_str());
    assert_eq!(vm["spec"]["instanceUUID"], vms[0].instance_uuid.as_str());
    story.deleted("VirtualMachine", name, SOON).await;
    assert!(story.vms_named(name).await.is_empty());
}
