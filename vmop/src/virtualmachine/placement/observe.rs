//! Where a machine lies: in its policy's folder and pool, or its namespace's.

use api::conditions::vmop as reason;
use api::names::{annotation, label};
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use vsphere::{MoRef, Vm};

use crate::caches::Caches;
use crate::unmet::{Need, Unmet};
use crate::vcenter::{Placement, VCenter};
use crate::virtualmachine::Context;
use crate::virtualmachine::placement::zones;
use crate::virtualmachine::placement::zones::ZonePlaces;

/// The zones of a namespace; none where there are no zones at all.
pub fn zones_of_namespace(namespace: &str, caches: &Caches) -> Vec<ZonePlaces> {
    zones::zones(
        namespace,
        &caches.zones_by_namespace.objects(namespace),
        &caches.availability_zones_by_namespace.objects(namespace),
    )
}

/// All folders and pools of a namespace: those of its zones, or the one of its annotations.
pub fn homes(namespace: &str, vcenter: &VCenter, caches: &Caches) -> Need<Vec<Placement>> {
    let zones = zones_of_namespace(namespace, caches);
    if zones.is_empty() {
        return Ok(vec![annotated(namespace, vcenter, caches)?]);
    }
    Ok(zones.into_iter().flat_map(|zone| zone.places).collect())
}

/// Folder and pool of the namespace for this machine: in its zone, or where the annotations say.
pub fn home(vm: &VirtualMachine, vcenter: &VCenter, caches: &Caches) -> Need<Placement> {
    let namespace = vm.namespace().unwrap_or_default();
    let zones = zones_of_namespace(&namespace, caches);
    match zones::zoned(vm, &zones)? {
        Some((_, place)) => Ok(place.clone()),
        None => annotated(&namespace, vcenter, caches),
    }
}

fn annotated(namespace: &str, vcenter: &VCenter, caches: &Caches) -> Need<Placement> {
    let object = caches.namespaces.get(None, namespace);
    let annotated = |key: &str| object.as_ref().and_then(|object| object.annotations().get(key).cloned());
    zones::home(namespace, annotated, &vcenter.settings)
}

/// The zone that a machine lies in: by its label, its pool, what was told of it, or where it would be made.
pub fn zone(vm: &VirtualMachine, machine: &Vm, caches: &Caches) -> Option<String> {
    let asked = vm.labels().get(label::ZONE).filter(|zone| !zone.is_empty()).cloned();
    let zones = zones_of_namespace(&vm.namespace().unwrap_or_default(), caches);
    let by_pool = || {
        let pool = machine.pool.as_ref()?;
        let here = |zone: &&ZonePlaces| zone.places.iter().any(|place| place.pool == *pool);
        zones.iter().find(here).map(|zone| zone.name.clone())
    };
    let told = || vm.status.as_ref()?.zone.clone();
    let drawn = || zones::zoned(vm, &zones).ok().flatten().map(|(zone, _)| zone.to_owned());
    asked.or_else(by_pool).or_else(told).or_else(drawn)
}

/// Where the machine itself lies: in its policy's folder and pool, or its namespace's.
pub fn place(vm: &VirtualMachine, home: &Placement, vcenter: &VCenter, ctx: &Context) -> Need<Placement> {
    let Some(name) = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(home.clone());
    };
    let namespace = vm.namespace().unwrap_or_default();
    let named = format!("VirtualMachineSetResourcePolicy {namespace}/{name}");
    let Some(policy) = ctx.caches.policies.get(Some(&namespace), name) else {
        let message = format!("{named} does not exist. Create it, or name another");
        return Err(Unmet::wrong(reason::RESOURCE_POLICY_NOT_FOUND, message));
    };
    if let Some(realized) = vcenter.realized_policies.at(&key(Some(&namespace), name), home) {
        return Ok(realized.placement);
    }
    let conditions = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = api::conditions::find(conditions, api::conditions::READY);
    Err(
        match ready
            .filter(|ready| ready.status == api::conditions::FALSE)
            .and_then(|ready| ready.message.as_ref())
        {
            Some(why) => Unmet::wrong(reason::RESOURCE_POLICY_NOT_READY, format!("{named}: {why}")),
            None => Unmet::underway(
                reason::RESOURCE_POLICY_NOT_READY,
                format!("{named} is being realised in vCenter"),
            ),
        },
    )
}

/// The cluster module of the machine's group, if it has one; of the cluster that `pool` is in.
pub fn module(vm: &VirtualMachine, pool: Option<&MoRef>, vcenter: &VCenter) -> Need<Option<String>> {
    let policy = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty());
    let group = vm.annotations().get(annotation::CLUSTER_MODULE_GROUP).filter(|group| !group.is_empty());
    let (Some(policy), Some(group)) = (policy, group) else { return Ok(None) };
    let namespace = vm.namespace().unwrap_or_default();
    let named = format!("VirtualMachineSetResourcePolicy {namespace}/{policy}");
    let Some(realized) = vcenter.realized_policies.of(&key(Some(&namespace), policy)) else {
        let message = format!("{named} is being realised in vCenter");
        return Err(Unmet::underway(reason::RESOURCE_POLICY_NOT_READY, message));
    };
    let here = realized.iter().find(|realized| Some(&realized.placement.pool) == pool).or(realized.first());
    let Some(realized) = here.filter(|realized| realized.has_modules()) else { return Ok(None) };
    if let Some(module) = realized.modules.get(group) {
        return Ok(Some(module.clone()));
    }
    let message = format!(
        "{named} has no group {group} in spec.clustermodules. Correct the annotation {}, or name another policy",
        annotation::CLUSTER_MODULE_GROUP
    );
    Err(Unmet::wrong("ClusterModuleNotFound", message))
}
