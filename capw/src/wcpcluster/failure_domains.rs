//! The failure domains of a cluster: the vSphere zones that its namespace may use. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::capw::FailureDomain;
use api::topology::{AvailabilityZone, NamespaceInfo, Zone};
use kube::ResourceExt;

/// The zones in which the namespace has a folder and a pool, by name: its own Zones, and AvailabilityZones that name it.
///
/// Control planes may be in each of them. There are none where vSphere has no zones.
pub fn failure_domains(
    namespace: &str,
    own: &[Arc<Zone>],
    wide: &[Arc<AvailabilityZone>],
) -> Vec<FailureDomain> {
    let own = own.iter().filter(|zone| has_place(zone)).map(|zone| zone.name_any());
    let wide = wide
        .iter()
        .filter(|zone| zone.spec.namespaces.get(namespace).is_some_and(is_place))
        .map(|zone| zone.name_any());
    let names: BTreeSet<String> = own.chain(wide).collect();
    names
        .into_iter()
        .map(|name| FailureDomain { name, control_plane: Some(true), ..FailureDomain::default() })
        .collect()
}

/// Whether a VM can lie in the zone.
fn has_place(zone: &Zone) -> bool {
    let place = zone.spec.managed_vms.as_ref().or(zone.spec.namespace.as_ref());
    place.is_some_and(|place| {
        is_given(place.folder_mo_id.as_ref()) && place.pool_mo_ids.iter().any(|id| is_set(id))
    })
}

fn is_place(info: &NamespaceInfo) -> bool {
    is_given(info.folder_mo_id.as_ref())
        && info.pool_mo_ids.iter().chain(&info.pool_mo_id).any(|id| is_set(id))
}

fn is_given(id: Option<&String>) -> bool {
    id.is_some_and(|id| is_set(id))
}

fn is_set(id: &str) -> bool {
    !id.is_empty()
}

#[cfg(test)]
mod tests {
    use api::topology::ZonePlace;

    use super::*;

    fn zone(name: &str, pool: &str) -> Arc<Zone> {
        let mut zone = Zone::new(name, api::topology::ZoneSpec::default());
        zone.spec.managed_vms = Some(ZonePlace {
            folder_mo_id: Some("group-v3".into()),
            pool_mo_ids: vec![pool.into()],
            ..ZonePlace::default()
        });
        Arc::new(zone)
    }

    fn wide(name: &str, namespace: &str) -> Arc<AvailabilityZone> {
        let mut zone = AvailabilityZone::new(name, api::topology::AvailabilityZoneSpec::default());
        let info = NamespaceInfo {
            folder_mo_id: Some("group-v4".into()),
            pool_mo_id: Some("resgroup-9".into()),
            ..NamespaceInfo::default()
        };
        zone.spec.namespaces.insert(namespace.into(), info);
        Arc::new(zone)
    }

    #[test]
    fn failure_domains_are_the_zones_that_the_namespace_may_use() {
        let own = [zone("zone-b", "resgroup-8"), zone("zone-empty", "")];
        let wide = [wide("zone-b", "dev"), wide("zone-a", "dev"), wide("zone-c", "other")];
        let domains = failure_domains("dev", &own, &wide);
        let names: Vec<_> = domains.iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!(names, ["zone-a", "zone-b"]);
        assert!(domains.iter().all(|domain| domain.control_plane == Some(true)));
        assert!(failure_domains("dev", &[], &[]).is_empty());
    }
}
