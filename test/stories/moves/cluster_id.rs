//! The cluster ID, which the TanzuKubernetesCluster and the guest show before and after a move.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use serde_json::json;

use crate::harness::story::{SOON, Story, merge};

/// A bundle that moves with its clusters, and writes the ID into the guest.
pub const BUNDLE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: cluster-id
  namespace: NAMESPACE
  labels: {tkg.tanzu.vmware.com/addon-name: cluster-id, clusterctl.cluster.x-k8s.io/move: ""}
data:
  id.yaml.jinja: |
    {apiVersion: v1, kind: ConfigMap, metadata: {name: cluster-id, namespace: default}, data: {id: "{{ cluster_id }}"}}
"#;

/// The cluster ID, and the API for the guest's ConfigMap that contains it.
pub struct ClusterId {
    id: String,
    maps: Api<ConfigMap>,
}

impl ClusterId {
    const ANNOTATION: &str = "run.tanzu.vmware.com/cluster-id";

    pub async fn find(story: &Story) -> Self {
        let cluster = story.get("TanzuKubernetesCluster", "mover").await.unwrap();
        let id = cluster["metadata"]["uid"].as_str().unwrap().to_owned();
        assert_eq!(cluster["metadata"]["annotations"][Self::ANNOTATION], id.as_str());
        let named = Self { id, maps: Api::default_namespaced(story.guest_client("mover").await) };
        named.wait_until_rendered(story).await;
        named
    }

    /// Checks that the moved TanzuKubernetesCluster has another UID, and that gcm writes the same ID into the guest.
    pub async fn assert_same(&self, story: &Story, clusters: &Api<DynamicObject>) {
        let cluster = clusters.get("mover").await.unwrap();
        assert_ne!(cluster.uid().as_ref(), Some(&self.id));
        assert_eq!(cluster.annotations()[Self::ANNOTATION], self.id);
        merge(&self.maps, "cluster-id", json!({"data": {"id": "another"}})).await.unwrap();
        self.wait_until_rendered(story).await;
    }

    async fn wait_until_rendered(&self, story: &Story) {
        let has = |map: ConfigMap| map.data.is_some_and(|data| data.get("id") == Some(&self.id));
        let rendered = async || self.maps.get("cluster-id").await.is_ok_and(has);
        story.wait_until("the guest has the id of the cluster", SOON, rendered).await;
    }
}
