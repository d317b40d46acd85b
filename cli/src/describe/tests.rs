//! Tests with recorded objects from clusters that came up, and with injected failures.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::gather::KINDS;
use super::limits::{limits, print};
use super::tree::{Objects, Tree, tree};
use super::{Blocking, Root};

const CONTROL_PLANE: &str = "small-v3-control-plane-7gxxr";

/// The first node's VM is running, but its API server isn't up yet.
const NODE_BOOTS: &str = include_str!("fixtures/node-boots.json");
const RUNNING: &str = include_str!("fixtures/running.json");

fn seen(text: &str) -> Objects {
    let all: Vec<DynamicObject> = serde_json::from_str(text).unwrap();
    let of_kind = |kind: &str| {
        all.iter().filter(|object| object.types.as_ref().unwrap().kind == kind).cloned().collect()
    };
    KINDS.iter().map(|(_, _, kind, _)| (*kind, of_kind(kind))).collect()
}

fn conditions(objects: &mut Objects, kind: &'static str, name: &str, conditions: Value) {
    let found = objects.get_mut(kind).unwrap().iter_mut().find(|object| object.name_any() == name).unwrap();
    found.data["status"]["conditions"] = conditions;
}

fn not_ready(reason: &str, message: &str) -> Value {
    json!([{"type": "Ready", "status": "False", "reason": reason, "message": message}])
}

fn blocking(root: Root, objects: &Objects) -> Option<Blocking> {
    tree(root, "demo", objects).unwrap().blocking
}

fn cause(objects: &Objects) -> Blocking {
    blocking(Root::TanzuKubernetesCluster, objects).unwrap()
}

#[test]
fn a_node_that_has_not_joined_is_its_machines_matter() {
    let booting = cause(&seen(NODE_BOOTS));
    assert_eq!(booting.object, format!("Machine demo/{CONTROL_PLANE}"));
    assert_eq!(booting.reason, "WaitingForNode");
    assert!(booting.message.contains("cloud-init-output.log"), "{}", booting.message);
}

#[test]
fn a_first_boot_that_failed_comes_before_a_probe_that_waits_for_it() {
    let mut objects = seen(NODE_BOOTS);
    conditions(&mut objects, "VirtualMachine", CONTROL_PLANE, not_ready("NotReady", "the probe fails"));
    let wcp_machine = objects["WCPMachine"][0].name_any();
    let failed = not_ready("BootstrapFailed", "kubeadm init failed: Port 10259 is in use");
    conditions(&mut objects, "WCPMachine", &wcp_machine, failed);
    let mirrored = json!([{"type": "InfrastructureReady", "status": "False", "reason": "x", "message": "y"}]);
    conditions(&mut objects, "Machine", CONTROL_PLANE, mirrored);
    let blocking = cause(&objects);
    assert_eq!(blocking.object, format!("WCPMachine demo/{wcp_machine}"));
    assert!(blocking.message.contains("Port 10259"), "{}", blocking.message);
}

#[test]
fn a_remedy_has_the_field_of_a_tanzukubernetescluster_and_of_no_other_cluster() {
    let mut objects = seen(NODE_BOOTS);
    let wcp_machine = objects["WCPMachine"][0].name_any();
    let failed =
        not_ready("BootstrapFailed", "the number of available CPUs 1. Use a larger virtual machine class");
    conditions(&mut objects, "WCPMachine", &wcp_machine, failed);
    assert!(cause(&objects).message.ends_with("class (spec.topology)"));
    let plain = blocking(Root::Cluster, &objects).unwrap();
    assert!(plain.message.ends_with("class"), "{}", plain.message);
}

#[test]
fn nothing_blocks_a_running_cluster() {
    assert_eq!(blocking(Root::TanzuKubernetesCluster, &seen(RUNNING)), None);
}

