//! Limits on cluster size: node counts and volume sizes.
//!
//! A cluster that already exceeds a limit can still be changed, as long as it doesn't grow.

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::{MAX_NODES, Topology};
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::denial::FieldDenial;
use crate::autoscaling;
use crate::spec::groups::disk_class;
use crate::sync::namespace::OF_STORAGE_CLASS;

/// The ResourceQuota resources of which each node uses one.
const OF_EACH_NODE: [&str; 4] = [
    "count/virtualmachines.vmoperator.vmware.com",
    "count/machines.cluster.x-k8s.io",
    "count/wcpmachines.infrastructure.cluster.vmware.com",
    "count/kubeadmconfigs.bootstrap.cluster.x-k8s.io",
];

/// The ResourceQuota resource for storage, in bytes. The resource for one storage class is prefixed with the class name and
/// [`OF_STORAGE_CLASS`].
const STORAGE: &str = "requests.storage";

/// Returns the number of nodes that a cluster requests. An autoscaled pool counts with its minimum size.
pub fn count_nodes(tkc: &TanzuKubernetesCluster) -> i64 {
    let topology = &tkc.spec.topology;
    let min = min_size(tkc);
    let workers: i64 = topology.node_pools.iter().map(|pool| i64::from(pool.replicas.unwrap_or(min))).sum();
    workers + i64::from(topology.control_plane.replicas.unwrap_or(1))
}

fn min_size(tkc: &TanzuKubernetesCluster) -> i32 {
    autoscaling::bounds(tkc).ok().flatten().map_or(0, |bounds| bounds.min)
}

/// Returns the node count of `new` if the cluster is new or the count is higher than before.
pub fn grown(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Option<i64> {
    Some(count_nodes(new)).filter(|nodes| old.is_none_or(|old| *nodes > count_nodes(old)))
}

/// Returns the denials for a new or growing cluster with more than [`MAX_NODES`] nodes: one for each pool that exceeds this
/// number by itself, or otherwise one for the cluster.
pub(super) fn denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
) -> Vec<FieldDenial> {
    let Some(nodes) = grown(new, old).filter(|nodes| *nodes > MAX_NODES.into()) else { return Vec::new() };
    let pools = new.spec.topology.node_pools.iter().enumerate();
    let large: Vec<_> = pools
        .filter_map(|(at, pool)| {
            let replicas = pool.replicas.filter(|replicas| *replicas > MAX_NODES)?;
            Some(FieldDenial::new(
                format!("spec.topology.nodePools[{at}].replicas"),
                format!("{replicas} nodes are more than the {MAX_NODES} that a cluster can have"),
                format!("Use at most {MAX_NODES}"),
            ))
        })
        .collect();
    if !large.is_empty() {
        return large;
    }
    vec![FieldDenial::new(
        "spec.topology",
        format!("the cluster has {nodes} nodes, more than the {MAX_NODES} that a cluster can have"),
        "Use fewer nodes, or several clusters",
    )]
}

/// Returns the denials for a new or growing cluster whose nodes or volumes exceed the namespace's quotas.
pub fn quota_denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    quotas: &[ResourceQuota],
) -> Vec<FieldDenial> {
    let mut denials = storage_denials(new, old, quotas);
    let Some(nodes) = grown(new, old) else { return denials };
    denials.extend(hard_limits(quotas).filter_map(|(quota, key, hard)| {
        let most = api::Quantity(hard.0.clone()).value().ok()?;
        (OF_EACH_NODE.contains(&key) && i128::from(nodes) > most).then(|| {
            FieldDenial::new(
                "spec.topology",
                format!("the cluster has {nodes} nodes, but ResourceQuota {quota} allows {most} ({key})"),
                "Use fewer nodes, or ask an administrator to raise the quota",
            )
        })
    }));
    denials
}

