//! The view of a cluster that all commands share: its kind, phase, node counts and version. Reads and counts them in one
//! way, from the cluster's own objects and from the owners of its Machines.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result};
use api::conditions::capi;
use api::names::label;
use kit::api_error::is_not_served;
use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use crate::describe::object::condition;
use crate::describe::tree::{Objects, UNREAD};
use crate::describe::{Root, pause};
use crate::kube::connection::{CLUSTER, KindName, dynamic_api_in, not_served, served};

/// The [`ClusterView::kind`] of TanzuKubernetesClusters.
pub const TKC: &str = "tkc";

const TANZU_KUBERNETES_CLUSTER: KindName =
    ("run.tanzu.vmware.com", "v1alpha3", "TanzuKubernetesCluster", "tanzukubernetesclusters");
/// The kind that owns control plane Machines.
const CONTROL_PLANE: KindName =
    ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes");
/// The kind that owns worker Machines.
const MACHINE_DEPLOYMENT: KindName =
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments");

/// Ready and desired nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The number of ready nodes.
    pub ready: i64,
    /// The desired number of nodes.
    pub wanted: i64,
}

impl Count {
    /// Returns true if nodes are desired and all of them are ready.
    pub fn is_full(self) -> bool {
        self.ready >= self.wanted && self.wanted > 0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ready, self.wanted)
    }
}

/// The role of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterRole {
    /// The cluster has the label of a management cluster.
    Management,
    /// A management cluster manages the cluster.
    #[default]
    Workload,
    /// A bootstrap cluster manages the cluster, and only runs while a command changes the cluster.
    Standalone,
}

/// A TanzuKubernetesCluster with its Cluster, or a Cluster without a TanzuKubernetesCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    pub name: String,
    pub namespace: String,
    /// The kind for `layercake describe`: `tkc` or `cluster`.
    pub kind: &'static str,
    /// The reported phase in lower case, or an empty string before the first status.
    pub phase: String,
    /// True if the cluster's reconciliation is paused.
    pub paused: bool,
    pub control_plane: Count,
    pub workers: Count,
    pub kubernetes: String,
    pub role: ClusterRole,
    /// The plan with this number of control plane nodes, as the tanzu command line calls it: `dev` for one, `prod` for
    /// three. Not set for other numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'static str>,
    /// The name of the TanzuKubernetesRelease, or an empty string if the cluster has none yet.
    pub tkr: String,
    /// The labels of the Cluster, or of the TanzuKubernetesCluster until the Cluster exists.
    pub labels: BTreeMap<String, String>,
    pub created: Option<String>,
    /// True if the cluster runs, according to its phase. A Cluster without a TanzuKubernetesCluster runs if it is available
    /// and isn't being deleted.
    #[serde(skip)]
    pub runs: bool,
}

/// The objects that show a cluster's state.
#[derive(Default)]
struct Sources<'a> {
    tkc: Option<&'a DynamicObject>,
    cluster: Option<&'a DynamicObject>,
    /// The KubeadmControlPlane. Empty if the user isn't allowed to read it.
    control_planes: Vec<&'a DynamicObject>,
    deployments: Vec<&'a DynamicObject>,
}

impl ClusterView {
    /// Reads the clusters in one namespace or in all, sorted by namespace and name.
    ///
    /// # Errors
    /// Returns an error if the clusters can't be listed, or if the API server doesn't serve any kind of cluster. Owners of
    /// Machines that can't be listed aren't an error.
    pub async fn read_all(client: &Client, namespace: Option<&str>) -> Result<Vec<Self>> {
        let list = async |kind| dynamic_api_in(client, kind, namespace).list(&ListParams::default()).await;
        let (tkcs, clusters, control_planes, deployments) = tokio::join!(
            list(TANZU_KUBERNETES_CLUSTER),
            list(CLUSTER),
            list(CONTROL_PLANE),
            list(MACHINE_DEPLOYMENT)
        );
        if let (Err(one), Err(other)) = (&tkcs, &clusters)
            && is_not_served(one)
            && is_not_served(other)
        {
            return Err(not_served("serves neither TanzuKubernetesClusters nor Clusters"));
        }
        let tkcs = served(tkcs).context("cannot list TanzuKubernetesClusters")?;
        let clusters = served(clusters).context("cannot list Clusters")?;
        let owners = |list: kube::Result<kube::core::ObjectList<DynamicObject>>| {
            list.map(|list| list.items).unwrap_or_default()
        };
        Ok(Self::all(&tkcs, &clusters, &owners(control_planes), &owners(deployments)))
    }

    /// Marks the cluster as standalone, unless it is a management cluster.
    pub fn set_standalone(&mut self) {
        if self.role == ClusterRole::Workload {
            self.role = ClusterRole::Standalone;
        }
    }

