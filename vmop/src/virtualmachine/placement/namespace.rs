//! A namespace's folders and resource pools, from its zones, its annotations or the provider configuration.

use api::names::label;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::Vm;

use super::zones::{ZonePlacements, choose_zone, namespace_placement, parse_zones};
use crate::caches::Caches;
use crate::unmet::Need;
use crate::vcenter::{Placement, VCenter};

/// Returns the namespace's zones. The result is empty if there aren't any.
pub fn namespace_zones(namespace: &str, caches: &Caches) -> Vec<ZonePlacements> {
    parse_zones(
        namespace,
        &caches.zones_by_namespace.objects(namespace),
        &caches.availability_zones_by_namespace.objects(namespace),
    )
}

/// Returns all placements of a namespace: the placements in its zones, or the placement from its annotations and the provider
/// configuration.
pub fn namespace_placements(namespace: &str, vcenter: &VCenter, caches: &Caches) -> Need<Vec<Placement>> {
    let zones = namespace_zones(namespace, caches);
    if zones.is_empty() {
        return Ok(vec![read_annotated(namespace, vcenter, caches)?]);
    }
    Ok(zones.into_iter().flat_map(|zone| zone.placements).collect())
}

/// Returns the namespace's placement for this VM: in the VM's zone, or from the namespace's annotations and the provider
/// configuration.
pub fn resolve_home(vm: &VirtualMachine, vcenter: &VCenter, caches: &Caches) -> Need<Placement> {
    let namespace = vm.namespace().unwrap_or_default();
    let zones = namespace_zones(&namespace, caches);
    match choose_zone(vm, &zones)? {
        Some((_, place)) => Ok(place.clone()),
        None => read_annotated(&namespace, vcenter, caches),
    }
}

fn read_annotated(namespace: &str, vcenter: &VCenter, caches: &Caches) -> Need<Placement> {
    let object = caches.shared.namespaces.get(None, namespace);
    let annotated = |key: &str| object.as_ref().and_then(|object| object.annotations().get(key).cloned());
    namespace_placement(namespace, annotated, &vcenter.settings)
}

/// Returns the VM's zone: from its label, its resource pool, the last status, or the choice for a new VM, in this order.
pub fn resolve_zone(vm: &VirtualMachine, vsphere_vm: &Vm, caches: &Caches) -> Option<String> {
    let asked = vm.labels().get(label::ZONE).filter(|zone| !zone.is_empty()).cloned();
    let zones = namespace_zones(&vm.namespace().unwrap_or_default(), caches);
    let by_pool = || {
        let pool = vsphere_vm.pool.as_ref()?;
        let here = |zone: &&ZonePlacements| zone.placements.iter().any(|place| place.pool == *pool);
        zones.iter().find(here).map(|zone| zone.name.clone())
    };
    let reported = || vm.status.as_ref()?.zone.clone();
    let chosen = || choose_zone(vm, &zones).ok().flatten().map(|(zone, _)| zone.to_owned());
    asked.or_else(by_pool).or_else(reported).or_else(chosen)
}