/// Returns the denials for new or growing volumes that exceed the namespace's storage quotas. Ignores a class whose limit is
/// zero: the class isn't assigned to the namespace, but can be assigned later.
fn storage_denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    quotas: &[ResourceQuota],
) -> Vec<FieldDenial> {
    let bytes = |tkc: &TanzuKubernetesCluster, key: &str| -> i128 {
        let class = key.split_once(OF_STORAGE_CLASS).map(|(class, _)| class);
        let all = volume_bytes(tkc);
        all.iter().filter(|(of, _)| class.is_none_or(|class| class == **of)).map(|(_, bytes)| bytes).sum()
    };
    hard_limits(quotas)
        .filter_map(|(quota, key, hard)| {
            let most = api::Quantity(hard.0.clone()).value().ok().filter(|most| *most > 0)?;
            let is_storage = key == STORAGE || key.ends_with(&format!("{OF_STORAGE_CLASS}{STORAGE}"));
            let wanted = Some(bytes(new, key)).filter(|wanted| is_storage && *wanted > most)?;
            old.is_none_or(|old| wanted > bytes(old, key)).then(|| {
                let wanted = wanted >> 30;
                FieldDenial::new(
                    "spec.topology",
                    format!("the volumes of all nodes have {wanted}Gi, but ResourceQuota {quota} allows {hard} ({key})", hard = hard.0),
                    "Use fewer or smaller volumes, or ask an administrator to raise the quota",
                )
            })
        })
        .collect()
}

/// Returns the total volume size of all nodes, in bytes, by storage class.
fn volume_bytes(tkc: &TanzuKubernetesCluster) -> BTreeMap<String, i128> {
    let Topology { control_plane, node_pools } = &tkc.spec.topology;
    let control_plane = (
        control_plane.replicas.unwrap_or(1),
        control_plane.storage_class.as_str(),
        control_plane.volumes.as_deref(),
    );
    let min = min_size(tkc);
    let pools = node_pools
        .iter()
        .map(|pool| (pool.replicas.unwrap_or(min), pool.storage_class.as_str(), pool.volumes.as_deref()));
    let mut bytes = BTreeMap::new();
    for (nodes, class, volumes) in pools.chain([control_plane]) {
        for volume in volumes.unwrap_or_default() {
            let size = volume.capacity.get("storage").and_then(|size| size.value().ok()).unwrap_or_default();
            let total: &mut i128 = bytes.entry(disk_class(volume, class).to_owned()).or_default();
            *total = total.saturating_add(size.saturating_mul(nodes.into()));
        }
    }
    bytes
}

/// Returns the limits of quotas without scopes, as triples of quota name, resource and amount.
fn hard_limits(quotas: &[ResourceQuota]) -> impl Iterator<Item = (String, &str, &Quantity)> {
    quotas.iter().flat_map(|quota| {
        let spec = quota.spec.as_ref().filter(|spec| spec.scopes.is_none() && spec.scope_selector.is_none());
        let hard = spec.and_then(|spec| spec.hard.as_ref()).into_iter().flat_map(BTreeMap::iter);
        hard.map(|(key, amount)| (quota.name_any(), key.as_str(), amount))
    })
}

#[cfg(test)]
mod tests {
    use api::names::annotation;
    use serde_json::{from_value, json};

    use super::super::validate;
    use super::*;
    use crate::testing::{SITE_VERSIONS, available, sound};

