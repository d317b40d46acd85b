//! Computes a cluster's milestones from its objects. This module doesn't perform I/O.

use api::conditions::capi;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use crate::describe::cluster_view::ClusterView;
use crate::describe::object::condition;
use crate::describe::tree::{Objects, UNREAD};

/// A milestone in a cluster's creation, with the time when it was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Milestone {
    pub name: String,
    /// Seconds since the manifest was applied.
    pub seconds: f64,
}

/// The condition type that is True for an applied add-on.
const PROVISIONED: &str = "Provisioned";
/// The condition type that is False for a Machine that differs from its owner's spec.
const UP_TO_DATE: &str = "UpToDate";
type IsReached = fn(&Objects) -> bool;
type IsShown = fn(&ClusterView) -> bool;

/// The milestones before the add-ons, in order, each with a predicate.
const MILESTONES: &[(&str, IsReached)] = &[
    ("Cluster API objects exist", |all| !list(all, "KubeadmControlPlane").is_empty()),
    ("endpoint has an address", |all| {
        any(all, "WCPCluster", |o| o["status"]["initialization"]["provisioned"] == true)
    }),
    ("first VM created", |all| any(all, "VirtualMachine", |o| o["status"]["uniqueID"].is_string())),
    ("first VM has an IP", |all| any(all, "VirtualMachine", |o| non_empty(&o["status"]["vmIp"]))),
    ("API server up", |all| {
        any(all, "Cluster", |o| o["status"]["initialization"]["controlPlaneInitialized"] == true)
    }),
];

/// The milestones after the add-ons.
const LAST_MILESTONES: &[(&str, IsShown)] = &[
    ("control plane ready", |cluster| cluster.control_plane.is_full()),
    ("workers ready", |cluster| cluster.workers.is_full()),
    ("Running", |cluster| cluster.runs),
];

/// Returns the names of the milestones that `objects` show, in order. Each provisioned add-on is a milestone. `cluster` is
/// the view of the cluster among the objects.
pub fn reached(objects: &Objects, cluster: &ClusterView) -> Vec<String> {
    let first = MILESTONES.iter().filter(|(_, is_reached)| is_reached(objects)).map(|(name, _)| *name);
    let last = LAST_MILESTONES.iter().filter(|(_, is_shown)| is_shown(cluster)).map(|(name, _)| *name);
    let (first, last) = (first.map(str::to_owned), last.map(str::to_owned));
    first.chain(addons(objects)).chain(last).collect()
}

/// Returns the milestones for provisioned add-ons.
fn addons(objects: &Objects) -> impl Iterator<Item = String> {
    let cluster = list(objects, "TanzuKubernetesCluster").first();
    let all = cluster.and_then(|cluster| cluster.data["status"]["addons"].as_array()).into_iter().flatten();
    let is_provisioned = |addon: &&Value| {
        let conditions = addon["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|found| found["type"] == PROVISIONED && found["status"] == "True")
    };
    all.filter(is_provisioned).map(|addon| {
        let words = ["name", "version"].iter().filter_map(|field| addon[*field].as_str());
        let words: Vec<_> = std::iter::once("add-on").chain(words).chain(["applied"]).collect();
        words.join(" ")
    })
}

/// Returns true if the cluster runs and all its nodes match its spec.
///
/// The phase isn't sufficient: for a moment after a change, the status describes the new spec while the nodes are still
/// the old ones. The Machines and their owners show which nodes are old, as far as the user is allowed to read them.
pub fn is_settled(objects: &Objects, cluster: &ClusterView) -> bool {
    let is_current = |object: &DynamicObject| {
        object.data["status"]["observedGeneration"].as_i64() >= object.metadata.generation
    };
    let is_complete = |object: &DynamicObject| {
        let counts = ["replicas", "readyReplicas", "upToDateReplicas"];
        let wanted = object.data["spec"]["replicas"].as_i64().unwrap_or(1);
        let has = |count: &str| object.data["status"][count].as_i64().unwrap_or_default() == wanted;
        is_current(object) && counts.into_iter().all(has)
    };
    let stays = |machine: &DynamicObject| {
        let is_old = condition(machine, UP_TO_DATE).is_some_and(|found| found["status"] == "False");
        machine.metadata.deletion_timestamp.is_none() && !is_old
    };
    let readable = |object: &&DynamicObject| object.data[UNREAD] != true;
    cluster.runs
        && list(objects, "TanzuKubernetesCluster").iter().all(is_current)
        && plain(objects).is_none_or(|cluster| is_current(cluster) && is_reconciled(cluster))
        && list(objects, "KubeadmControlPlane").iter().filter(readable).all(is_complete)
        && list(objects, "MachineDeployment").iter().all(is_complete)
        && list(objects, "Machine").iter().all(stays)
}

/// Returns the Cluster if it doesn't have a TanzuKubernetesCluster.
fn plain(objects: &Objects) -> Option<&DynamicObject> {
    list(objects, "Cluster").first().filter(|_| list(objects, "TanzuKubernetesCluster").is_empty())
}

/// Returns true if the Cluster's objects match its topology, or if the Cluster doesn't have a topology.
fn is_reconciled(cluster: &DynamicObject) -> bool {
    cluster.data["spec"]["topology"].is_null() || holds(cluster, capi::TOPOLOGY_RECONCILED)
}

fn holds(object: &DynamicObject, type_: &str) -> bool {
    condition(object, type_).is_some_and(|found| found["status"] == "True")
}

fn list<'a>(objects: &'a Objects, kind: &str) -> &'a [DynamicObject] {
    objects.get(kind).map_or(&[], Vec::as_slice)
}

