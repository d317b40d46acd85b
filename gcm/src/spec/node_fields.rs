//! The effect of each field on the nodes of a cluster. This is the only table of these effects.
//!
//! Admission warns of nodes that a change replaces, and recipes digest the fields that replace machines; both read this table.
//! Its functions destructure without `..`, so a new field does not compile before they name it.

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{ControlPlane, NetworkSettings, NodePool, Settings, Volume};
use serde::Serialize;
use serde_json::Value;

use super::groups::{disk_class, zone};
use super::labels::registered_labels;
use super::network::NetworkSpec;

/// The effect of a change of one field on its nodes. It has no `Debug`: the proxy holds a password.
#[derive(Clone, PartialEq)]
pub enum Effect {
    /// All nodes are replaced: the value is part of the recipe of their machines. `None` if the field is empty: a value that joins
    /// a recipe replaces the nodes of existing clusters.
    Replaces(Option<Value>),
    /// Cluster API itself replaces all nodes when this value changes.
    ClusterApiReplaces(Option<Value>),
    /// All nodes are replaced if the cluster's release changes.
    FollowsRelease,
    /// Nodes stay, and the change is applied to them.
    InPlace,
    /// Admission refuses the change.
    Refused,
}

/// One row of the table.
#[derive(Clone, PartialEq)]
pub struct NodeField {
    /// The field, below `spec` or below its group of nodes.
    pub path: &'static str,
    /// The effect of a change.
    pub effect: Effect,
}

impl NodeField {
    fn new(path: &'static str, effect: Effect) -> Self {
        Self { path, effect }
    }

    /// The name of the field without those of its parents.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// The fields that concern all nodes of a cluster.
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
            Effect::Replaces(NetworkSpec::read(spec).proxy.and_then(json)),
        ),
        NodeField::new("settings.network.trust", Effect::Replaces(trust.as_ref().and_then(json))),
        NodeField::new("settings.storage", Effect::InPlace),
        NodeField::new("settings.authentication", Effect::InPlace),
    ]
}

/// The fields of the control plane.
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

/// The fields of a pool. One with another name is another pool.
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

/// Disks, each with its storage class or that of its group.
fn disks(volumes: Option<&[Volume]>, otherwise: &str) -> Option<Value> {
    let complete = |volume: &Volume| Volume {
        storage_class: Some(disk_class(volume, otherwise).to_owned()),
        ..volume.clone()
    };
    let disks: Vec<_> = volumes.unwrap_or_default().iter().map(complete).collect();
    if disks.is_empty() { None } else { json(&disks) }
}
