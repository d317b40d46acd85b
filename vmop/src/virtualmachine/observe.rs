//! Reads everything that a VM reconcile needs. This module doesn't write objects, change VMs or enqueue reconciles.

use std::net::IpAddr;
use std::sync::Arc;

use api::vmop::VirtualMachine;
use kube::ResourceExt;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use super::bootstrap::observe::{
    BootstrapSources, BootstrapUpdate, DataSourceWatch, observe_update, read_data_source,
};
use super::context::Context;
use super::error::Error;
use super::facts::{Facts, RuntimeFacts};
use super::identity::find::{Found, SearchPlaces, find, find_holder};
use super::identity::uuids::Identity;
use super::image::{TemplateFacts, find_template};
use super::needs::{Creation, Needs};
use super::nic::change::NicChange;
use super::nic::claims::{Claims, divide};
use super::nic::endpoint::endpoint_addresses;
use super::nic::observe::{NicFacts, list_assigned_addresses, observe_nics};
use super::placement::module::plan_membership;
use super::placement::namespace::{resolve_home, resolve_zone};
use super::placement::policy::resolve_placement;
use super::power::state::wants_power_on;
use super::readiness::{probe_result, probe_target};
use super::size::observe::{read_class_size, resolve_needed_size};
use super::storage::claims::{self, Volumes};
use super::storage::observe::{observe_disks, observe_storage};
use super::storage::promotion::observe_promotion;
use crate::device_check::{nics_differ, were_asked_for};
use crate::probe::ProbeResult;
use crate::unmet::Need;
use crate::vcenter::mark::Mark;
use crate::vcenter::{Placement, VCenter};

#[cfg(test)]
mod tests;

/// The placements in which the VM is located or will be created.
struct Places {
    /// The placement of the VM's namespace.
    home: Need<Placement>,
    /// The VM's own placement: from its resource policy if it has one, otherwise from its namespace.
    own: Need<Placement>,
}

/// Reads the facts about `vm`.
pub async fn observe(vm: &VirtualMachine, identity: Identity, ctx: &Context) -> Result<Facts, Error> {
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    let now = jiff::Timestamp::now();
    let vcenter = match ctx.provider.vcenter() {
        Ok(vcenter) => vcenter,
        Err(problem) => {
            let mark = Mark::new(&namespace, &name, "");
            return Ok(Facts::new(identity, mark, Found::Unknown(problem), now));
        }
    };
    vcenter.inventory.bind_changes();
    let mark = Mark::new(&namespace, &name, &vcenter.settings.stack);
    let places = observe_places(vm, &vcenter, ctx);
    let search = SearchPlaces { namespace: &places.home, own: &places.own };
    let found = Box::pin(find(vm, identity, &mark, &search, &vcenter, &ctx.caches)).await;
    let facts = Facts::new(identity, mark, found, now);
    match facts.found.clone() {
        // Most VMs exist. Boxing keeps this large future out of their reconciles.
        Found::Absent => Box::pin(observe_creation(vm, facts, places, &vcenter, ctx)).await,
        Found::Ours(vsphere_vm) => {
            let facts = Box::pin(observe_existing(vm, &vsphere_vm, facts, &vcenter, ctx)).await;
            Box::pin(observe_changes(vm, &vsphere_vm, facts, &places.home, &vcenter, ctx)).await
        }
        Found::Moved(vsphere_vm) => {
            Ok(Box::pin(observe_existing(vm, &vsphere_vm, facts, &vcenter, ctx)).await)
        }
        Found::Unavailable(vsphere_vm) => {
            let probe = probe_of_unavailable(vm, &vsphere_vm, ctx);
            Ok(Facts { runtime: RuntimeFacts { probe, ..RuntimeFacts::default() }, ..facts })
        }
        Found::Unknown(_) | Found::Nowhere(_) | Found::Lost(_) | Found::Claimed(_) => Ok(facts),
    }
}

/// Returns the readiness probe's result for a VM that vCenter can't reach. The probe still dials the guest's last address.
fn probe_of_unavailable(vm: &VirtualMachine, vsphere_vm: &Vm, ctx: &Context) -> Option<ProbeResult> {
    vm.spec.readiness_probe.as_ref()?.tcp_socket.as_ref()?;
    let mut last = vsphere_vm.clone();
    let status = vm.status.as_ref()?;
    last.guest.ip.clone_from(&status.vm_ip);
    last.power_state = Some(PowerState::On);
    let own: Vec<IpAddr> =
        status.endpoint_addresses.iter().filter_map(|address| address.parse().ok()).collect();
    let target = probe_target(vm, &last, &own).ok().flatten();
    probe_result(vm, &last, target.as_ref(), &ctx.prober)
}

