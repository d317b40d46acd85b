//! Checks annotations and labels that request something: release and image queries, autoscaler bounds, and unsupported labels.

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::MAX_NODES;
use api::names::{annotation, label};
use bounds::printable;
use kube::ResourceExt;

use super::denial::FieldDenial;
use crate::autoscaling::{self, BOUNDS, Bounds};
use crate::release::query;
use crate::release::resolution::AvailableRelease;

/// The release query's field path in messages.
pub const TKR: &str = "metadata.annotations[run.tanzu.vmware.com/resolve-tkr]";
/// The image query's field path in messages.
pub(super) const OS_IMAGE: &str = "metadata.annotations[run.tanzu.vmware.com/resolve-os-image]";

/// The maximum number of characters that a message quotes from a query.
pub(super) const SHOWN: usize = 200;

/// Returns the denials for new or changed queries that can't be parsed.
pub fn denials(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Vec<FieldDenial> {
    let queries = [(TKR, annotation::RESOLVE_TKR), (OS_IMAGE, annotation::RESOLVE_OS_IMAGE)];
    queries
        .into_iter()
        .filter_map(|(field, key)| {
            let text = new.annotations().get(key)?;
            let is_new = old.is_none_or(|old| old.annotations().get(key) != Some(text));
            let reason = query::parse(text).err().filter(|_| is_new)?;
            let remedy = "Write it as a label selector, such as os-name=ubuntu,!experimental";
            let reason = format!("{:?} is not a label selector: {reason}", printable(text, SHOWN));
            Some(FieldDenial::new(field, printable(&reason, 3 * SHOWN), remedy))
        })
        .collect()
}

/// Returns the denial for new or changed autoscaler bounds that are invalid or exceed the maximum cluster size.
pub(super) fn bounds_denial(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
) -> Option<FieldDenial> {
    let written = |tkc: &TanzuKubernetesCluster| BOUNDS.map(|key| tkc.annotations().get(key).cloned());
    if old.is_some_and(|old| written(old) == written(new)) {
        return None;
    }
    let (key, reason, remedy) = match autoscaling::bounds(new) {
        Err((key, reason)) => {
            let remedy = "Set both annotations: the minimum and the maximum number of nodes of each pool without replicas";
            (key, reason, remedy.to_owned())
        }
        Ok(Some(Bounds { max, .. })) if max > MAX_NODES => {
            let reason = format!("{max} nodes are more than the {MAX_NODES} that a cluster can have");
            (annotation::AUTOSCALER_MAX_SIZE, reason, format!("Use at most {MAX_NODES}"))
        }
        Ok(_) => return None,
    };
    Some(FieldDenial::new(format!("metadata.annotations[{key}]"), reason, remedy))
}

/// Returns a warning if the bounds don't have an effect because all pools set replicas.
pub(super) fn idle_bounds(tkc: &TanzuKubernetesCluster) -> Option<String> {
    autoscaling::bounds(tkc).ok().flatten()?;
    let pools = &tkc.spec.topology.node_pools;
    pools.iter().all(|pool| pool.replicas.is_some()).then(|| {
        format!(
            "metadata.annotations[{}]: it has no effect, because each pool sets replicas. Set replicas to null in the pools that an autoscaler scales",
            annotation::AUTOSCALER_MIN_SIZE
        )
    })
}

/// Returns a warning if a release query doesn't have an effect because the spec names a release in full. This isn't a denial,
/// because clusters that were moved here can contain such a query.
pub(super) fn idle(tkc: &TanzuKubernetesCluster, chosen: &AvailableRelease) -> Option<String> {
    let text = tkc.annotations().get(annotation::RESOLVE_TKR).filter(|text| !chosen.answers(text))?;
    Some(format!(
        "{TKR}: {text:?} does not match {}, which the spec names, so it has no effect. To follow it, set spec.distribution and spec.topology.controlPlane.tkr to null",
        chosen.version.object_name()
    ))
}

/// Returns a warning about a label that gcm doesn't support. Only the request that adds the label gets the warning.
pub fn unsupported(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Option<String> {
    let asked = |tkc: &TanzuKubernetesCluster| tkc.labels().contains_key(label::RETIRE_TKC);
    (asked(new) && !old.is_some_and(asked)).then(|| {
        format!(
            "metadata.labels[{}]: not supported; it has no effect. This cluster stays managed as a TanzuKubernetesCluster, which owns its Cluster. Remove the label; to pause all changes instead, set the annotation {}",
            label::RETIRE_TKC,
            annotation::PAUSED
        )
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::defaults::with_defaults;
    use super::super::{validate, warnings};
    use super::*;
    use crate::testing::{SITE_VERSIONS, available, node_image, sound};

    #[test]
    fn bounds_of_pools_are_checked_once_and_idle_ones_are_warned_of() {
        let mut tkc = asking(annotation::AUTOSCALER_MIN_SIZE, "1");
        let denial = bounds_denial(&tkc, None).unwrap().to_string();
        assert!(denial.contains("cluster-api-autoscaler-node-group-min-size]"), "{denial}");
        assert!(denial.contains("has no effect without"), "{denial}");
        assert!(bounds_denial(&tkc, Some(&tkc)).is_none(), "it came so");
        tkc.annotations_mut().insert(annotation::AUTOSCALER_MAX_SIZE.to_owned(), "3".to_owned());
        assert!(bounds_denial(&tkc, None).is_none());
        assert!(idle_bounds(&tkc).unwrap().contains("no effect"));
        tkc.spec.topology.node_pools[0].replicas = None;
        assert_eq!(idle_bounds(&tkc), None);
    }

    fn asking(key: &str, text: &str) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        tkc.annotations_mut().insert(key.to_owned(), text.to_owned());
        tkc
    }

    fn unnamed(query: &str) -> TanzuKubernetesCluster {
        let mut tkc = asking(annotation::RESOLVE_TKR, query);
        tkc.spec.topology.control_plane.tkr = None;
        tkc
    }

    #[test]
    fn a_query_of_releases_is_answered_or_refused() {
        let available = available(&SITE_VERSIONS);
        let full = with_defaults(&unnamed("v1.34"), None, &available);
        assert_eq!(
            full.spec.topology.control_plane.tkr.as_ref().unwrap().name(),
            Some("v1.34.2---vmware.1-vkr.1")
        );
        assert_eq!(
            (validate(&full, None, &available), warnings(&full, &available, Timestamp::UNIX_EPOCH)),
            (vec![], vec![])
        );
        // The spec names the release in full, but the query excludes it.
        let named = asking(annotation::RESOLVE_TKR, "v1.34");
        assert_eq!(validate(&named, None, &available), vec![]);
        let idle = warnings(&named, &available, Timestamp::UNIX_EPOCH);
        let texts = [
            unnamed("track=none"),
            unnamed("track in stable"),
            asking(annotation::RESOLVE_OS_IMAGE, "os-name=a b"),
        ]
        .map(|tkc| validate(&tkc, None, &available));
        let unreadable = asking(annotation::RESOLVE_OS_IMAGE, "os-name=a b");
        assert_eq!(validate(&unreadable, Some(&unreadable), &available), vec![], "it was there before");
        insta::assert_debug_snapshot!((texts, idle));
        let mut imaged = available.clone();
        for release in &mut imaged {
            release.images = vec![node_image("photon", &[("os-name", "photon")])];
        }
        assert_eq!(validate(&unreadable, None, &imaged).len(), 1, "one fault is reported once");
    }

    #[test]
    fn a_label_that_nobody_acts_on_is_warned_of_once() {
        let mut tkc = sound();
        tkc.labels_mut().insert(label::RETIRE_TKC.to_owned(), String::new());
        insta::assert_snapshot!(unsupported(&tkc, Some(&sound())).unwrap());
        assert_eq!(unsupported(&tkc, Some(&tkc)), None);
        assert_eq!(unsupported(&sound(), None), None);
    }
}
