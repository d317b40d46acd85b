//! Predicts which nodes a change replaces, to warn the author in advance.

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use kube::ResourceExt;

use crate::spec::node_fields::{NodeField, cluster_fields, control_plane_fields, pool_fields};
use crate::spec::release::current_version;

/// A node group in which all nodes are replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Roll {
    /// The path of the group: `spec.topology.controlPlane`, or a pool such as `spec.topology.nodePools[0]`.
    pub field: String,
    /// The number of nodes to replace: the smaller of the counts before and after the change. `None` for an autoscaled pool.
    pub nodes: Option<i32>,
    /// The paths of the changed fields that replace the nodes.
    pub causes: Vec<String>,
}

/// Returns the groups whose nodes are replaced when `old` becomes `new`. Added, removed and empty pools don't count.
pub fn rolls(old: &TanzuKubernetesCluster, new: &TanzuKubernetesCluster) -> Vec<Roll> {
    let mut shared: Vec<String> = release_cause(old, new).into_iter().collect();
    shared.extend(changed("spec", &cluster_fields(&old.spec), &cluster_fields(&new.spec)));
    let (was, is) = (&old.spec.topology, &new.spec.topology);
    let field = "spec.topology.controlPlane".to_owned();
    let own =
        changed(&field, &control_plane_fields(&was.control_plane), &control_plane_fields(&is.control_plane));
    let causes = shared.iter().cloned().chain(own).collect();
    let kept = |before: Option<i32>, after: Option<i32>| Some(before?.min(after?));
    let [before, after] = [was, is].map(|topology| topology.control_plane.replicas.or(Some(1)));
    let mut rolls = vec![Roll { field, nodes: kept(before, after), causes }];
    for (at, pool) in is.node_pools.iter().enumerate() {
        let Some(before) = was.node_pools.iter().find(|before| before.name == pool.name) else { continue };
        let field = format!("spec.topology.nodePools[{at}]");
        let own = changed(&field, &pool_fields(before), &pool_fields(pool));
        let causes = shared.iter().cloned().chain(own).collect();
        rolls.push(Roll { field, nodes: kept(before.replicas, pool.replicas), causes });
    }
    rolls.retain(|roll| !roll.causes.is_empty() && roll.nodes != Some(0));
    rolls
}

fn release_cause(old: &TanzuKubernetesCluster, new: &TanzuKubernetesCluster) -> Option<String> {
    let (from, to) = (current_version(old)?, current_version(new)?);
    (from != to).then(|| format!("the release, from {from} to {to}"))
}

/// Returns the paths of the changed fields that replace nodes. `before` and `after` contain the same fields of `group`, in the
/// same order.
fn changed(group: &str, before: &[NodeField], after: &[NodeField]) -> Vec<String> {
    let rows = std::iter::zip(before, after).filter(|(before, after)| before != after);
    rows.map(|(_, after)| format!("{group}.{}", after.path)).collect()
}

/// Returns a warning for each group whose nodes are replaced, and for each removed pool.
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
    use crate::testing::{changed, issuer, sound};

    /// Returns the warnings for one changed value.
    fn warned(pointer: &str, value: Value) -> Vec<String> {
        let old = sound();
        warnings(&old, &changed(&old, pointer, value))
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
    fn only_nodes_that_exist_are_replaced() {
        let replaced = |before: i32, after: i32| {
            let mut old = sound();
            old.spec.topology.node_pools[0].replicas = Some(before);
            let mut new = old.clone();
            new.spec.topology.node_pools[0].replicas = Some(after);
            new.spec.topology.node_pools[0].vm_class = "large".to_owned();
            rolls(&old, &new).into_iter().map(|roll| roll.nodes).collect::<Vec<_>>()
        };
        assert_eq!(replaced(1, 3), [Some(1)], "two are added");
        assert_eq!(replaced(3, 2), [Some(2)]);
        assert_eq!(replaced(0, 3), []);
    }

    #[test]
    fn what_changes_in_place_is_not_warned_of() {
        let pool = "/spec/topology/nodePools/0";
        for (at, value) in [
            ("/spec/topology/controlPlane/replicas", json!(3)),
            ("/spec/topology/controlPlane/nodeDrainTimeout", json!("5m")),
            ("/spec/settings/storage", json!({"defaultClass": "gold"})),
            ("/spec/settings/authentication", json!({"jwt": [issuer("corp:")]})),
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