fn observe_places(vm: &VirtualMachine, vcenter: &VCenter, ctx: &Context) -> Places {
    let home = resolve_home(vm, vcenter, &ctx.caches);
    let own = match &home {
        Ok(home) => resolve_placement(vm, home, vcenter, &ctx.caches),
        Err(unmet) => Err(unmet.clone()),
    };
    Places { home, own }
}

/// Reads the facts that change while a VM runs. They are read again after a step has changed the VM.
pub async fn observe_runtime(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    vcenter: &VCenter,
    ctx: &Context,
) -> RuntimeFacts {
    let assigned = list_assigned_addresses(vm, vcenter, &ctx.caches);
    let reported = endpoint_addresses(vsphere_vm, &assigned, &vcenter.settings.guest_address_ranges);
    let holders = |address: &str| ctx.caches.vms_by_address.each(address);
    let is_assigned =
        |other: &VirtualMachine, ip| list_assigned_addresses(other, vcenter, &ctx.caches).contains(&ip);
    let Claims { own: endpoint_addresses, conflict } = divide(vm, reported, &assigned, holders, is_assigned);
    let (probe_target, refused) = match probe_target(vm, vsphere_vm, &endpoint_addresses) {
        Ok(target) => (target, None),
        Err(why) => (None, Some(ProbeResult::NoAnswer(conflict.clone().unwrap_or(why)))),
    };
    let Places { home, own } = observe_places(vm, vcenter, ctx);
    RuntimeFacts {
        probe: refused.or_else(|| probe_result(vm, vsphere_vm, probe_target.as_ref(), &ctx.prober)),
        probe_target,
        endpoint_addresses,
        address_conflict: conflict,
        host: vcenter.host_name(vsphere_vm).await,
        zone: resolve_zone(vm, vsphere_vm, &ctx.caches),
        size: read_class_size(vm, home.as_ref().ok(), vcenter, &ctx.caches).await,
        placement: own.ok(),
        report_timeout: ctx.report_timeout,
    }
}

/// Reads the facts about an existing VM, wherever it is located.
async fn observe_existing(
    vm: &VirtualMachine,
    vsphere_vm: &Arc<Vm>,
    mut facts: Facts,
    vcenter: &VCenter,
    ctx: &Context,
) -> Facts {
    facts.runtime = Box::pin(observe_runtime(vm, vsphere_vm, vcenter, ctx)).await;
    facts.promotion = observe_promotion(vm, vsphere_vm, vcenter, &ctx.promotions).await;
    let volumes = Volumes::of(vm, &ctx.caches);
    facts.volumes = (claims::has_claims(vm) || !volumes.there.is_empty()).then_some(volumes);
    facts
}