    /// Returns the view of the cluster among these objects, or an empty view without one.
    pub fn of_objects(objects: &Objects) -> Self {
        let all = |kind: &str| objects.get(kind).map_or(&[][..], Vec::as_slice);
        let sources = Sources {
            tkc: all(Root::TanzuKubernetesCluster.kind()).first(),
            cluster: all(Root::Cluster.kind()).first(),
            control_planes: all("KubeadmControlPlane")
                .iter()
                .filter(|all| all.data[UNREAD] != true)
                .collect(),
            deployments: all("MachineDeployment").iter().collect(),
        };
        Self::new(&sources).unwrap_or_default()
    }

    /// A TanzuKubernetesCluster and its Cluster are one cluster.
    fn all(
        tkcs: &[DynamicObject],
        clusters: &[DynamicObject],
        control_planes: &[DynamicObject],
        deployments: &[DynamicObject],
    ) -> Vec<Self> {
        let key = |object: &DynamicObject, name| (object.namespace().unwrap_or_default(), name);
        let mut sources: BTreeMap<_, Sources<'_>> = BTreeMap::new();
        for tkc in tkcs {
            sources.entry(key(tkc, tkc.name_any())).or_default().tkc = Some(tkc);
        }
        for cluster in clusters {
            sources.entry(key(cluster, cluster.name_any())).or_default().cluster = Some(cluster);
        }
        let owner =
            |object: &DynamicObject| Some(key(object, object.labels().get(label::CLUSTER_NAME)?.clone()));
        for object in control_planes {
            if let Some(sources) = owner(object).and_then(|key| sources.get_mut(&key)) {
                sources.control_planes.push(object);
            }
        }
        for object in deployments {
            if let Some(sources) = owner(object).and_then(|key| sources.get_mut(&key)) {
                sources.deployments.push(object);
            }
        }
        sources.values().filter_map(Self::new).collect()
    }