/// Missing optional parts appear in the description but don't block the cluster.
#[test]
fn limits_are_shown_and_block_nothing() {
    let mut objects = seen(RUNNING);
    let limited = |ready: &Value| {
        json!([
            ready,
            {"type": "AddonsReady", "status": "True", "reason": "AddonsLeftInImage", "message": "pvcsi is not applied"},
            {"type": "StorageClassSynced", "status": "False", "severity": "Info", "reason": "NoStorageDriver", "message": "2 storage classes, no driver"},
            {"type": "RoleBindingSynced", "status": "False", "severity": "Info", "reason": "NoAuthenticator", "message": "1 user"},
            {"type": "UpdatesAvailable", "status": "True", "message": "[1.36.3]"},
        ])
    };
    let ready = json!({"type": "Ready", "status": "True"});
    conditions(&mut objects, "TanzuKubernetesCluster", "small-v3", limited(&ready));
    assert_eq!(blocking(Root::TanzuKubernetesCluster, &objects), None);
    insta::assert_snapshot!(print(&limits(&objects["TanzuKubernetesCluster"][0])));
    let silent = json!({"type": "Ready", "status": "False", "severity": "Warning", "reason": "RoleBindingSyncFailed", "message": ""});
    conditions(&mut objects, "TanzuKubernetesCluster", "small-v3", limited(&silent));
    assert_eq!(cause(&objects).reason, "RoleBindingSyncFailed", "a limit explains nothing");
    assert_eq!(print(&[]), "");
}

#[test]
fn storage_that_is_asked_for_and_has_no_driver_is_the_clusters_own_cause() {
    let mut objects = seen(RUNNING);
    let missing = json!([{"type": "Ready", "status": "False", "severity": "Warning", "reason": "StorageDriverNotFound", "message": "there is no CSI driver"}]);
    conditions(&mut objects, "TanzuKubernetesCluster", "small-v3", missing);
    let cause = cause(&objects);
    assert_eq!(cause.object, "TanzuKubernetesCluster demo/small-v3");
    assert_eq!(cause.reason, "StorageDriverNotFound");
}

#[test]
fn what_failed_comes_before_what_takes_its_time() {
    let mut objects = seen(NODE_BOOTS);
    let missing = json!([{"type": "Ready", "status": "False", "severity": "Error",
        "reason": "VirtualMachineClassBindingNotFound", "message": "class large is not bound to namespace demo"}]);
    conditions(&mut objects, "VirtualMachine", CONTROL_PLANE, missing);
    let ready = json!([{"type": "InfrastructureReady", "status": "False", "reason": "x", "message": "y"}]);
    conditions(&mut objects, "Machine", CONTROL_PLANE, ready);
    let blocking = cause(&objects);
    assert_eq!(blocking.object, format!("VirtualMachine demo/{CONTROL_PLANE}"));
    assert_eq!(blocking.reason, "VirtualMachineClassBindingNotFound");
}

#[test]
fn what_is_broken_comes_before_what_is_tried_again() {
    let mut objects = seen(NODE_BOOTS);
    let ready = |severity: &str, reason: &str| json!([{"type": "Ready", "status": "False", "severity": severity, "reason": reason, "message": ""}]);
    conditions(&mut objects, "VirtualMachine", CONTROL_PLANE, ready("Error", "InvalidSpec"));
    objects.get_mut("VirtualMachineService").unwrap()[0].data["status"] = json!({});
    let service = objects["VirtualMachineService"][0].name_any();
    conditions(&mut objects, "VirtualMachineService", &service, ready("Warning", "Busy"));
    assert_eq!(cause(&objects).reason, "InvalidSpec");
}

#[test]
fn a_vm_that_vcenter_does_not_reach_is_a_cause() {
    let mut objects = seen(NODE_BOOTS);
    let unreachable =
        json!([{"type": "Ready", "status": "Unknown", "reason": "Unreachable", "message": "check its host"}]);
    conditions(&mut objects, "VirtualMachine", CONTROL_PLANE, unreachable);
    assert_eq!(cause(&objects).object, format!("VirtualMachine demo/{CONTROL_PLANE}"));
}