fn any(objects: &Objects, kind: &str, is_so: fn(&Value) -> bool) -> bool {
    list(objects, kind).iter().any(|object| is_so(&object.data))
}

fn non_empty(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: Value, status: Value) -> DynamicObject {
        let object = json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "c"}, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    /// Returns a cluster whose control plane and pool each have `wanted` ready nodes, `up_to_date` of them up to date.
    fn cluster(wanted: i64, up_to_date: i64) -> Objects {
        let counts = json!({"observedGeneration": 2, "replicas": wanted, "readyReplicas": wanted, "upToDateReplicas": up_to_date});
        let mut objects = Objects::new();
        for kind in ["KubeadmControlPlane", "MachineDeployment"] {
            objects.insert(kind, vec![object(kind, json!({"replicas": wanted}), counts.clone())]);
        }
        let status = json!({"phase": "running", "observedGeneration": 2, "addons": [
            {"name": "flannel", "version": "v0.28.10", "conditions": [{"type": "Provisioned", "status": "True"}]},
            {"name": "CoreDNS", "conditions": [{"type": "Provisioned", "status": "False"}]},
        ]});
        objects.insert("TanzuKubernetesCluster", vec![object("TanzuKubernetesCluster", json!({}), status)]);
        for object in objects.values_mut().flatten() {
            object.metadata.generation = Some(2);
        }
        objects
    }

    fn is_settled(objects: &Objects) -> bool {
        super::is_settled(objects, &ClusterView::of_objects(objects))
    }

    #[test]
    fn milestones_are_those_that_the_objects_show() {
        let objects = cluster(1, 1);
        let reached = reached(&objects, &ClusterView::of_objects(&objects));
        assert_eq!(
            reached,
            [
                "Cluster API objects exist",
                "add-on flannel v0.28.10 applied",
                "control plane ready",
                "workers ready",
                "Running"
            ]
        );
    }

    #[test]
    fn a_cluster_is_settled_when_all_its_nodes_are_as_its_spec_says() {
        assert!(is_settled(&cluster(2, 2)));
        assert!(!is_settled(&cluster(2, 1)));
        let changed = |change: fn(&mut Objects)| {
            let mut objects = cluster(1, 1);
            change(&mut objects);
            is_settled(&objects)
        };
        for kind in ["TanzuKubernetesCluster", "KubeadmControlPlane", "MachineDeployment"] {
            let mut objects = cluster(1, 1);
            objects.get_mut(kind).unwrap()[0].metadata.generation = Some(3);
            assert!(!is_settled(&objects), "{kind} has not seen its new spec");
        }
        assert!(!changed(|all| all.get_mut("TanzuKubernetesCluster").unwrap()[0].data["status"]["phase"] =
            json!("updating")));
        let old = || {
            let conditions = json!({"conditions": [{"type": "UpToDate", "status": "False"}]});
            vec![object("Machine", json!({}), conditions)]
        };
        let mut objects = cluster(1, 1);
        objects.insert("Machine", old());
        assert!(!is_settled(&objects), "a Machine is to be replaced");
        // A user who isn't allowed to read the control plane still sees its Machines.
        let mut objects = cluster(1, 0);
        objects.get_mut("KubeadmControlPlane").unwrap()[0].data = json!({ UNREAD: true });
        objects.get_mut("MachineDeployment").unwrap()[0] = cluster(1, 1)["MachineDeployment"][0].clone();
        assert!(is_settled(&objects));
    }

    #[test]
    fn a_cluster_without_a_tanzu_kubernetes_cluster_runs_when_it_is_available() {
        let settled = |available: &str, reconciled: &str, generation: i64| {
            let mut objects = cluster(1, 1);
            objects.remove("TanzuKubernetesCluster");
            let status = json!({"phase": "Provisioned", "observedGeneration": 2, "conditions": [
                {"type": "Available", "status": available}, {"type": "TopologyReconciled", "status": reconciled},
            ]});
            let mut plain = object("Cluster", json!({"topology": {"version": "v1.35.1"}}), status);
            plain.metadata.generation = Some(generation);
            objects.insert("Cluster", vec![plain]);
            is_settled(&objects)
        };
        assert!(settled("True", "True", 2));
        assert!(!settled("False", "True", 2));
        assert!(!settled("True", "False", 2), "its class does not exist");
        assert!(!settled("True", "True", 3), "the change is not observed yet");
    }
}
