//! A datastore and a host are away for a while: nothing is made or destroyed for it, and what was asked meanwhile is done
//! when they are back.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::story::{CLUSTER, SOON, Story, disruptive_story};

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {name: away, namespace: NAMESPACE}
spec:
  topology:
    controlPlane: {count: 1, class: best-effort-small, storageClass: gc-storage-profile}
    workers: {count: 1, class: best-effort-small, storageClass: gc-storage-profile}
  distribution: {version: v1.33}
";
const POWER: &str = "VirtualMachinePowerStateSynced";

#[test]
fn an_outage_replaces_no_node_and_a_deleted_node_goes_when_its_host_is_back() {
    disruptive_story("outages", |story| async move {
        story.apply(MANIFEST).await;
        story.wait_until_running("away").await;
        nothing_happens_while_the_datastore_is_away(&story).await;
        a_node_that_is_deleted_meanwhile_goes_when_it_is_back(&story).await;
        story.delete("TanzuKubernetesCluster", "away", CLUSTER).await;
        let inventory = story.shared.control().inventory().await.unwrap();
        assert!(!inventory.vms.iter().any(|vm| vm.name.starts_with("away-")), "VMs are left");
    });
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn vms_in_vcenter(story: &Story) -> BTreeSet<String> {
    story.vms().await.into_iter().map(|vm| vm.moid).collect()
}

async fn wait_for_power_conditions(story: &Story, status: &str) {
    story
        .wait_for(&format!("{POWER} is {status}"), SOON, || async {
            let vms = story.list("VirtualMachine").await;
            vms.iter().all(|vm| condition(vm, POWER)["status"] == status).then_some(())
        })
        .await;
}

async fn nothing_happens_while_the_datastore_is_away(story: &Story) {
    let control = story.shared.control();
    let before = vms_in_vcenter(story).await;
    let file = story.vms().await[0].disks[0].file.clone();
    let datastore = file.trim_start_matches('[').split(']').next().unwrap().to_owned();
    control.set_datastore_accessible(&datastore, false).await.unwrap();
    wait_for_power_conditions(story, "Unknown").await;
    for vm in story.list("VirtualMachine").await {
        let why = condition(&vm, POWER)["message"].as_str().unwrap().to_owned();
        assert!(why.contains("is inaccessible") && why.contains("datastore"), "{why}");
        assert_eq!(condition(&vm, "Ready")["status"], "True", "its node serves: {vm}");
        assert!(vm["status"]["vmIp"].is_string(), "{}", vm["status"]);
    }
    let cluster = story.get("TanzuKubernetesCluster", "away").await.unwrap();
    assert_eq!(cluster["status"]["phase"], "running");
    control.end_outages().await.unwrap();
    wait_for_power_conditions(story, "True").await;
    assert_eq!(vms_in_vcenter(story).await, before);
}

async fn a_node_that_is_deleted_meanwhile_goes_when_it_is_back(story: &Story) {
    let control = story.shared.control();
    let vms = story.vms().await;
    let old = vms.iter().find(|vm| vm.name.contains("workers")).unwrap();
    control.set_vm_state(&old.moid, "disconnected").await.unwrap();
    // As remediation does it.
    let machines = story.list("Machine").await;
    let machine = name(machines.iter().find(|machine| name(machine).contains("workers")).unwrap());
    story.api("Machine").delete(&machine, &kube::api::DeleteParams::default()).await.unwrap();
    story
        .wait_for("the old VM waits, and says for what", CLUSTER, || async {
            let vm = story.get("VirtualMachine", &old.name).await.expect("it is not let go");
            let ready = condition(&vm, "Ready");
            let waits = !vm["metadata"]["deletionTimestamp"].is_null() && ready["reason"] == "DeletionFailed";
            waits.then(|| assert!(ready["message"].as_str().unwrap().contains("is disconnected"), "{ready}"))
        })
        .await;
    assert!(vms_in_vcenter(story).await.contains(&old.moid), "nobody destroys what vCenter does not reach");
    control.end_outages().await.unwrap();
    story
        .wait_for("the old VM is gone", CLUSTER, || async {
            let gone = story.get("VirtualMachine", &old.name).await.is_none();
            let inventory = control.inventory().await.ok()?;
            (gone && inventory.vms.iter().all(|vm| vm.moid != old.moid)).then_some(())
        })
        .await;
    story
        .wait_for("its successor runs", CLUSTER, || async {
            // A Machine that is being deleted is still one of its MachineSet: no successor comes before its VM is gone.
            let vms = story.list("VirtualMachine").await;
            let serves = |vm: &Value| condition(vm, "Ready")["status"] == "True";
            vms.iter()
                .any(|vm| name(vm).contains("workers") && name(vm) != old.name && serves(vm))
                .then_some(())
        })
        .await;
    assert_eq!(story.vms().await.len(), vms.len());
}
