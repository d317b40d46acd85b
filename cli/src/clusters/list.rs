//! `layercake list`: lists the clusters in one namespace or in all.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::conditions::{self, tkc};
use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, label};
use jiff::Timestamp;
use kit::api_error::is_not_served;
use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;

use super::SCHEMA;
use crate::args::{List, Output};
use crate::connection::{CLUSTER, KindName, api_in, dynamic_api_in, not_served, served};
use crate::describe::pause;
use crate::describe::words::age;
use crate::exit::{ExitStatus, failed};
use crate::follow::progress::{Count, counts_of_cluster};
use crate::output::{align, say, write_json, write_out};
use crate::target::Target;

/// The kind that owns control plane Machines.
const CONTROL_PLANE: KindName =
    ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes");
/// The kind that owns worker Machines.
const MACHINE_DEPLOYMENT: KindName =
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments");

/// Runs `layercake list`.
pub async fn list(args: List) -> ExitStatus {
    let listed = args.target.with(async |target| run(target, &args).await.map(|()| ExitStatus::Done)).await;
    listed.unwrap_or_else(|error| failed(&error))
}

async fn run(target: &Target, args: &List) -> Result<()> {
    let namespace = (!args.all_namespaces).then_some(target.namespace.as_str());
    let tkcs = api_in::<TanzuKubernetesCluster>(&target.client, namespace);
    let clusters = dynamic_api_in(&target.client, CLUSTER, namespace);
    let params = ListParams::default();
    let (tkcs, clusters, control_planes, workers) = tokio::join!(
        tkcs.list(&params),
        clusters.list(&params),
        ready_nodes(&target.client, CONTROL_PLANE, namespace),
        ready_nodes(&target.client, MACHINE_DEPLOYMENT, namespace),
    );
    if let (Err(one), Err(other)) = (&tkcs, &clusters)
        && is_not_served(one)
        && is_not_served(other)
    {
        return Err(not_served("serves neither TanzuKubernetesClusters nor Clusters"));
    }
    let tkcs = served(tkcs).context("cannot list TanzuKubernetesClusters")?;
    let clusters = served(clusters).context("cannot list Clusters")?;
    let mut rows = rows(&tkcs, &clusters);
    for row in &mut rows {
        row.control_plane.ready = control_planes.of(row).unwrap_or(row.control_plane.ready);
        row.workers.ready = workers.of(row).unwrap_or(row.workers.ready);
    }
    match (args.output, namespace) {
        (Some(Output::Json), _) => {
            write_json(&serde_json::json!({"schema": SCHEMA, "clusters": rows}))?;
        }
        (None, Some(namespace)) if rows.is_empty() => {
            say!("Namespace {namespace} has no clusters. -A lists those of all namespaces.");
        }
        (None, None) if rows.is_empty() => say!("There are no clusters."),
        (None, _) => write_out(&table(&rows, Timestamp::now())),
    }
    Ok(())
}

/// The number of ready nodes, by the cluster's namespace and name.
#[derive(Debug, Default)]
struct ReadyNodes(BTreeMap<(String, String), i64>);

impl ReadyNodes {
    fn of(&self, row: &Row) -> Option<i64> {
        self.0.get(&(row.namespace.clone(), row.name.clone())).copied()
    }
}

/// Sums the ready nodes in the status of Machine owners. The result is empty if the owners can't be listed. The
/// Cluster's own status isn't used, because it is updated some seconds later and would contradict what `apply` has
/// shown.
async fn ready_nodes(client: &Client, kind: KindName<'_>, namespace: Option<&str>) -> ReadyNodes {
    let owners = dynamic_api_in(client, kind, namespace).list(&ListParams::default()).await;
    let mut ready = ReadyNodes::default();
    for owner in owners.into_iter().flatten() {
        let Some(cluster) = owner.labels().get(label::CLUSTER_NAME) else { continue };
        let count = owner.data["status"]["readyReplicas"].as_i64().unwrap_or_default();
        *ready.0.entry((owner.namespace().unwrap_or_default(), cluster.clone())).or_default() += count;
    }
    ready
}

/// A row in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    namespace: String,
    /// The kind for `layercake describe`: `tkc` or `cluster`.
    kind: &'static str,
    phase: String,
    /// True if the cluster's reconciliation is paused.
    paused: bool,
    control_plane: Count,
    workers: Count,
    kubernetes: String,
    created: Option<String>,
}

/// Returns the clusters, sorted by namespace and name. A TanzuKubernetesCluster and its Cluster share one row.
fn rows(tkcs: &[TanzuKubernetesCluster], clusters: &[DynamicObject]) -> Vec<Row> {
    let key = |namespace: Option<String>, name: String| (namespace.unwrap_or_default(), name);
    let mut below: BTreeMap<_, _> =
        clusters.iter().map(|cluster| (key(cluster.namespace(), cluster.name_any()), cluster)).collect();
    let mut rows: Vec<_> =
        tkcs.iter().map(|tkc| of_tkc(tkc, below.remove(&key(tkc.namespace(), tkc.name_any())))).collect();
    rows.extend(below.into_values().map(of_cluster));
    rows.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    rows
}