#[test]
fn the_network_comes_before_the_nodes() {
    let mut objects = seen(NODE_BOOTS);
    objects.get_mut("VirtualMachineService").unwrap()[0].data["status"] = json!({});
    conditions(&mut objects, "WCPCluster", "small-v3", not_ready("WaitingForLoadBalancerIP", ""));
    let started = not_ready("ClusterNetworkProvisionStarted", "");
    conditions(&mut objects, "VirtualNetwork", "small-v3-vnet", started);
    assert_eq!(cause(&objects).object, "VirtualNetwork demo/small-v3-vnet");
}

#[test]
fn what_the_cluster_itself_says_counts_if_it_is_its_own() {
    let mut objects = seen(NODE_BOOTS);
    let invalid = json!([{"type": "Ready", "status": "False", "severity": "Error", "reason": "Invalid", "message": "no"}]);
    conditions(&mut objects, "TanzuKubernetesCluster", "small-v3", invalid);
    assert_eq!(cause(&objects).object, "TanzuKubernetesCluster demo/small-v3");
}

#[test]
fn machines_that_cannot_be_made_are_their_owners_matter() {
    let mut objects = seen(NODE_BOOTS);
    for kind in ["Machine", "WCPMachine", "VirtualMachine"] {
        objects.get_mut(kind).unwrap().clear();
    }
    let blocked = "Scaling up from 0 to 1 replicas is blocked because:\n* WCPMachineTemplate does not exist";
    let scaling = json!([
        {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "not initialized"},
        {"type": "ScalingUp", "status": "True", "reason": "ScalingUp", "message": blocked},
    ]);
    conditions(&mut objects, "KubeadmControlPlane", "small-v3-control-plane", scaling);
    let cause = cause(&objects);
    assert_eq!(cause.object, "KubeadmControlPlane demo/small-v3-control-plane");
    assert_eq!(cause.message, blocked, "what is handed on is unchanged");
}

#[test]
fn a_condition_about_change_is_no_cause() {
    let mut objects = seen(NODE_BOOTS);
    objects.retain(|kind, _| ["TanzuKubernetesCluster", "Cluster"].contains(kind));
    let fresh = json!([{"type": "Paused", "status": "False", "reason": "NotPaused"}]);
    conditions(&mut objects, "Cluster", "small-v3", fresh);
    assert_eq!(cause(&objects).reason, "NotReported");
}

#[test]
fn a_worker_that_never_joins_is_its_machines_matter_too() {
    let mut objects = seen(RUNNING);
    let worker = "small-v3-batch-lq8j5-6b6mn-qhh7j";
    let machines = objects.get_mut("Machine").unwrap();
    let machine = machines.iter_mut().find(|object| object.name_any() == worker).unwrap();
    machine.data["status"]["nodeRef"] = Value::Null;
    let up = json!([
        {"type": "Ready", "status": "Unknown", "reason": "ReadyUnknown", "message": "* NodeHealthy: no node"},
        {"type": "InfrastructureReady", "status": "True", "reason": "Ready"},
    ]);
    conditions(&mut objects, "Machine", worker, up);
    let late = json!([{"type": "Ready", "status": "False", "severity": "Warning", "reason": "WaitingForNodesHealthy", "message": ""}]);
    conditions(&mut objects, "TanzuKubernetesCluster", "small-v3", late);
    let cause = cause(&objects);
    assert_eq!(cause.object, format!("Machine demo/{worker}"));
    assert!(cause.message.contains("10.219.1.2"), "{}", cause.message);
}

#[test]
fn a_booting_cluster_is_described() {
    let now: Timestamp = "2026-11-21T11:26:00Z".parse().unwrap();
    let Tree { root, blocking } = tree(Root::TanzuKubernetesCluster, "demo", &seen(NODE_BOOTS)).unwrap();
    insta::assert_snapshot!(super::print::text(blocking.as_ref(), &root, now, None, false));
}

