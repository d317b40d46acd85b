//! Defines how a change to each field affects nodes. This isn't defined anywhere else.
//!
//! Admission warns about nodes that a change replaces, and recipes digest the fields whose change replaces machines. Both use
//! this table. Its functions destructure without `..`, so a new field doesn't compile until they name it.

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{ControlPlane, NetworkSettings, NodePool, Settings, Volume};
use serde::Serialize;
use serde_json::Value;

use super::groups::{disk_class, zone};
use super::labels::registered_labels;
use super::network::ClusterNetwork;

/// The effect of a field change on nodes. Doesn't implement `Debug`, because the proxy can contain a password.
#[derive(Clone, PartialEq)]
pub enum Effect {
    /// Replaces all nodes: the value is part of their machine recipe. `None` if the field is empty, because adding a value to
    /// the recipe would replace nodes in existing clusters.
    Replaces(Option<Value>),
    /// Cluster API replaces all nodes when this value changes.
    ClusterApiReplaces(Option<Value>),
    /// Replaces all nodes if the cluster's release changes.
    FollowsRelease,
    /// Keeps the nodes and applies the change to them.
    InPlace,
    /// Admission denies the change.
    Refused,
}

/// A field, and the effect of changing it.
#[derive(Clone, PartialEq)]
pub struct NodeField {
    /// The path below `spec` or below the node group.
    pub path: &'static str,
    pub effect: Effect,
}

impl NodeField {
    fn new(path: &'static str, effect: Effect) -> Self {
        Self { path, effect }
    }

    /// Returns the last segment of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// Returns the fields that affect all nodes of a cluster.
pub fn cluster_fields(spec: &TanzuKubernetesClusterSpec) -> Vec<NodeField> {
    let TanzuKubernetesClusterSpec { topology: _, distribution: _, settings } = spec;
    let (no_settings, no_network) = (Settings::default(), NetworkSettings::default());
    let Settings { network, storage: _, authentication: _ } = settings.as_ref().unwrap_or(&no_settings);
    let NetworkSettings { cni: _, pods: _, services: _, service_domain: _, proxy: _, trust } =
        network.as_ref().unwrap_or(&no_network);
    vec![
        NodeField::new("distribution", Effect::FollowsRelease),
        NodeField::new("settings.network.cni", Effect::Refused),
        NodeField::new("settings.network.pods", Effect::Refused),
        NodeField::new("settings.network.services", Effect::Refused),
        NodeField::new("settings.network.serviceDomain", Effect::Refused),
        NodeField::new(
            "settings.network.proxy",
            Effect::Replaces(ClusterNetwork::read(spec).proxy.and_then(json)),
        ),
        NodeField::new("settings.network.trust", Effect::Replaces(trust.as_ref().and_then(json))),
        NodeField::new("settings.storage", Effect::InPlace),
        NodeField::new("settings.authentication", Effect::InPlace),
    ]
}

/// Returns the control plane's fields.
pub fn control_plane_fields(group: &ControlPlane) -> Vec<NodeField> {
    let ControlPlane { replicas: _, vm_class, storage_class, volumes, tkr: _, node_drain_timeout: _ } = group;
    vec![
        NodeField::new("replicas", Effect::InPlace),
        NodeField::new("vmClass", Effect::Replaces(json(vm_class))),
        NodeField::new("storageClass", Effect::Replaces(json(storage_class))),
        NodeField::new("volumes", Effect::Replaces(disks(volumes.as_deref(), storage_class))),
        NodeField::new("tkr", Effect::FollowsRelease),
        NodeField::new("nodeDrainTimeout", Effect::InPlace),
    ]
}

/// Returns a pool's fields. The name isn't among them, because it identifies the pool.
pub fn pool_fields(pool: &NodePool) -> Vec<NodeField> {
    let NodePool {
        name: _,
        labels,
        taints,
        failure_domain: _,
        replicas: _,
        vm_class,
        storage_class,
        volumes,
        tkr: _,
        node_drain_timeout: _,
    } = pool;
    let labels = labels.as_ref().map(registered_labels).filter(|labels| !labels.is_empty());
    let taints = taints.as_ref().filter(|taints| !taints.is_empty());
    vec![
        NodeField::new("replicas", Effect::InPlace),
        NodeField::new("vmClass", Effect::Replaces(json(vm_class))),
        NodeField::new("storageClass", Effect::Replaces(json(storage_class))),
        NodeField::new("volumes", Effect::Replaces(disks(volumes.as_deref(), storage_class))),
        NodeField::new("labels", Effect::Replaces(labels.as_ref().and_then(json))),
        NodeField::new("taints", Effect::Replaces(taints.and_then(json))),
        NodeField::new("failureDomain", Effect::ClusterApiReplaces(zone(pool).and_then(json))),
        NodeField::new("tkr", Effect::FollowsRelease),
        NodeField::new("nodeDrainTimeout", Effect::InPlace),
    ]
}

fn json(value: &(impl Serialize + ?Sized)) -> Option<Value> {
    serde_json::to_value(value).ok()
}

/// Returns the volumes, each with its own storage class or the group's (`otherwise`). Returns `None` without volumes.
fn disks(volumes: Option<&[Volume]>, otherwise: &str) -> Option<Value> {
    let complete = |volume: &Volume| Volume {
        storage_class: Some(disk_class(volume, otherwise).to_owned()),
        ..volume.clone()
    };
    let disks: Vec<_> = volumes.unwrap_or_default().iter().map(complete).collect();
    if disks.is_empty() { None } else { json(&disks) }
}
