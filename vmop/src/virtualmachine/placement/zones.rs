//! The zones of a namespace, and the choice of a VM's zone.

use std::sync::Arc;

use api::conditions::vmop as reason;
use api::names::{annotation, label};
use api::topology::{AvailabilityZone, Zone};
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::MoRef;

use crate::stable_hash::stable_hash;
use crate::unmet::{Need, Unmet};
use crate::vcenter::Placement;
use crate::vcenter::settings::ProviderSettings;

/// A zone of a namespace, with its placements for VMs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePlacements {
    pub name: String,
    /// The placements, one per resource pool.
    pub placements: Vec<Placement>,
}

/// Returns the namespace's placement from its annotations or the provider configuration.
pub fn namespace_placement(
    namespace: &str,
    annotated: impl Fn(&str) -> Option<String>,
    settings: &ProviderSettings,
) -> Need<Placement> {
    let lacks = |key: &str| {
        Unmet::wrong(
            reason::PLACEMENT_NOT_READY,
            format!(
                "Namespace {namespace} has no annotation {key}. Set it to the MoID of the namespace's folder or resource pool in vCenter"
            ),
        )
    };
    let folder = annotated(annotation::NAMESPACE_FOLDER).or_else(|| settings.folder.clone());
    let pool = annotated(annotation::NAMESPACE_RESOURCE_POOL).or_else(|| settings.resource_pool.clone());
    Ok(Placement {
        folder: MoRef::folder(folder.ok_or_else(|| lacks(annotation::NAMESPACE_FOLDER))?),
        pool: MoRef::pool(pool.ok_or_else(|| lacks(annotation::NAMESPACE_RESOURCE_POOL))?),
    })
}

/// Parses the zones of a namespace, sorted by name: its `own` Zone objects, and the cluster-`wide` AvailabilityZones that name
/// the namespace. A Zone takes precedence over an AvailabilityZone with the same name.
///
/// Zones without a folder or a pool are skipped, because they can't contain VMs.
pub fn parse_zones(
    namespace: &str,
    own: &[Arc<Zone>],
    wide: &[Arc<AvailabilityZone>],
) -> Vec<ZonePlacements> {
    let own = own.iter().filter_map(|zone| {
        let place = zone.spec.managed_vms.as_ref().or(zone.spec.namespace.as_ref())?;
        placements(zone.name_any(), place.folder_mo_id.as_deref(), place.pool_mo_ids.iter())
    });
    let mut zones: Vec<ZonePlacements> = own.collect();
    for zone in wide {
        let name = zone.name_any();
        let Some(info) = zone.spec.namespaces.get(namespace) else { continue };
        if zones.iter().all(|known| known.name != name) {
            let pools = info.pool_mo_ids.iter().chain(&info.pool_mo_id);
            zones.extend(placements(name, info.folder_mo_id.as_deref(), pools));
        }
    }
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones
}

fn placements<'a>(
    name: String,
    folder: Option<&str>,
    pools: impl Iterator<Item = &'a String>,
) -> Option<ZonePlacements> {
    let folder = MoRef::folder(folder.filter(|folder| !folder.is_empty())?);
    let at = |pool: &String| Placement { folder: folder.clone(), pool: MoRef::pool(pool.as_str()) };
    let mut places: Vec<Placement> = pools.filter(|pool| !pool.is_empty()).map(at).collect();
    places.dedup();
    (!places.is_empty()).then_some(ZonePlacements { name, placements: places })
}

