//! Converts a v1alpha1 spec to the hub, and back.

use serde_json::Value;

use super::{Becomes, Hub, Old, hub, old, status};
use crate::gcm::parts::{Distribution, Tkr};
use crate::names::{release_name, release_version};

/// The name of the node pool for v1alpha1's only worker group.
const WORKERS: &str = "workers";

impl Becomes<Hub> for Old {
    fn spec(
        spec: &old::TanzuKubernetesClusterSpec,
        kept: Option<&hub::TanzuKubernetesClusterSpec>,
    ) -> hub::TanzuKubernetesClusterSpec {
        let plain = to_hub(spec);
        match kept {
            Some(kept) => merged(plain, spec, kept),
            None => plain,
        }
    }

    fn status(status: &old::TanzuKubernetesClusterStatus) -> hub::TanzuKubernetesClusterStatus {
        status::to_hub(status)
    }

    fn remove_defaults(spec: &Value, converted: &mut Value) {
        let nodes = &spec["topology"];
        let Some(topology) = converted.get_mut("topology").and_then(Value::as_object_mut) else { return };
        remove_missing(&nodes["controlPlane"], topology.get_mut("controlPlane"), &NODE_FIELDS);
        let pools = topology.get_mut("nodePools").and_then(Value::as_array_mut);
        if let Some(workers) = nodes.get("workers") {
            remove_missing(workers, pools.and_then(|pools| pools.first_mut()), &NODE_FIELDS);
        } else if let Some(pools) = pools {
            pools.drain(..1.min(pools.len()));
            if pools.is_empty() {
                topology.remove("nodePools");
            }
        }
        remove_empty(converted);
    }
}

impl Becomes<Old> for Hub {
    /// The hub can represent every v1alpha1 spec, so a kept spec isn't needed.
    fn spec(
        spec: &hub::TanzuKubernetesClusterSpec,
        _kept: Option<&old::TanzuKubernetesClusterSpec>,
    ) -> old::TanzuKubernetesClusterSpec {
        from_hub(spec)
    }

    fn status(status: &hub::TanzuKubernetesClusterStatus) -> old::TanzuKubernetesClusterStatus {
        status::from_hub(status)
    }

    fn remove_defaults(spec: &Value, converted: &mut Value) {
        let nodes = &spec["topology"];
        let Some(topology) = converted.get_mut("topology").and_then(Value::as_object_mut) else { return };
        remove_missing(&nodes["controlPlane"], topology.get_mut("controlPlane"), &HUB_FIELDS);
        match nodes.get("nodePools") {
            None => drop(topology.remove("workers")),
            Some(pools) => {
                let pool = pools.get(0);
                let workers = topology.get_mut("workers").filter(|_| pool.is_some());
                remove_missing(pool.unwrap_or(&Value::Null), workers, &HUB_FIELDS);
            }
        }
        if is_empty(&nodes["controlPlane"]) {
            topology.remove("controlPlane");
        }
        remove_empty(converted);
    }
}

/// The required fields of a node group, each as its name in v1alpha1 and its name in the hub.
const NODE_FIELDS: [(&str, &str); 3] =
    [("count", "replicas"), ("class", "vmClass"), ("storageClass", "storageClass")];

/// The required hub fields without which the v1alpha1 field is removed, each as its name in the hub and its name in v1alpha1.
/// `replicas` is not in the list, because without it, `count` is 1.
const HUB_FIELDS: [(&str, &str); 2] = [("vmClass", "class"), ("storageClass", "storageClass")];

/// Removes fields from `to` whose counterparts are missing in `from`. Each pair in `fields` names a field in `from` and its
/// counterpart in `to`.
fn remove_missing(from: &Value, to: Option<&mut Value>, fields: &[(&str, &str)]) {
    let Some(to) = to.and_then(Value::as_object_mut) else { return };
    to.retain(|name, _| fields.iter().all(|(source, target)| name != target || from.get(source).is_some()));
}

/// Removes groups without fields from the topology, and then an empty topology.
fn remove_empty(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    if let Some(topology) = spec.get_mut("topology").and_then(Value::as_object_mut) {
        topology.retain(|_, group| !is_empty(group));
        if topology.is_empty() {
            spec.remove("topology");
        }
    }
}

/// Returns true for null and for an object without members.
fn is_empty(value: &Value) -> bool {
    value.as_object().map_or(value.is_null(), serde_json::Map::is_empty)
}

