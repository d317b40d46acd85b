//! A datastore and a host are unavailable for a while. VMs are neither created nor destroyed, and pending requests
//! are completed after the outage.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::story::{CLUSTER, SOON, Story, condition, disruptive_story};

/// The large cluster's control plane and worker counts.
const NODES: [usize; 2] = [3, 17];
const MACHINES: usize = NODES[0] + NODES[1];
/// The number of workers on the lost host. It is below 40 % of 17, so health checks allow their replacement.
const ON_ONE_HOST: usize = 5;
/// The timeout for this number of machines on two busy CPUs.
const MANY: Duration = Duration::from_mins(15);
/// The outage is longer than health checks wait for a silent node, which is five minutes.
const LONG: Duration = Duration::from_mins(10);
const POWER: &str = "VirtualMachinePowerStateSynced";

#[test]
fn an_outage_replaces_no_node_and_a_deleted_node_goes_when_its_host_is_back() {
    disruptive_story("outages", |story| async move {
        story.apply(&cluster("away", [1, 1])).await;
        story.wait_until_running("away").await;
        nothing_happens_while_the_datastore_is_away(&story).await;
        a_node_that_is_deleted_meanwhile_goes_when_it_is_back(&story).await;
        story.delete("TanzuKubernetesCluster", "away", CLUSTER).await;
        let inventory = story.shared.control().inventory().await.unwrap();
        assert!(!inventory.vms.iter().any(|vm| vm.name.starts_with("away-")), "VMs are left");
    });
}

/// Two ten-minute outages: the shared datastore, and a host with a few workers. The kubelets are silent meanwhile.
#[test]
#[ignore = "takes half an hour"]
fn outages_of_ten_minutes_with_twenty_machines_make_and_destroy_none() {
    disruptive_story("long-outages", |story| async move {
        let control = story.shared.control();
        let files = control.orphaned_files().await.unwrap().files;
        story.apply(&cluster("large", NODES)).await;
        wait_for_healthy_nodes(&story).await;
        all_machines_live_through_the_loss_of_their_datastore(&story).await;
        machines_of_a_lost_host_are_replaced_when_it_is_back(&story).await;
        story.delete("TanzuKubernetesCluster", "large", MANY).await;
        let inventory = control.inventory().await.unwrap();
        assert!(!inventory.vms.iter().any(|vm| vm.name.starts_with("large-")), "VMs are left");
        assert_eq!(control.orphaned_files().await.unwrap().files, files, "files are left");
    });
}

fn cluster(name: &str, [nodes, workers]: [usize; 2]) -> String {
    format!(
        "
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {{name: {name}, namespace: NAMESPACE}}
spec:
  topology:
    controlPlane: {{count: {nodes}, class: best-effort-small, storageClass: gc-storage-profile}}
    workers: {{count: {workers}, class: best-effort-small, storageClass: gc-storage-profile}}
  distribution: {{version: v1.33}}
"
    )
}

/// Returns the state that must not change in an outage: VMs in vCenter, and the UIDs of VirtualMachines.
async fn machines(story: &Story) -> (BTreeSet<String>, BTreeSet<String>) {
    let inventory = story.shared.control().inventory().await.unwrap();
    let of_cluster = inventory.vms.into_iter().filter(|vm| vm.name.starts_with("large-"));
    let uid = |vm: Value| vm["metadata"]["uid"].as_str().unwrap().to_owned();
    let objects = story.list("VirtualMachine").await.into_iter().map(uid).collect();
    (of_cluster.map(|vm| vm.moid).collect(), objects)
}

/// Checks for ten minutes that VMs are neither created nor destroyed.
async fn nothing_comes_or_goes_for_long(story: &Story, before: &(BTreeSet<String>, BTreeSet<String>)) {
    let started = Instant::now();
    story
        .wait_for("nothing comes, nothing goes", LONG + SOON, || async {
            assert_eq!(&machines(story).await, before, "after {:?}", started.elapsed());
            (started.elapsed() >= LONG).then_some(())
        })
        .await;
}

/// Returns how many machines Cluster API's health checks expect, and how many are healthy.
async fn health(story: &Story) -> (u64, u64) {
    let checks = story.list("MachineHealthCheck").await;
    let sum = |field: &str| checks.iter().filter_map(|check| check["status"][field].as_u64()).sum();
    (sum("expectedMachines"), sum("currentHealthy"))
}

async fn wait_for_healthy_nodes(story: &Story) {
    let all = u64::try_from(MACHINES).unwrap();
    story.wait_until("all nodes are healthy", MANY, async || health(story).await == (all, all)).await;
}

