//! Annotations that a cluster autoscaler reads from a MachineDeployment: the minimum and maximum pool size, and node labels and
//! taints, which the autoscaler needs to scale up from zero.
//!
//! The bounds are annotations on the TanzuKubernetesCluster, with the autoscaler's annotation keys. They apply to each pool
//! that doesn't set replicas. Without them, gcm doesn't touch bounds that users set on the MachineDeployments. Source: the
//! Cluster API provider of cluster-autoscaler.

use std::collections::BTreeMap;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::NodePool;
use api::names::annotation;
use k8s_openapi::api::core::v1::Taint;
use kube::ResourceExt;

/// The annotation keys for the bounds, minimum first.
pub const BOUNDS: [&str; 2] = [annotation::AUTOSCALER_MIN_SIZE, annotation::AUTOSCALER_MAX_SIZE];

/// The minimum and maximum pool size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: i32,
    pub max: i32,
}

/// Returns a cluster's pool size bounds, or `None` if they aren't set. Fails with the key of the faulty annotation and the
/// reason.
pub fn bounds(tkc: &TanzuKubernetesCluster) -> Result<Option<Bounds>, (&'static str, String)> {
    let [min, max] = BOUNDS.map(|key| (key, tkc.annotations().get(key)));
    match (min, max) {
        ((_, None), (_, None)) => Ok(None),
        ((key, None), (given, Some(_))) | ((given, Some(_)), (key, None)) => {
            Err((given, format!("it has no effect without {key}")))
        }
        ((min_key, Some(min)), (max_key, Some(max))) => {
            let bounds = Bounds { min: size(min_key, min)?, max: size(max_key, max)? };
            if bounds.min > bounds.max {
                return Err((max_key, format!("{max} is less than the {min} of {min_key}")));
            }
            Ok(Some(bounds))
        }
    }
}

fn size(key: &'static str, text: &str) -> Result<i32, (&'static str, String)> {
    let size = text.parse().ok().filter(|size| *size >= 0);
    size.ok_or_else(|| (key, format!("{text:?} is not a number of nodes")))
}

/// Returns the autoscaler annotations for a pool's MachineDeployment, or an empty map if the pool sets replicas. Invalid bounds
/// are skipped, because objects that were stored before admission checked them can contain such bounds.
pub fn annotations(tkc: &TanzuKubernetesCluster, pool: &NodePool) -> BTreeMap<String, String> {
    if pool.replicas.is_some() {
        return BTreeMap::new();
    }
    let bounds = bounds(tkc).ok().flatten();
    let sizes = bounds.into_iter().flat_map(|Bounds { min, max }| {
        BOUNDS.into_iter().zip([min, max]).map(|(key, size)| (key.to_owned(), size.to_string()))
    });
    let labels = pool.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let taints = pool.taints.iter().flatten().map(taint);
    let nodes = [
        (annotation::AUTOSCALER_LABELS, labels.collect::<Vec<_>>().join(",")),
        (annotation::AUTOSCALER_TAINTS, taints.collect::<Vec<_>>().join(",")),
    ];
    let nodes = nodes.into_iter().filter(|(_, text)| !text.is_empty());
    sizes.chain(nodes.map(|(key, text)| (key.to_owned(), text))).collect()
}

fn taint(taint: &Taint) -> String {
    let Taint { key, value, effect, time_added: _ } = taint;
    match value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{key}={value}:{effect}"),
        None => format!("{key}:{effect}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sound;

    fn with(min: Option<&str>, max: Option<&str>) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        let given = BOUNDS.into_iter().zip([min, max]);
        tkc.annotations_mut()
            .extend(given.filter_map(|(key, text)| Some((key.to_owned(), text?.to_owned()))));
        tkc
    }

    #[test]
    fn bounds_are_two_numbers_in_their_order() {
        let read = |min, max| bounds(&with(min, max));
        assert_eq!(read(None, None), Ok(None));
        assert_eq!(read(Some("0"), Some("5")), Ok(Some(Bounds { min: 0, max: 5 })));
        assert_eq!(read(Some("2"), Some("2")), Ok(Some(Bounds { min: 2, max: 2 })));
        let [min, max] = BOUNDS;
        assert_eq!(read(Some("0"), None), Err((min, format!("it has no effect without {max}"))));
        assert_eq!(read(None, Some("1")), Err((max, format!("it has no effect without {min}"))));
        assert_eq!(read(Some("3"), Some("2")), Err((max, format!("2 is less than the 3 of {min}"))));
        for text in ["", "-1", "many", "1.5", "99999999999"] {
            assert_eq!(read(Some("0"), Some(text)), Err((max, format!("{text:?} is not a number of nodes"))));
        }
    }

    #[test]
    fn a_pool_whose_size_is_left_to_others_has_bounds_and_says_what_its_nodes_are_like() {
        let tkc = with(Some("0"), Some("5"));
        let mut pool = tkc.spec.topology.node_pools[0].clone();
        pool.replicas = None;
        pool.labels =
            Some([("tier".to_owned(), "batch".to_owned()), ("zone".to_owned(), "a".to_owned())].into());
        let taint = |value: Option<&str>| Taint {
            key: "dedicated".into(),
            value: value.map(Into::into),
            effect: "NoSchedule".into(),
            time_added: None,
        };
        pool.taints = Some(vec![taint(Some("batch")), taint(None)]);
        let annotations: Vec<_> = annotations(&tkc, &pool).into_iter().collect();
        let expected = [
            ("capacity.cluster-autoscaler.kubernetes.io/labels", "tier=batch,zone=a"),
            (
                "capacity.cluster-autoscaler.kubernetes.io/taints",
                "dedicated=batch:NoSchedule,dedicated:NoSchedule",
            ),
            ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "5"),
            ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "0"),
        ];
        assert_eq!(annotations, expected.map(|(key, text)| (key.to_owned(), text.to_owned())));
        pool.replicas = Some(1);
        assert!(
            super::annotations(&tkc, &pool).is_empty(),
            "an autoscaler keeps away from what it has no bounds of"
        );
    }
}