fn to_hub(spec: &old::TanzuKubernetesClusterSpec) -> hub::TanzuKubernetesClusterSpec {
    let old::TanzuKubernetesClusterSpec { topology, distribution, settings } = spec;
    let tkr = release_of(distribution);
    let old::Nodes { count, class, storage_class, volumes } = &topology.control_plane;
    let control_plane = hub::ControlPlane {
        replicas: Some(*count),
        vm_class: class.clone(),
        storage_class: storage_class.clone(),
        volumes: volumes.clone(),
        tkr: tkr.clone(),
        node_drain_timeout: None,
    };
    let old::Nodes { count, class, storage_class, volumes } = &topology.workers;
    let workers = hub::NodePool {
        name: WORKERS.to_owned(),
        labels: None,
        taints: None,
        failure_domain: None,
        replicas: Some(*count),
        vm_class: class.clone(),
        storage_class: storage_class.clone(),
        volumes: volumes.clone(),
        tkr,
        node_drain_timeout: None,
    };
    hub::TanzuKubernetesClusterSpec {
        topology: hub::Topology { control_plane, node_pools: vec![workers] },
        distribution: Some(distribution.clone())
            .filter(|distribution| *distribution != Distribution::default()),
        settings: settings.clone(),
    }
}

/// Returns a reference to the release with the distribution's full version, or `None` if the full version isn't set.
fn release_of(distribution: &Distribution) -> Option<Tkr> {
    let full = distribution.full_version.as_deref().filter(|full| !full.is_empty())?;
    Some(Tkr::named(release_name(full)))
}

fn from_hub(spec: &hub::TanzuKubernetesClusterSpec) -> old::TanzuKubernetesClusterSpec {
    let hub::TanzuKubernetesClusterSpec { topology, distribution, settings } = spec;
    let hub::Topology { control_plane, node_pools } = topology;
    let workers = node_pools.first().map_or_else(old::Nodes::default, |pool| old::Nodes {
        // A pool without replicas, which an autoscaler scales, starts with one node.
        count: pool.replicas.unwrap_or(1),
        class: pool.vm_class.clone(),
        storage_class: pool.storage_class.clone(),
        volumes: pool.volumes.clone(),
    });
    let control_plane_nodes = old::Nodes {
        count: control_plane.replicas.unwrap_or(1),
        class: control_plane.vm_class.clone(),
        storage_class: control_plane.storage_class.clone(),
        volumes: control_plane.volumes.clone(),
    };
    let mut distribution = distribution.clone().unwrap_or_default();
    if distribution.full_version.as_deref().is_none_or(str::is_empty)
        && let Some(name) = control_plane.tkr.as_ref().and_then(Tkr::name)
    {
        distribution.full_version = Some(release_version(name));
    }
    old::TanzuKubernetesClusterSpec {
        topology: old::Topology { control_plane: control_plane_nodes, workers },
        distribution,
        settings: settings.clone(),
    }
}

/// Adds the values that v1alpha1 can't represent to a hub spec. `plain` is the hub spec that was converted from the v1alpha1 spec
/// `now`, and `kept` is the earlier hub spec with these values.
fn merged(
    mut plain: hub::TanzuKubernetesClusterSpec,
    now: &old::TanzuKubernetesClusterSpec,
    kept: &hub::TanzuKubernetesClusterSpec,
) -> hub::TanzuKubernetesClusterSpec {
    let before = from_hub(kept);
    let same_version = now.distribution == before.distribution;
    let tkr = plain.topology.control_plane.tkr.clone();
    if same_version {
        plain.distribution.clone_from(&kept.distribution);
    }

    let control_plane = &mut plain.topology.control_plane;
    let kept_control_plane = &kept.topology.control_plane;
    control_plane.node_drain_timeout.clone_from(&kept_control_plane.node_drain_timeout);
    if now.topology.control_plane.count == before.topology.control_plane.count {
        control_plane.replicas = kept_control_plane.replicas;
    }
    if same_version {
        control_plane.tkr.clone_from(&kept_control_plane.tkr);
    }

    let mut pools = kept.topology.node_pools.clone();
    match (pools.first_mut(), plain.topology.node_pools.first()) {
        (Some(pool), Some(workers)) => {
            if now.topology.workers.count != before.topology.workers.count {
                pool.replicas = workers.replicas;
            }
            pool.vm_class.clone_from(&workers.vm_class);
            pool.storage_class.clone_from(&workers.storage_class);
            pool.volumes.clone_from(&workers.volumes);
        }
        (None, Some(workers)) if now.topology.workers != before.topology.workers => {
            pools.push(workers.clone());
        }
        _ => {}
    }
    if !same_version {
        // v1alpha1 has a single version for all nodes.
        for pool in &mut pools {
            pool.tkr.clone_from(&tkr);
        }
    }
    plain.topology.node_pools = pools;
    plain
}