/// Chooses the VM's zone and placement. The choice is stable and spreads VMs over all zones and pools. A zone label on the VM
/// restricts the choice to that zone.
///
/// Returns `None` if the namespace doesn't have zones.
pub fn choose_zone<'a>(
    vm: &VirtualMachine,
    zones: &'a [ZonePlacements],
) -> Need<Option<(&'a str, &'a Placement)>> {
    let asked = vm.labels().get(label::ZONE).filter(|zone| !zone.is_empty());
    let namespace = vm.namespace().unwrap_or_default();
    if zones.is_empty() {
        return Ok(None);
    }
    let all: Vec<_> = zones.iter().filter(|zone| asked.is_none_or(|asked| *asked == zone.name)).collect();
    let name = vm.name_any();
    // Choose the zone before the pool, so that a zone with many pools doesn't get more than its share.
    let zone = all.into_iter().max_by_key(|zone| stable_hash([&namespace, &name, &zone.name]));
    let Some(zone) = zone else {
        let names: Vec<_> = zones.iter().map(|zone| zone.name.as_str()).collect();
        let message = format!(
            "Namespace {namespace} has no zone {}. Set the label {} to one of {}, or leave it out",
            asked.map_or("", String::as_str),
            label::ZONE,
            names.join(", ")
        );
        return Err(Unmet::wrong(reason::ZONE_MISMATCH, message));
    };
    let place = zone.placements.iter().max_by_key(|place| stable_hash([&namespace, &name, place.pool.id()]));
    Ok(place.map(|place| (zone.name.as_str(), place)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn zone(name: &str, place: &serde_json::Value) -> Arc<Zone> {
        let spec = json!({
            "availabilityZoneReference": { "apiVersion": "x/v1", "name": name }, "managedVMs": place,
        });
        let zone = json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": spec });
        Arc::new(serde_json::from_value(zone).unwrap())
    }

    fn wide(name: &str, info: &serde_json::Value) -> Arc<AvailabilityZone> {
        let spec = json!({ "namespaces": { "ns": info } });
        Arc::new(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap())
    }

    fn three() -> Vec<ZonePlacements> {
        let own = [
            zone("a", &json!({ "folderMoID": "group-v1", "poolMoIDs": ["resgroup-1", "resgroup-2"] })),
            zone("empty", &json!({ "folderMoID": "group-v1" })),
        ];
        let wide = [
            wide("b", &json!({ "folderMoId": "group-v2", "poolMoId": "resgroup-3" })),
            wide("a", &json!({ "folderMoId": "group-v9", "poolMoIDs": ["resgroup-9"] })),
        ];
        parse_zones("ns", &own, &wide)
    }

    #[test]
    fn zones_come_from_both_kinds_and_the_namespace_s_own_win() {
        let zones = three();
        let names: Vec<_> = zones.iter().map(|zone| (zone.name.as_str(), zone.placements.len())).collect();
        assert_eq!(names, [("a", 2), ("b", 1)]);
        assert_eq!(zones[0].placements[0].folder.id(), "group-v1");
        let of_ns = wide("a", &json!({ "folderMoId": "group-v9", "poolMoIDs": ["resgroup-9"] }));
        assert!(parse_zones("other", &[], &[of_ns]).is_empty());
    }

    #[test]
    fn a_vm_lies_where_its_label_says_or_where_its_name_falls() {
        let zones = three();
        let mut vm = crate::testing::fixtures::virtual_machine();
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..100 {
            vm.metadata.name = Some(format!("vm-{n}"));
            let (zone, place) = choose_zone(&vm, &zones).unwrap().unwrap();
            assert_eq!(choose_zone(&vm, &zones).unwrap(), Some((zone, place)));
            seen.insert((zone.to_owned(), place.pool.id().to_owned()));
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
        vm.metadata.labels = Some([(label::ZONE.to_owned(), "b".to_owned())].into());
        assert_eq!(choose_zone(&vm, &zones).unwrap().unwrap().0, "b");
        vm.metadata.labels = Some([(label::ZONE.to_owned(), "z".to_owned())].into());
        let unmet = choose_zone(&vm, &zones).unwrap_err();
        assert_eq!(unmet.reason, "ZoneMismatch");
        assert!(unmet.message.contains("one of a, b"), "{}", unmet.message);
        assert_eq!(choose_zone(&vm, &[]).unwrap(), None, "without zones a label says nothing");
    }
}