fn of_tkc(object: &TanzuKubernetesCluster, below: Option<&DynamicObject>) -> Row {
    let topology = &object.spec.topology;
    let status = object.status.as_ref();
    let (mut control_plane, mut workers) = below.map(counts_of_cluster).unwrap_or_default();
    control_plane.wanted = topology.control_plane.replicas.unwrap_or(1).into();
    // The size of a pool without replicas isn't known, because an autoscaler sets it.
    if topology.node_pools.iter().all(|pool| pool.replicas.is_some()) {
        workers.wanted = topology.node_pools.iter().filter_map(|pool| pool.replicas).map(i64::from).sum();
    }
    let reported = status.is_some_and(|status| conditions::holds(&status.conditions, tkc::PAUSED));
    Row {
        kind: "tkc",
        paused: reported || is_annotated(&object.metadata) || below.is_some_and(is_paused),
        phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
        control_plane,
        workers,
        kubernetes: status.and_then(|status| status.version.clone()).unwrap_or_default(),
        ..row(object.metadata.clone())
    }
}

fn of_cluster(cluster: &DynamicObject) -> Row {
    let text = |path: &str| cluster.data.pointer(path).and_then(|value| value.as_str()).unwrap_or_default();
    let (control_plane, workers) = counts_of_cluster(cluster);
    Row {
        kind: "cluster",
        paused: is_paused(cluster),
        phase: text("/status/phase").to_lowercase(),
        control_plane,
        workers,
        kubernetes: text("/spec/topology/version").to_owned(),
        ..row(cluster.metadata.clone())
    }
}

fn is_paused(cluster: &DynamicObject) -> bool {
    pause::of_cluster(None, Some(cluster)).is_some()
}

fn is_annotated(metadata: &kube::core::ObjectMeta) -> bool {
    metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::PAUSED))
}

fn row(metadata: kube::core::ObjectMeta) -> Row {
    Row {
        name: metadata.name.unwrap_or_default(),
        namespace: metadata.namespace.unwrap_or_default(),
        kind: "",
        phase: String::new(),
        paused: false,
        control_plane: Count::default(),
        workers: Count::default(),
        kubernetes: String::new(),
        created: metadata.creation_timestamp.map(|time| time.0.to_string()),
    }
}

fn table(rows: &[Row], now: Timestamp) -> String {
    const HEAD: [&str; 8] =
        ["NAME", "NAMESPACE", "KIND", "PHASE", "CONTROL PLANE", "WORKERS", "KUBERNETES", "AGE"];
    let lines = rows.iter().map(|row| {
        let created = row.created.as_deref().unwrap_or_default();
        [
            row.name.clone(),
            row.namespace.clone(),
            row.kind.to_owned(),
            if row.paused {
                format!("{} (paused)", row.phase).trim_start().to_owned()
            } else {
                row.phase.clone()
            },
            row.control_plane.to_string(),
            row.workers.to_string(),
            row.kubernetes.clone(),
            age(created, now),
        ]
    });
    let lines: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(lines).collect();
    let lines: Vec<_> = align(&lines).iter().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str) -> DynamicObject {
        let status = json!({
            "phase": "Provisioned",
            "controlPlane": {"desiredReplicas": 1, "readyReplicas": 1},
            "workers": {"desiredReplicas": 2, "readyReplicas": 1},
        });
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "status": status,
            "metadata": {"name": name, "namespace": "dev", "creationTimestamp": "2026-01-01T00:00:00Z"},
        });
        serde_json::from_value(object).unwrap()
    }

    fn tkc(name: &str, pool: Value) -> TanzuKubernetesCluster {
        serde_json::from_value(json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
            "metadata": {"name": name, "namespace": "dev", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"topology": {"controlPlane": {"replicas": 3}, "nodePools": [pool]}},
            "status": {"phase": "updating", "version": "v1.36.3+layercake.1"},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn nodes_are_counted_where_apply_counts_them() {
        let pool = |ready: i64| {
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
                "metadata": {"name": "p", "namespace": "dev", "labels": {"cluster.x-k8s.io/cluster-name": "team"}},
                "status": {"readyReplicas": ready},
            })
        };
        let items = json!([pool(2), pool(3)]);
        let (client, _) = support::api_server::server(move |request| {
            let is_allowed = request.path.contains("machinedeployments");
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items});
            if is_allowed { (200, list) } else { support::api_server::refusal(403, "Forbidden") }
        });
        let team = of_cluster(&cluster("team"));
        assert_eq!(ready_nodes(&client, MACHINE_DEPLOYMENT, Some("dev")).await.of(&team), Some(5));
        assert_eq!(ready_nodes(&client, CONTROL_PLANE, Some("dev")).await.of(&team), None, "forbidden");
    }

    #[test]
    fn a_cluster_of_both_kinds_is_one_row() {
        let tkcs = [tkc("team", json!({"name": "a", "replicas": 5})), tkc("new", json!({"name": "a"}))];
        let mut team = cluster("team");
        team.data["spec"] = json!({"paused": true});
        let rows = rows(&tkcs, &[team, cluster("plain")]);
        let text = table(&rows, "2026-01-01T00:00:42Z".parse().unwrap());
        insta::assert_snapshot!(text, @"
        NAME    NAMESPACE   KIND      PHASE               CONTROL PLANE   WORKERS   KUBERNETES            AGE
        new     dev         tkc       updating            0/3             0/0       v1.36.3+layercake.1   42s
        plain   dev         cluster   provisioned         1/1             1/2                             42s
        team    dev         tkc       updating (paused)   1/3             1/5       v1.36.3+layercake.1   42s
        ");
    }
}
