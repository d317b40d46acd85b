//! Determines a cluster's failure domains, the vSphere zones that its namespace may use, without I/O.

use std::sync::Arc;

use api::capw::FailureDomain;
use api::topology::{AvailabilityZone, Zone, zones_of};

/// Returns the zones in which the namespace has a folder and a resource pool. The zones are read from the namespace's Zones
/// (`own`) and from the cluster-scoped AvailabilityZones (`wide`).
///
/// Control plane nodes can run in each of these zones. The list is empty if vSphere doesn't have zones.
pub fn failure_domains(
    namespace: &str,
    own: &[Arc<Zone>],
    wide: &[Arc<AvailabilityZone>],
) -> Vec<FailureDomain> {
    zones_of(namespace, own.iter().map(AsRef::as_ref), wide.iter().map(AsRef::as_ref))
        .into_iter()
        .map(|name| FailureDomain { name, control_plane: Some(true), ..FailureDomain::default() })
        .collect()
}

#[cfg(test)]
mod tests {
    use api::topology::{NamespaceInfo, ZonePlace};

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