/// Reads the facts from which changes to an existing VM are planned.
async fn observe_changes(
    vm: &VirtualMachine,
    vsphere_vm: &Arc<Vm>,
    mut facts: Facts,
    home: &Need<Placement>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Facts, Error> {
    facts.membership =
        Box::pin(plan_membership(vm, vsphere_vm.pool.as_ref(), Some(vsphere_vm), vcenter)).await;
    match Box::pin(observe_power_on(vm, vsphere_vm, facts.identity, vcenter, ctx)).await {
        Ok((nic_change, update)) => {
            facts.nic_change = nic_change;
            facts.bootstrap_update = update.data;
            facts.nic_requests = update.nic_requests;
            facts.data_source_watch = update.watch;
        }
        Err(Error::Vcenter(error)) => facts.found = Found::Unknown(vcenter.call_problem(&error)),
        Err(error) => return Err(error),
    }
    if matches!(facts.found, Found::Ours(_))
        && vm.spec.volumes.iter().any(|volume| volume.v_sphere_volume.is_some())
    {
        match Box::pin(observe_disks(vm, vsphere_vm, vcenter, home, &ctx.caches)).await {
            Ok(disks) => facts.disks = Some(disks),
            Err(error) => facts.found = Found::Unknown(vcenter.call_problem(&error)),
        }
    }
    Ok(facts)
}

/// Reads the NIC change and the bootstrap data that a VM gets before power-on. Both are empty unless the VM is off, should
/// run, and its user changed something.
pub(in crate::virtualmachine) async fn observe_power_on(
    vm: &VirtualMachine,
    vsphere_vm: &Arc<Vm>,
    identity: Identity,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(Need<Option<NicChange>>, BootstrapUpdate), Error> {
    if vsphere_vm.power_state != Some(PowerState::Off) || !wants_power_on(vm) {
        return Ok((Ok(None), BootstrapUpdate::none()));
    }
    let network = ctx.provider.guest_network();
    let access = BootstrapSources { api: &ctx.api, vcenter, caches: &ctx.caches, network: &network };
    if !nics_differ(vm, vsphere_vm) {
        return Ok((Ok(None), observe_update(vm, vsphere_vm, identity, None, &access).await?));
    }
    let NicFacts { nics, requests } =
        observe_nics(vm, vsphere_vm.pool.as_ref(), vcenter, &ctx.caches).await?;
    let wanted = match nics {
        Ok(wanted) => wanted,
        Err(unmet) => {
            return Ok((Err(unmet), BootstrapUpdate { nic_requests: requests, ..BootstrapUpdate::none() }));
        }
    };
    // Read from vCenter, because the inventory may be older than our own last change.
    let present = vcenter.client.read_nics(&vsphere_vm.moref).await?;
    let change = NicChange::new(vm, &present, wanted, were_asked_for(vsphere_vm));
    let update = observe_update(vm, vsphere_vm, identity, Some(&change.nics), &access).await?;
    Ok((Ok(Some(change)), BootstrapUpdate { nic_requests: requests, ..update }))
}

/// Reads the needs of a VM to be created. If all needs are met, also checks that the VM's BIOS UUID is free.
async fn observe_creation(
    vm: &VirtualMachine,
    mut facts: Facts,
    places: Places,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Facts, Error> {
    let Places { home: Ok(home), own } = places else { return Ok(facts) };
    let (creation, watch) = match observe_needs(vm, facts.identity, &home, own, vcenter, ctx).await {
        Ok(observed) => observed,
        Err(Error::Vcenter(error)) => {
            facts.found = Found::Unknown(vcenter.call_problem(&error));
            return Ok(facts);
        }
        Err(error) => return Err(error),
    };
    facts.data_source_watch = watch;
    let pool = creation.needs.placement.as_ref().ok().map(|placement| &placement.pool);
    facts.membership = plan_membership(vm, pool, None, vcenter).await;
    if creation.needs.first_unmet().is_none()
        && let Some(holder) = find_holder(vm, facts.identity, &facts.mark, vcenter).await
    {
        facts.found = holder;
        return Ok(facts);
    }
    facts.creation = Some(Box::new(creation));
    Ok(facts)
}

/// Reads each need separately, and also returns the change to the data source watch.
async fn observe_needs(
    vm: &VirtualMachine,
    identity: Identity,
    home: &Placement,
    placement: Need<Placement>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(Creation, DataSourceWatch), Error> {
    let caches = &ctx.caches;
    let source = read_data_source(vm, &ctx.api).await?;
    let pool = placement.as_ref().ok().map(|placement| &placement.pool);
    let network = ctx.provider.guest_network();
    let NicFacts { nics, requests } = observe_nics(vm, pool, vcenter, caches).await?;
    let nics = nics.map(|nics| source.with_macs(nics, identity, &network));
    let class = resolve_needed_size(vm, home, vcenter, caches).await?;
    let storage = observe_storage(vm, placement.as_ref().unwrap_or(home), vcenter, caches).await?;
    let TemplateFacts { template, request, image_missing } =
        find_template(vm, home, storage.as_ref().ok(), vcenter, caches, &ctx.templates);
    let (wanted, cloned_from) = (nics.as_deref().ok(), template.as_deref().ok());
    let (bootstrap, watch) = source.compose_new(vm, identity, wanted, cloned_from, &network).await;
    let needs = Needs { class, image: template, storage, nics, bootstrap, placement };
    let creation = Creation {
        needs,
        nic_requests: requests,
        template_request: request,
        image_missing,
        direct: vcenter.settings.direct,
        proven_devices: *vcenter.proven_devices.lock(),
    };
    Ok((creation, watch))
}