    fn new(sources: &Sources<'_>) -> Option<Self> {
        let root = sources.tkc.or(sources.cluster)?;
        let status = &root.data["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let phase = text(&status["phase"]).to_lowercase();
        let control_plane = count(
            &sources.control_planes,
            wanted_control_plane(sources.tkc),
            sources.cluster,
            "controlPlane",
        );
        let labels = sources.cluster.unwrap_or(root).labels();
        let is_management = labels.contains_key(label::MANAGEMENT_CLUSTER);
        let is_available = || condition(root, capi::AVAILABLE).is_some_and(|found| found["status"] == "True");
        Some(Self {
            name: root.name_any(),
            namespace: root.namespace().unwrap_or_default(),
            kind: if sources.tkc.is_some() { TKC } else { "cluster" },
            paused: pause::of_cluster(sources.tkc, sources.cluster).is_some(),
            role: if is_management { ClusterRole::Management } else { ClusterRole::Workload },
            plan: match control_plane.wanted {
                1 => Some("dev"),
                3 => Some("prod"),
                _ => None,
            },
            tkr: labels.get(label::TKR).cloned().unwrap_or_default(),
            labels: labels.clone(),
            control_plane,
            workers: count(&sources.deployments, wanted_workers(sources.tkc), sources.cluster, "workers"),
            kubernetes: match sources.tkc {
                Some(_) => text(&status["version"]),
                None => text(&root.data["spec"]["topology"]["version"]),
            },
            created: root.creation_timestamp().map(|time| time.0.to_string()),
            runs: match sources.tkc {
                Some(_) => phase == "running",
                None => is_available() && root.metadata.deletion_timestamp.is_none(),
            },
            phase,
        })
    }
}

/// Counts nodes in the owners of their Machines. The Cluster's own counts are only used without owners, because they are
/// updated some seconds later. `asked` is the number of nodes that the TanzuKubernetesCluster asks for.
fn count(
    owners: &[&DynamicObject],
    asked: Option<i64>,
    cluster: Option<&DynamicObject>,
    part: &str,
) -> Count {
    let counted = if owners.is_empty() {
        let of = |field: &str| {
            cluster.and_then(|cluster| cluster.data["status"][part][field].as_i64()).unwrap_or_default()
        };
        Count { ready: of("readyReplicas"), wanted: of("desiredReplicas") }
    } else {
        let sum = |at: fn(&Value) -> &Value| owners.iter().filter_map(|owner| at(&owner.data).as_i64()).sum();
        Count { ready: sum(|o| &o["status"]["readyReplicas"]), wanted: sum(|o| &o["spec"]["replicas"]) }
    };
    Count { wanted: asked.unwrap_or(counted.wanted), ..counted }
}

fn wanted_control_plane(tkc: Option<&DynamicObject>) -> Option<i64> {
    tkc?.data["spec"]["topology"]["controlPlane"]["replicas"].as_i64()
}

/// Returns the sum of the pools' sizes, or `None` if a pool doesn't set `replicas`, because an autoscaler then sets its size.
fn wanted_workers(tkc: Option<&DynamicObject>) -> Option<i64> {
    let topology = tkc?.data["spec"]["topology"].as_object()?;
    let pools = topology.get("nodePools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    pools.iter().map(|pool| pool["replicas"].as_i64()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn cluster(name: &str) -> DynamicObject {
        let status = json!({
            "phase": "Provisioned",
            "controlPlane": {"desiredReplicas": 1, "readyReplicas": 1},
            "workers": {"desiredReplicas": 2, "readyReplicas": 1},
        });
        object(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "status": status,
            "metadata": {"name": name, "namespace": "dev"},
        }))
    }

    fn tkc(name: &str, pool: Value) -> DynamicObject {
        object(json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
            "metadata": {"name": name, "namespace": "dev"},
            "spec": {"topology": {"controlPlane": {"replicas": 3}, "nodePools": [pool]}},
            "status": {"phase": "updating", "version": "v1.36.3+layercake.1"},
        }))
    }

    fn pool(cluster: &str, ready: i64) -> DynamicObject {
        object(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "spec": {"replicas": 4},
            "metadata": {"name": "p", "namespace": "dev", "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
            "status": {"readyReplicas": ready},
        }))
    }

    fn counts(view: &ClusterView) -> String {
        format!("{} {} {} {}", view.name, view.kind, view.control_plane, view.workers)
    }

    #[test]
    fn nodes_are_counted_in_the_owners_of_their_machines() {
        let tkcs = [
            tkc("scaled", json!({"name": "a", "replicas": 9})),
            tkc("autoscaled", json!({"name": "a"})),
            tkc("new", json!({"name": "a"})),
        ];
        let clusters = ["scaled", "autoscaled", "plain"].map(cluster);
        let pools =
            [pool("scaled", 2), pool("scaled", 3), pool("autoscaled", 1), pool("plain", 4), pool("gone", 1)];
        let views = ClusterView::all(&tkcs, &clusters, &[], &pools);
        let counts: Vec<_> = views.iter().map(counts).collect();
        assert_eq!(
            counts,
            ["autoscaled tkc 1/3 1/4", "new tkc 0/3 0/0", "plain cluster 1/1 4/4", "scaled tkc 1/3 5/9"]
        );
    }

    #[tokio::test]
    async fn owners_that_may_not_be_listed_leave_the_counts_of_the_cluster() {
        let items = json!({
            "tanzukubernetesclusters": [], "clusters": [cluster("team")], "machinedeployments": [pool("team", 3)],
        });
        let (client, _) = support::api_server::server(move |request| {
            let path = request.path.split('?').next().unwrap_or_default();
            match items.get(path.rsplit('/').next().unwrap_or_default()) {
                Some(items) => {
                    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
                }
                None => support::api_server::refusal(403, "Forbidden"),
            }
        });
        let views = ClusterView::read_all(&client, Some("dev")).await.unwrap();
        assert_eq!(views.iter().map(counts).collect::<Vec<_>>(), ["team cluster 1/1 3/4"]);
    }

    #[test]
    fn a_user_who_may_not_read_the_control_plane_sees_the_counts_of_the_cluster() {
        let unread = object(json!({"metadata": {"name": "c"}, UNREAD: true}));
        let objects = Objects::from([("KubeadmControlPlane", vec![unread]), ("Cluster", vec![cluster("c")])]);
        assert_eq!(ClusterView::of_objects(&objects).control_plane.to_string(), "1/1");
    }

    #[test]
    fn a_cluster_has_its_role_plan_release_and_labels() {
        let labelled = |labels: Value, replicas: i64| {
            let mut cluster = cluster("c");
            cluster.metadata.labels = serde_json::from_value(labels).unwrap();
            cluster.data["status"]["controlPlane"]["desiredReplicas"] = json!(replicas);
            ClusterView::all(&[], &[cluster], &[], &[]).remove(0)
        };
        let tkr = "v1.36.3---vmware.1-vkr.1";
        let workload = labelled(json!({"run.tanzu.vmware.com/tkr": tkr}), 1);
        assert_eq!(
            (workload.role, workload.plan, workload.tkr.as_str()),
            (ClusterRole::Workload, Some("dev"), tkr)
        );
        assert_eq!(workload.labels.len(), 1);
        let management = labelled(json!({"cluster-role.tkg.tanzu.vmware.com/management": ""}), 3);
        assert_eq!((management.role, management.plan), (ClusterRole::Management, Some("prod")));
        assert_eq!((management.tkr.as_str(), labelled(json!({}), 5).plan), ("", None));
        for (mut view, role) in [(workload, ClusterRole::Standalone), (management, ClusterRole::Management)] {
            view.set_standalone();
            assert_eq!(view.role, role);
        }
        let new = ClusterView::all(&[tkc("new", json!({"name": "a"}))], &[], &[], &[]).remove(0);
        assert_eq!((new.plan, new.labels.is_empty()), (Some("prod"), true));
    }

    #[test]
    fn a_pause_of_either_object_is_shown() {
        let mut below = cluster("team");
        below.data["spec"] = json!({"paused": true});
        let tkcs = [tkc("team", json!({"name": "a"}))];
        assert!(ClusterView::all(&tkcs, &[below], &[], &[])[0].paused);
        assert!(!ClusterView::all(&tkcs, &[cluster("team")], &[], &[])[0].paused);
    }
}