    fn sized(replicas: &[Option<i32>]) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        let pool = tkc.spec.topology.node_pools.remove(0);
        tkc.spec.topology.node_pools = replicas
            .iter()
            .enumerate()
            .map(|(at, replicas)| api::gcm::parts::NodePool {
                name: format!("p{at}"),
                replicas: *replicas,
                ..pool.clone()
            })
            .collect();
        tkc
    }

    fn texts(denials: &[FieldDenial]) -> Vec<String> {
        denials.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cluster_has_at_most_as_many_nodes_as_kubernetes_supports() {
        let refused = |tkc: &TanzuKubernetesCluster, old| texts(&denials(tkc, old));
        let million = sized(&[Some(1_000_000)]);
        assert_eq!(
            refused(&million, None),
            [
                "spec.topology.nodePools[0].replicas: 1000000 nodes are more than the 5000 that a cluster can have. Use at most 5000."
            ]
        );
        assert_eq!(
            refused(&sized(&[Some(3000), Some(2000)]), None),
            [
                "spec.topology: the cluster has 5001 nodes, more than the 5000 that a cluster can have. Use fewer nodes, or several clusters."
            ]
        );
        assert_eq!(refused(&sized(&[Some(4999)]), None), [""; 0]);
        assert_eq!(
            refused(&sized(&[Some(999_999)]), Some(&million)),
            [""; 0],
            "it was stored before the limit"
        );
    }

    #[test]
    fn a_pool_that_is_scaled_by_others_counts_with_its_minimum() {
        let mut tkc = sized(&[None, None, Some(3)]);
        assert_eq!(count_nodes(&tkc), 4);
        let mut bounds = |min: &str, max: &str| {
            tkc.annotations_mut().insert(annotation::AUTOSCALER_MIN_SIZE.to_owned(), min.to_owned());
            tkc.annotations_mut().insert(annotation::AUTOSCALER_MAX_SIZE.to_owned(), max.to_owned());
            let words = texts(&validate(&tkc, None, &available(&SITE_VERSIONS)));
            (count_nodes(&tkc), words.iter().any(|words| words.contains("5000")))
        };
        assert_eq!(bounds("2", "100"), (8, false));
        assert_eq!(bounds("2000", "3000"), (4004, false));
        assert_eq!(bounds("2", "5001"), (8, true), "the maximum of each pool");
        assert_eq!(bounds("2500", "2500"), (5004, true), "the minimum of all pools");
    }

    #[test]
    fn a_cluster_that_a_quota_can_never_hold_is_refused() {
        let quotas: Vec<ResourceQuota> = from_value(json!([
            {"metadata": {"name": "objects"}, "spec": {"hard": {
                "count/virtualmachines.vmoperator.vmware.com": "5", "count/secrets": "1", "pods": "1",
            }}},
            {"metadata": {"name": "of-pods"}, "spec": {"scopes": ["Terminating"], "hard": {"count/machines.cluster.x-k8s.io": "1"}}},
        ]))
        .unwrap();
        let refused = |replicas, old: Option<i32>| {
            let old = old.map(|old| sized(&[Some(old)]));
            texts(&quota_denials(&sized(&[Some(replicas)]), old.as_ref(), &quotas))
        };
        assert_eq!(refused(4, None), [""; 0]);
        assert_eq!(
            refused(5, Some(1)),
            [
                "spec.topology: the cluster has 6 nodes, but ResourceQuota objects allows 5 (count/virtualmachines.vmoperator.vmware.com). Use fewer nodes, or ask an administrator to raise the quota."
            ]
        );
        assert_eq!(refused(6, Some(7)), [""; 0], "the quota came later");
    }

    #[test]
    fn volumes_that_a_quota_can_never_hold_are_refused() {
        let quotas: Vec<ResourceQuota> = from_value(json!([
            {"metadata": {"name": "classes"}, "spec": {"hard": {
                "gold.storageclass.storage.k8s.io/requests.storage": "1Ti", "lead.storageclass.storage.k8s.io/requests.storage": "0",
                "requests.storage": "3Ti", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            }}},
        ]))
        .unwrap();
        let sized = |size: &str, class: Option<&str>| {
            let mut tkc = sized(&[Some(2)]);
            let volume = json!([{"name": "a", "mountPath": "/data", "capacity": {"storage": size}, "storageClass": class}]);
            tkc.spec.topology.node_pools[0].volumes = from_value(volume).unwrap();
            tkc
        };
        let refused = |size, class| texts(&quota_denials(&sized(size, class), None, &quotas));
        assert_eq!(refused("512Gi", None), [""; 0]);
        assert_eq!(
            refused("513Gi", None),
            [
                "spec.topology: the volumes of all nodes have 1026Gi, but ResourceQuota classes allows 1Ti (gold.storageclass.storage.k8s.io/requests.storage). Use fewer or smaller volumes, or ask an administrator to raise the quota."
            ]
        );
        assert_eq!(refused("1Ti", Some("lead")), [""; 0], "it waits for its class");
        assert_eq!(refused("2Ti", Some("lead")).len(), 1, "the quota of all classes");
        let large = sized("2Ti", None);
        assert_eq!(texts(&quota_denials(&large, Some(&large), &quotas)), [""; 0]);
    }
}