async fn all_machines_live_through_the_loss_of_their_datastore(story: &Story) {
    let control = story.shared.control();
    let before = machines(story).await;
    assert_eq!((before.0.len(), before.1.len()), (MACHINES, MACHINES));
    lose_datastore(story).await;
    story.shared.guests.silence("large-*");
    nothing_comes_or_goes_for_long(story, &before).await;
    let (expected, healthy) = health(story).await;
    assert_eq!((usize::try_from(expected).unwrap(), healthy), (MACHINES, 0), "health checks saw it");
    for vm in story.list("VirtualMachine").await {
        let why = condition(&vm, POWER).unwrap_or(&Value::Null)["message"].as_str().unwrap().to_owned();
        assert!(why.contains("is inaccessible"), "{why}");
    }
    let cluster = story.get("TanzuKubernetesCluster", "large").await.unwrap();
    let ready = condition(&cluster, "Ready").unwrap_or(&Value::Null);
    assert!(ready["message"].as_str().unwrap().contains("is inaccessible"), "{ready}");
    story.shared.guests.unsilence("large-*");
    control.end_outages().await.unwrap();
    wait_for_healthy_nodes(story).await;
    wait_for_power_conditions(story, "True").await;
    assert_eq!(machines(story).await, before, "all are what they were");
}

async fn machines_of_a_lost_host_are_replaced_when_it_is_back(story: &Story) {
    let control = story.shared.control();
    let before = machines(story).await;
    let vms = story.vms().await;
    let lost: Vec<_> = vms.iter().filter(|vm| vm.name.contains("workers")).take(ON_ONE_HOST).collect();
    for vm in &lost {
        control.set_vm_state(&vm.moid, "disconnected").await.unwrap();
        story.shared.guests.silence(&vm.name);
    }
    nothing_comes_or_goes_for_long(story, &before).await;
    for vm in &lost {
        let object = story.get("VirtualMachine", &vm.name).await.unwrap();
        let ready = condition(&object, "Ready").unwrap_or(&Value::Null);
        assert_eq!(ready["reason"], "DeletionFailed", "remediation has begun: {object}");
        assert!(ready["message"].as_str().unwrap().contains("is disconnected"), "{ready}");
    }
    control.end_outages().await.unwrap();
    story
        .wait_for("they are replaced", MANY, || async {
            let (now, _) = machines(story).await;
            let replaced = lost.iter().all(|vm| !now.contains(&vm.moid));
            (replaced && now.len() == MACHINES).then_some(())
        })
        .await;
    wait_for_healthy_nodes(story).await;
}

async fn lose_datastore(story: &Story) {
    let file = story.vms().await[0].disks[0].file.clone();
    let datastore = file.trim_start_matches('[').split(']').next().unwrap();
    story.shared.control().set_datastore_accessible(datastore, false).await.unwrap();
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
            vms.iter()
                .all(|vm| condition(vm, POWER).unwrap_or(&Value::Null)["status"] == status)
                .then_some(())
        })
        .await;
}

async fn nothing_happens_while_the_datastore_is_away(story: &Story) {
    let control = story.shared.control();
    let before = vms_in_vcenter(story).await;
    lose_datastore(story).await;
    wait_for_power_conditions(story, "Unknown").await;
    for vm in story.list("VirtualMachine").await {
        let why = condition(&vm, POWER).unwrap_or(&Value::Null)["message"].as_str().unwrap().to_owned();
        assert!(why.contains("is inaccessible") && why.contains("datastore"), "{why}");
        assert_eq!(
            condition(&vm, "Ready").unwrap_or(&Value::Null)["status"],
            "True",
            "its node serves: {vm}"
        );
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
    // Like remediation.
    let machines = story.list("Machine").await;
    let machine = name(machines.iter().find(|machine| name(machine).contains("workers")).unwrap());
    story.api("Machine").delete(&machine, &kube::api::DeleteParams::default()).await.unwrap();
    story
        .wait_for("the old VM waits, and says for what", CLUSTER, || async {
            let vm = story.get("VirtualMachine", &old.name).await.expect("it is not let go");
            let ready = condition(&vm, "Ready").unwrap_or(&Value::Null);
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
            // A Machine that is being deleted still counts for its MachineSet, so its replacement comes only after
            // its VM is gone.
            let vms = story.list("VirtualMachine").await;
            let serves = |vm: &Value| condition(vm, "Ready").unwrap_or(&Value::Null)["status"] == "True";
            vms.iter()
                .any(|vm| name(vm).contains("workers") && name(vm) != old.name && serves(vm))
                .then_some(())
        })
        .await;
    assert_eq!(story.vms().await.len(), vms.len());
}