#[test]
fn a_running_cluster_is_described() {
    let now: Timestamp = "2026-11-21T11:26:00Z".parse().unwrap();
    let Tree { root: tree, .. } = tree(Root::TanzuKubernetesCluster, "demo", &seen(RUNNING)).unwrap();
    insta::assert_snapshot!(super::print::text(None, &tree, now, None, false));
    let json = serde_json::to_value(&tree).unwrap();
    let fields: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["children", "kind", "message", "name", "ready", "reason"]);
    assert_eq!(json["children"][0]["kind"], "Cluster");
}

/// The objects below a Cluster might not exist yet, or might not show why the Cluster's topology can't be reconciled.
#[test]
fn a_topology_without_its_class_is_the_cause() {
    let message =
        "failed to retrieve ClusterClass shop/none: ClusterClass.cluster.x-k8s.io \"none\" not found";
    let of = |reason: &str| {
        let status = serde_json::json!({"conditions": [
            {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "* InfrastructureReady: Waiting"},
            {"type": "TopologyReconciled", "status": "False", "reason": reason, "message": message},
        ]});
        let cluster =
            serde_json::json!({"metadata": {"name": "shop", "namespace": "shop"}, "status": status});
        let objects = Objects::from([("Cluster", vec![serde_json::from_value(cluster).unwrap()])]);
        blocking(Root::Cluster, &objects).unwrap()
    };
    let found = of("ReconcileFailed");
    assert_eq!(
        (&*found.object, &*found.reason, &*found.message),
        ("Cluster demo/shop", "ReconcileFailed", message)
    );
    assert_eq!(of("ClusterCreating").reason, "NotAvailable");
}

/// The tree that is searched has facts that no condition contains.
#[test]
fn facts_outside_conditions_are_part_of_the_tree() {
    let mut objects = seen(NODE_BOOTS);
    let endpoint = json!({"controlPlaneEndpoint": {"host": "10.219.255.1", "port": 6443}});
    objects.get_mut("Cluster").unwrap()[0].data["spec"] = endpoint;
    let reach = "can reach the endpoint https://10.219.255.1:6443";
    assert!(cause(&objects).message.contains(reach), "{}", cause(&objects).message);

    let mut objects = seen(RUNNING);
    let ill = json!([
        {"type": "Ready", "status": "False", "reason": "NotReady", "message": "* NodeHealthy: x"},
        {"type": "NodeReady", "status": "False", "reason": "KubeletNotReady", "message": "no network"},
    ]);
    conditions(&mut objects, "Machine", CONTROL_PLANE, ill);
    conditions(&mut objects, "TanzuKubernetesCluster", "small-v3", not_ready("WaitingForNodesHealthy", ""));
    assert_eq!(cause(&objects).reason, "KubeletNotReady");
    let failed = json!({"type": "Provisioned", "status": "False", "severity": "Warning", "reason": "ProvisioningFailed", "message": "no bundle"});
    objects.get_mut("TanzuKubernetesCluster").unwrap()[0].data["status"]["addons"] =
        json!([{"name": "antrea", "type": "CNI", "conditions": [failed]}]);
    let found = cause(&objects);
    assert_eq!(
        (&*found.object, &*found.message),
        ("TanzuKubernetesCluster demo/small-v3", "Add-on antrea: no bundle")
    );

    let set = &mut objects.get_mut("MachineSet").unwrap()[0].metadata;
    set.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    set.finalizers = Some(vec!["backup.example/x".to_owned()]);
    objects.get_mut("TanzuKubernetesCluster").unwrap()[0].data["status"]["addons"] = json!([]);
    conditions(&mut objects, "Machine", CONTROL_PLANE, json!([{"type": "Ready", "status": "True"}]));
    let found = cause(&objects);
    assert!(found.object.starts_with("MachineSet ") && found.reason == "DeletionHeld", "{found:?}");
}
