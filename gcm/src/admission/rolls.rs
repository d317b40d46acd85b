//! Which nodes a change replaces: what a cluster's author learns before it happens.

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::{NodePool, Volume};
use api::names::annotation;
use kube::ResourceExt;

use super::network::{network, proxy};
use super::nodes::{kubelet_may_set, machine_label_reaches_node};
use super::version::current_version;

/// A group of nodes that are all replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Roll {
    /// The group: `spec.topology.controlPlane`, or a pool such as `spec.topology.nodePools[0]`.
    pub field: String,
    /// How many nodes it has, as far as its author says.
    pub nodes: Option<i32>,
    /// The fields whose change replaces them.
    pub causes: Vec<String>,
}

/// The groups whose nodes are replaced when `old` becomes `new`. A pool that joins or goes is none of them.
pub fn rolls(old: &TanzuKubernetesCluster, new: &TanzuKubernetesCluster) -> Vec<Roll> {
    let shared = shared_causes(old, new);
    let (was, is) = (&old.spec.topology, &new.spec.topology);
    let field = "spec.topology.controlPlane".to_owned();
    let (before, after) = (&was.control_plane, &is.control_plane);
    let mut causes = shared.clone();
    let of_control_plane = [
        ("vmClass", before.vm_class != after.vm_class),
        ("storageClass", before.storage_class != after.storage_class),
        (
            "volumes",
            disks(before.volumes.as_deref(), &before.storage_class)
                != disks(after.volumes.as_deref(), &after.storage_class),
        ),
    ];
    causes.extend(changed(&field, &of_control_plane));
    let mut rolls = vec![Roll { field, nodes: Some(after.replicas.unwrap_or(1)), causes }];
    for (at, pool) in is.node_pools.iter().enumerate() {
        let Some(before) = was.node_pools.iter().find(|before| before.name == pool.name) else { continue };
        let field = format!("spec.topology.nodePools[{at}]");
        let causes = shared.iter().cloned().chain(pool_causes(&field, before, pool)).collect();
        rolls.push(Roll { field, nodes: pool.replicas, causes });
    }
    rolls.retain(|roll| !roll.causes.is_empty() && roll.nodes != Some(0));
    rolls
}

/// What replaces the nodes of every group.
fn shared_causes(old: &TanzuKubernetesCluster, new: &TanzuKubernetesCluster) -> Vec<String> {
    let (before, after) = (network(&old.spec), network(&new.spec));
    let mut causes = Vec::new();
    if let (Some(from), Some(to)) = (current_version(old), current_version(new))
        && from != to
    {
        causes.push(format!("the release, from {from} to {to}"));
    }
    for (field, differs) in [
        ("proxy", proxy(&old.spec) != proxy(&new.spec)),
        ("trust", before.and_then(|n| n.trust.as_ref()) != after.and_then(|n| n.trust.as_ref())),
    ] {
        causes.extend(differs.then(|| format!("spec.settings.network.{field}")));
    }
    causes
}

fn pool_causes(field: &str, before: &NodePool, after: &NodePool) -> Vec<String> {
    let NodePool {
        name: _,
        labels,
        taints,
        failure_domain,
        replicas: _,
        vm_class,
        storage_class,
        volumes,
        tkr: _,
        node_drain_timeout: _,
    } = after;
    let taints_of = |pool: &NodePool| pool.taints.clone().unwrap_or_default();
    let causes = [
        ("vmClass", before.vm_class != *vm_class),
        ("storageClass", before.storage_class != *storage_class),
        (
            "volumes",
            disks(before.volumes.as_deref(), &before.storage_class)
                != disks(volumes.as_deref(), storage_class),
        ),
        ("labels", registered(before.labels.as_ref()) != registered(labels.as_ref())),
        ("taints", taints_of(before) != taints.clone().unwrap_or_default()),
        ("failureDomain", zone(before.failure_domain.as_ref()) != zone(failure_domain.as_ref())),
    ];
    changed(field, &causes)
}

fn changed(group: &str, causes: &[(&str, bool)]) -> Vec<String> {
    causes.iter().filter(|(_, differs)| *differs).map(|(field, _)| format!("{group}.{field}")).collect()
}

/// Disks with the class that each comes to.
fn disks(volumes: Option<&[Volume]>, otherwise: &str) -> Vec<Volume> {
    let complete = |volume: &Volume| {
        let class = volume.storage_class.clone().filter(|class| !class.is_empty());
        Volume { storage_class: Some(class.unwrap_or_else(|| otherwise.to_owned())), ..volume.clone() }
    };
    volumes.unwrap_or_default().iter().map(complete).collect()
}

