//! The failure domains of a cluster: the vSphere zones that its namespace may use. Pure.

use std::sync::Arc;

use api::capw::FailureDomain;
use api::topology::{AvailabilityZone, Zone, zones_of};

/// The zones in which the namespace has a folder and a pool, by name: its own Zones, and AvailabilityZones that name it.
///
/// Control planes may be in each of them. There are none where vSphere has no zones.
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
