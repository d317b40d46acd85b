//! How far a cluster has come: its milestones and counts. Pure: objects in, numbers out.

use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use crate::describe::tree::Objects;

/// Nodes that are ready, of those that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Nodes that are ready.
    pub ready: i64,
    /// Nodes that the manifest asks for.
    pub wanted: i64,
}

/// A milestone of a cluster's creation and when it was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Milestone {
    /// Its name.
    pub name: &'static str,
    /// Seconds since the manifest was applied.
    pub seconds: f64,
}

type IsReached = fn(&Objects) -> bool;

/// The milestones in the order in which a cluster reaches them, each with the test that tells.
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
    ("control plane ready", |all| full(control_plane(all))),
    ("workers ready", |all| full(workers(all))),
    ("Running", |all| phase(all) == "running"),
];

/// Adds the milestones that `objects` show for the first time.
pub fn reached(milestones: &mut Vec<Milestone>, objects: &Objects, seconds: f64) {
    for (name, is_reached) in MILESTONES {
        if !milestones.iter().any(|milestone| milestone.name == *name) && is_reached(objects) {
            milestones.push(Milestone { name, seconds: (seconds * 10.0).round() / 10.0 });
        }
    }
}

/// The phase of the TanzuKubernetesCluster, in lower case; empty before its first status.
pub fn phase(objects: &Objects) -> String {
    let cluster = list(objects, "TanzuKubernetesCluster").first();
    cluster.and_then(|cluster| cluster.data["status"]["phase"].as_str()).unwrap_or_default().to_lowercase()
}

/// Control plane nodes.
pub fn control_plane(objects: &Objects) -> Count {
    count(list(objects, "KubeadmControlPlane"))
}

/// Worker nodes of all pools.
pub fn workers(objects: &Objects) -> Count {
    count(list(objects, "MachineDeployment"))
}

fn count(objects: &[DynamicObject]) -> Count {
    let sum = |at: fn(&Value) -> &Value| objects.iter().filter_map(|object| at(&object.data).as_i64()).sum();
    Count { ready: sum(|o| &o["status"]["readyReplicas"]), wanted: sum(|o| &o["spec"]["replicas"]) }
}

fn full(count: Count) -> bool {
    count.ready >= count.wanted && count.wanted > 0
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

    #[test]
    fn a_milestone_is_kept_with_its_first_time() {
        let mut milestones = Vec::new();
        let mut objects = Objects::from([(
            "KubeadmControlPlane",
            vec![object("KubeadmControlPlane", json!({"replicas": 3}), json!({"readyReplicas": 1}))],
        )]);
        reached(&mut milestones, &objects, 1.04);
        objects.insert(
            "KubeadmControlPlane",
            vec![object("K", json!({"replicas": 3}), json!({"readyReplicas": 3}))],
        );
        reached(&mut milestones, &objects, 9.0);
        let names: Vec<_> = milestones.iter().map(|milestone| (milestone.name, milestone.seconds)).collect();
        assert_eq!(names, [("Cluster API objects exist", 1.0), ("control plane ready", 9.0)]);
        assert_eq!(control_plane(&objects), Count { ready: 3, wanted: 3 });
    }
}
