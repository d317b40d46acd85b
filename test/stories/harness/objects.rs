//! Objects and manifests that several stories apply.

use serde_json::{Value, json};

/// Returns the manifest for a cluster with one control plane node, and one worker in this pool.
pub fn one_and_one(name: &str, pool: &str) -> String {
    format!(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {{name: {name}, namespace: NAMESPACE}}
spec:
  distribution: {{version: v1.35}}
  topology:
    controlPlane: {{replicas: 1, vmClass: best-effort-xsmall, storageClass: gold}}
    nodePools:
    - {{name: {pool}, replicas: 1, vmClass: best-effort-xsmall, storageClass: gold}}
"
    )
}

/// A VM class and a StorageClass for small nodes.
pub const SMALL: [&str; 2] = ["best-effort-small", "gc-storage-profile"];

/// Returns the manifest for a cluster with this release, one control plane node and no workers.
pub fn one_node(name: &str, release: &str, [class, storage]: [&str; 2]) -> String {
    let nodes = format!("vmClass: {class}, storageClass: {storage}");
    manifest(name, release, &format!("replicas: 1, {nodes}"), "")
}

/// Returns the manifest for a cluster with this release, this many control plane nodes, and workers in this pool.
pub fn cluster_of_release(
    name: &str,
    release: &str,
    control_planes: u32,
    (pool, workers): (&str, u32),
) -> String {
    let [class, storage] = SMALL;
    let nodes = format!("vmClass: {class}, storageClass: {storage}");
    let pool = format!("{{name: {pool}, replicas: {workers}, {nodes}}}");
    manifest(name, release, &format!("replicas: {control_planes}, {nodes}"), &pool)
}

/// Returns the manifest for a cluster with this release. `control_plane` and `pools` are in YAML's flow style.
fn manifest(name: &str, release: &str, control_plane: &str, pools: &str) -> String {
    format!(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {{name: {name}, namespace: NAMESPACE}}
spec:
  topology:
    controlPlane: {{{control_plane}, tkr: {{reference: {{name: {release}}}}}}}
    nodePools: [{pools}]
"
    )
}

/// Returns the spec of a control plane, or of a node pool that still needs a name.
pub fn nodes(replicas: u32, class: &str, storage: &str) -> Value {
    json!({"replicas": replicas, "vmClass": class, "storageClass": storage})
}

/// Returns a TanzuKubernetesCluster with a release, given by its prefix, such as `v1.35`.
pub fn cluster(namespace: &str, name: &str, release: &str, control_plane: &Value, pools: &[Value]) -> Value {
    json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "distribution": {"version": release},
            "topology": {"controlPlane": control_plane, "nodePools": pools},
        },
    })
}

/// Returns the patch that upgrades a cluster to a release.
pub fn upgrade(release: &str) -> Value {
    json!({"spec": {"topology": {"controlPlane": {"tkr": {"reference": {"name": release}}}}}})
}

/// Returns a RoleBinding for a ClusterRole.
pub fn role_binding(namespace: &str, name: &str, role: &str, subjects: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    })
}

/// The simulated vCenter's storage policy ID.
pub const POLICY: &str = "aa6d5a82-1c88-45da-85d3-3d74b91a5bad";

/// Returns a StorageClass for the vSphere storage driver, with these parameters unless they are null.
pub fn storage_class(name: &str, parameters: &Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "csi.vsphere.vmware.com",
    });
    if !parameters.is_null() {
        class["parameters"] = parameters.clone();
    }
    class
}

/// Returns a PersistentVolumeClaim with 64 MiB.
pub fn small_claim(namespace: &str, name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "64Mi"}},
        },
    })
}

/// Returns the binding that lets a namespace use a ContentSource.
pub fn content_source_binding(namespace: &str, source: &str) -> Value {
    let group = "vmoperator.vmware.com/v1alpha1";
    json!({
        "apiVersion": group, "kind": "ContentSourceBinding",
        "metadata": {"name": source, "namespace": namespace},
        "contentSourceRef": {"apiVersion": group, "kind": "ContentSource", "name": source},
    })
}