/// No zone may be written as an empty one.
fn zone(failure_domain: Option<&String>) -> Option<&String> {
    failure_domain.filter(|zone| !zone.is_empty())
}

/// The labels that a kubelet registers its node with; Cluster API copies the others to nodes that are there.
fn registered(labels: Option<&BTreeMap<String, String>>) -> BTreeMap<&String, &String> {
    let registers = |key: &str| kubelet_may_set(key) && !machine_label_reaches_node(key);
    labels.into_iter().flatten().filter(|(key, _)| registers(key)).collect()
}

/// A warning for each group whose nodes a change replaces, and for pools whose nodes go.
pub fn warnings(old: &TanzuKubernetesCluster, new: &TanzuKubernetesCluster) -> Vec<String> {
    let mut warnings: Vec<String> = rolls(old, new)
        .into_iter()
        .map(|Roll { field, nodes, causes }| {
            let nodes = match nodes {
                Some(1) => "its node will be replaced".to_owned(),
                Some(nodes) => format!("its {nodes} nodes will be replaced, one after another"),
                None => "its nodes will be replaced, one after another".to_owned(),
            };
            format!("{field}: {nodes}, because of: {}", causes.join(", "))
        })
        .collect();
    let pools = |tkc: &TanzuKubernetesCluster| tkc.spec.topology.node_pools.clone();
    let stays = |name: &str| pools(new).iter().any(|pool| pool.name == name);
    warnings.extend(pools(old).iter().filter(|pool| !stays(&pool.name)).map(|pool| {
        format!(
            "spec.topology.nodePools: pool {:?} is removed: its nodes will be drained and deleted",
            pool.name
        )
    }));
    let image = |tkc: &TanzuKubernetesCluster| tkc.annotations().get(annotation::RESOLVE_OS_IMAGE).cloned();
    if image(old) != image(new) {
        warnings.push(format!(
            "metadata.annotations[{}]: all nodes will be replaced if the image that they run does not match it",
            annotation::RESOLVE_OS_IMAGE
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::sound;

    /// What the change of one place is warned of.
    fn warned(pointer: &str, value: Value) -> Vec<String> {
        let old = sound();
        let mut new = serde_json::to_value(&old).unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        new.pointer_mut(parent).unwrap()[key] = value;
        warnings(&old, &serde_json::from_value(new).unwrap())
    }

    #[test]
    fn what_replaces_nodes_is_warned_of() {
        let pool = "/spec/topology/nodePools/0";
        let disk = json!([{"name": "d", "mountPath": "/d", "capacity": {"storage": "1Gi"}}]);
        let changes = [
            ("/spec/topology/controlPlane/vmClass", json!("large")),
            ("/spec/topology/controlPlane/volumes", disk),
            ("/spec/topology/controlPlane/tkr/reference/name", json!("v1.34.2---vmware.1-vkr.1")),
            ("/spec/settings/network/proxy", json!({"httpProxy": "http://u:secret@p"})),
            ("/spec/settings/network/trust", json!({"additionalTrustedCAs": []})),
            (&format!("{pool}/storageClass"), json!("silver")),
            (&format!("{pool}/labels"), json!({"tier": "x"})),
            (&format!("{pool}/taints"), json!([{"key": "a", "effect": "NoSchedule"}])),
            (&format!("{pool}/failureDomain"), json!("zone-2")),
            ("/spec/topology/nodePools", json!([])),
        ];
        let all: Vec<(String, Vec<String>)> =
            changes.into_iter().map(|(at, value)| (at.to_owned(), warned(at, value))).collect();
        assert!(all.iter().all(|(_, warnings)| !warnings.is_empty()), "{all:?}");
        assert!(!format!("{all:?}").contains("secret"));
        insta::assert_debug_snapshot!(all);
    }

    #[test]
    fn what_changes_in_place_is_not_warned_of() {
        let pool = "/spec/topology/nodePools/0";
        for (at, value) in [
            ("/spec/topology/controlPlane/replicas", json!(3)),
            ("/spec/topology/controlPlane/nodeDrainTimeout", json!("5m")),
            ("/spec/settings/storage", json!({"defaultClass": "gold"})),
            (&format!("{pool}/replicas"), json!(5)),
            (&format!("{pool}/taints"), json!([])),
            (&format!("{pool}/failureDomain"), json!("")),
            ("/spec/settings/network/proxy", json!({})),
            (&format!("{pool}/labels"), json!({"node-role.kubernetes.io/gpu": ""})),
        ] {
            assert_eq!(warned(at, value), Vec::<String>::new(), "{at}");
        }
    }
}
