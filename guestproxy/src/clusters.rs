//! Finds the cluster that a manager connects to, by the cluster's control plane endpoint.

use std::time::Duration;

use api::capi::{Cluster, KubeadmControlPlane, Machine};
use api::names::label;
use kit::Runtime;
use kit::guest::server;
use kit::index::{self, Index};
use kit::watch::{self, Cache};
use kube::api::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};
use tokio::time::timeout;

/// The maximum time that a connection waits for complete caches after the program has started.
const STARTS: Duration = Duration::from_secs(10);

/// Clusters by endpoint, with their Machine counts.
pub struct Clusters {
    all: Cache<Cluster>,
    by_endpoint: Index<Cluster>,
    machines: Cache<PartialObjectMeta<Machine>>,
    machines_by_cluster: Index<PartialObjectMeta<Machine>>,
}

/// A cluster that a manager connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCluster {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The API server's host, without brackets.
    pub host: String,
    pub port: u16,
    /// True if a KubeadmControlPlane manages the cluster, so that the management cluster contains the cluster's certificate
    /// authority. Other control plane providers can keep the authority to themselves.
    pub is_kubeadm: bool,
}

impl TargetCluster {
    /// Returns the API server's URL.
    pub fn url(&self) -> String {
        server(&self.host, self.port)
    }
}

impl Clusters {
    /// Watches Clusters and Machine metadata.
    pub fn watch(runtime: &Runtime) -> Self {
        let client = || runtime.client.clone();
        Self::new(watch::objects(runtime, Api::all(client())), watch::metadata(runtime, Api::all(client())))
    }

    /// Creates the indexes for these caches.
    pub fn new(clusters: Cache<Cluster>, machines: Cache<PartialObjectMeta<Machine>>) -> Self {
        let by_endpoint = clusters
            .index(|cluster| endpoint(cluster).map(|(host, port)| server(&host, port)).into_iter().collect());
        let machines_by_cluster = machines.index(|machine| {
            let name = machine.labels().get(label::CLUSTER_NAME);
            name.map(|name| index::key(machine.metadata.namespace.as_deref(), name)).into_iter().collect()
        });
        Self { all: clusters, by_endpoint, machines, machines_by_cluster }
    }

    /// Finds the cluster whose API server is at `authority` (`HOST:PORT`). If several clusters match, returns the oldest.
    /// Returns `None` if no cluster matches, or if the caches aren't complete in time.
    pub async fn find(&self, authority: &str) -> Option<TargetCluster> {
        let complete = async {
            self.all.complete().await;
            self.machines.complete().await;
        };
        timeout(STARTS, complete).await.ok()?;
        let found = self.by_endpoint.objects(&format!("https://{authority}"));
        let oldest = found.into_iter().min_by_key(|cluster| {
            (cluster.metadata.creation_timestamp.clone(), cluster.namespace(), cluster.name_any())
        })?;
        let (host, port) = endpoint(&oldest)?;
        Some(TargetCluster {
            namespace: oldest.namespace().unwrap_or_default(),
            name: oldest.name_any(),
            uid: oldest.uid().unwrap_or_default(),
            host,
            port,
            is_kubeadm: is_kubeadm(&oldest),
        })
    }

    /// Returns a cluster's Machine count.
    pub fn machines(&self, target: &TargetCluster) -> usize {
        self.machines_by_cluster.refs(&index::key(Some(&target.namespace), &target.name)).len()
    }

    /// Returns the UIDs of all Clusters.
    pub fn uids(&self) -> Vec<String> {
        self.all.all().iter().filter_map(|cluster| cluster.uid()).collect()
    }
}

fn is_kubeadm(cluster: &Cluster) -> bool {
    let reference = cluster.spec.control_plane_ref.as_ref();
    reference.is_some_and(|reference| reference.kind == KubeadmControlPlane::kind(&()))
}

/// Returns the host and the port of a cluster's API server, or `None` if the Cluster doesn't have a complete endpoint. The host
/// is in lower case and without brackets.
fn endpoint(cluster: &Cluster) -> Option<(String, u16)> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.as_deref()?.trim_matches(['[', ']']).to_ascii_lowercase();
    let port = u16::try_from(endpoint.port?).ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, host: &str, created: &str) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "n", "uid": name, "creationTimestamp": created},
            "spec": {
                "controlPlaneEndpoint": {"host": host, "port": 6443},
                "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name},
            },
        }))
        .unwrap()
    }

    fn machine(name: &str, cluster: &str) -> PartialObjectMeta<Machine> {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "n", "labels": {label::CLUSTER_NAME: cluster}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn finds_the_oldest_cluster_at_an_address_and_no_other_host() {
        let clusters = [
            cluster("young", "10.0.0.1", "2026-02-01T00:00:00Z"),
            cluster("old", "10.0.0.1", "2026-01-01T00:00:00Z"),
            cluster("v6", "fd00::1", "2026-01-01T00:00:00Z"),
        ];
        let machines = [machine("a", "old"), machine("b", "old"), machine("c", "young")];
        let clusters = Clusters::new(Cache::filled(clusters), Cache::filled(machines));
        let old = clusters.find("10.0.0.1:6443").await.unwrap();
        assert_eq!((old.name.as_str(), clusters.machines(&old), old.is_kubeadm), ("old", 2, true));
        assert_eq!(clusters.find("[fd00::1]:6443").await.unwrap().name, "v6");
        for other in ["10.0.0.1:443", "10.0.0.2:6443", "169.254.169.254:80", "localhost:6443", ""] {
            assert_eq!(clusters.find(other).await, None, "{other}");
        }
    }
}
