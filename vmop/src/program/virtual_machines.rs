//! The VirtualMachine controller: its context and its watches.

use std::sync::Arc;
use std::time::Duration;

use api::topology::AvailabilityZone;
use api::vmop::{ContentSource, VirtualMachine, VirtualMachineClassBinding};
use futures::Stream;
use jiff::SignedDuration;
use kit::Controller;
use kit::apply;
use kit::events::Events;
use kit::index::{Index, key, reference};
use kit::watch::Change;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::caches::{awaited, hard_keys, held, made_for};
use crate::data_sources::DataSourceWatches;
use crate::probe::Prober;
use crate::program::parts::ProgramParts;
use crate::virtualmachine;
use crate::virtualmachine::context::{Context, create_slots};
use crate::virtualmachine::power::guest_requests::GuestRequests;
use crate::virtualmachine::storage::promotions::Promotions;
use crate::virtualmachine::throttle::StatusThrottle;
use crate::watches::{
    annotated_networks, annotated_placement, name, namespace, namespaced_name, to, when_changed,
    when_it_comes_or_goes,
};

/// The maximum number of VirtualMachines that the release of an address enqueues.
const MAX_NOTIFIED: usize = 8;

/// Reconciles VirtualMachines until the program ends. `enqueued` contains VMs to reconcile for reasons outside the API
/// server.
///
/// The function is long because it is one table: each watch with the index that maps its events to VirtualMachines.
pub fn run<Enqueued>(
    parts: &ProgramParts,
    prober: Prober<ObjectRef<VirtualMachine>>,
    report_timeout: Option<SignedDuration>,
    enqueued: Enqueued,
) -> impl Future<Output = ()> + use<Enqueued>
where
    Enqueued: Stream<Item = ObjectRef<VirtualMachine>> + Send + 'static,
{
    let ctx = Arc::new(context(parts, prober, report_timeout));
    forget_deleted(&ctx);
    let caches = &parts.caches;
    let vms = &caches.vms;
    let by_class = vms.index(|vm| vec![vm.spec.class_name.clone()]);
    let by_interface = vms.index(interfaces);
    let by_namespace = vms.index(|vm| namespace(vm).into_iter().collect());
    let libraries = caches.clone();
    let bound_namespaces = move |source: &ContentSource| libraries.namespaces_bound_to(&source.name_any());
    Controller::new("virtualmachine", &parts.runtime, vms)
        .watches(&caches.classes, to(&by_class, name))
        .watches(&caches.bindings, bound_vms(&by_class))
        .watches(&caches.images, to(&caches.vms_by_image, name))
        .watches_optional(&caches.source_bindings, to(&by_namespace, namespace))
        .watches_optional(&caches.sources, to(&by_namespace, bound_namespaces))
        // The policy controller enqueues the VirtualMachines of a policy after it has realized the policy.
        .watches_changes(
            &caches.shared.policies,
            when_it_comes_or_goes(to(&caches.vms_by_policy, namespaced_name)),
        )
        .watches_optional(&caches.networks, to(&vms.index(networks), namespaced_name))
        .watches_optional(&caches.interfaces, interface_users(&by_interface))
        .watches_optional(&caches.nsx_interfaces, interface_users(&by_interface))
        .watches_changes(
            &caches.shared.namespaces,
            when_changed(annotated_placement, to(&by_namespace, name)),
        )
        .watches_changes(&caches.shared.namespaces, when_changed(annotated_networks, to(&by_namespace, name)))
        .watches_changes(&caches.shared.quotas, when_changed(hard_keys, to(&by_namespace, namespace)))
        .watches_optional(&caches.attachments, |made| vm_of(made).into_iter().collect())
        .watches_optional(&caches.shared.zones, to(&by_namespace, namespace))
        .watches_optional(&caches.shared.availability_zones, to(&by_namespace, zone_namespaces))
        .watches(&caches.shared.storage_classes, to(&vms.index(storage_class), name))
        .watches_changes(vms, sharing_an_address(&caches.vms_by_address))
        .watches_changes(vms, awaiting_an_address(&vms.index(awaited)))
        .wakes_on(enqueued)
        // A clone may queue in vCenter for long and must not block others, so other limits apply to clones. This number bounds
        // the memory at startup, when all VMs wait for the inventory. A namespace gets at most half of it, so that the
        // namespace's slow clones don't delay other tenants.
        .concurrency(1000)
        .deadline(Duration::from_hours(3))
        .run(ctx, virtualmachine::reconcile)
}

fn context(
    parts: &ProgramParts,
    prober: Prober<ObjectRef<VirtualMachine>>,
    report_timeout: Option<SignedDuration>,
) -> Context {
    Context {
        api: apply::Api::new(&parts.runtime, "vmop/machine"),
        events: Events::new(&parts.runtime, "vmop-machine"),
        provider: Arc::clone(&parts.provider),
        caches: parts.caches.clone(),
        prober,
        data_sources: DataSourceWatches::new(parts.runtime.client.clone(), parts.vms.clone()),
        guest_requests: GuestRequests::default(),
        promotions: Promotions::new(parts.vms.clone()),
        released: parking_lot::Mutex::default(),
        create_slots: create_slots(),
        report_timeout,
        status_throttle: StatusThrottle::default(),
        policies: parts.policies.clone(),
        sync_requests: Arc::clone(&parts.sync_requests),
        templates: Arc::clone(&parts.templates),
    }
}

fn forget_deleted(ctx: &Arc<Context>) {
    let forgetting = Arc::clone(ctx);
    ctx.caches.vms.listen(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            let gone = ObjectRef::from_obj(&**old);
            forgetting.prober.set_target(&gone, None);
            forgetting.data_sources.forget(&gone);
            forgetting.guest_requests.forget(&gone);
            forgetting.promotions.forget(&gone);
            forgetting.released.lock().remove(&old.uid().unwrap_or_default());
        }
    });
}

/// Maps a class binding to its class's VirtualMachines in the same namespace.
fn bound_vms(
    by_class: &Index<VirtualMachine>,
) -> impl Fn(&VirtualMachineClassBinding) -> Vec<ObjectRef<VirtualMachine>> + Send + 'static {
    let by_class = by_class.clone();
    move |binding| {
        let of_class = by_class.refs(&binding.spec.class_ref.name).into_iter();
        of_class.filter(|vm| vm.namespace == binding.metadata.namespace).collect()
    }
}

/// Maps a network interface to its VirtualMachines: the VirtualMachine that it was created for, and the VirtualMachines that
/// refer to it.
fn interface_users<O: Resource>(
    by_interface: &Index<VirtualMachine>,
) -> impl Fn(&O) -> Vec<ObjectRef<VirtualMachine>> + Send + use<O> {
    let by_interface = by_interface.clone();
    move |interface| {
        let naming_it = namespaced_name(interface).into_iter().flat_map(|key| by_interface.refs(&key));
        vm_of(interface).into_iter().chain(naming_it).collect()
    }
}

fn vm_of<O: Resource>(made: &O) -> Option<ObjectRef<VirtualMachine>> {
    let vm = made_for(made)?;
    let (namespace, name) = vm.split_once('/')?;
    Some(ObjectRef::new(name).within(namespace))
}

/// Maps a VirtualMachine that gained an address to the other VirtualMachines that have the same address. Addresses of a
/// VirtualMachine that is new in the cache don't count, because every VirtualMachine is reconciled at startup.
fn sharing_an_address(
    by_address: &Index<VirtualMachine>,
) -> impl Fn(&Change<VirtualMachine>) -> Vec<ObjectRef<VirtualMachine>> + Send + 'static {
    let by_address = by_address.clone();
    move |change| {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Vec::new() };
        let before = held(old);
        let own = reference(&**new);
        let gained = held(new).into_iter().filter(|address| !before.contains(address));
        gained.flat_map(|address| by_address.refs(&address)).filter(|other| *other != own).collect()
    }
}

/// Maps a VirtualMachine that released an address to at most [`MAX_NOTIFIED`] VirtualMachines that wait for the address, for
/// example after a DHCP server exchanged their leases. Many guests can report the same address, but only one VM gets it. The
/// other VMs are checked every minute.
fn awaiting_an_address(
    by_awaited: &Index<VirtualMachine>,
) -> impl Fn(&Change<VirtualMachine>) -> Vec<ObjectRef<VirtualMachine>> + Send + 'static {
    let by_awaited = by_awaited.clone();
    move |change| {
        let Some(old) = &change.old else { return Vec::new() };
        let after = change.new.as_deref().map(held).unwrap_or_default();
        let released = held(old).into_iter().filter(|address| !after.contains(address));
        let waiting = released.flat_map(|address| by_awaited.each(&address));
        waiting.map(|vm| reference(&*vm)).take(MAX_NOTIFIED).collect()
    }
}

fn zone_namespaces(zone: &AvailabilityZone) -> Vec<String> {
    zone.spec.namespaces.keys().cloned().collect()
}

fn storage_class(vm: &VirtualMachine) -> Vec<String> {
    vm.spec.storage_class.iter().cloned().collect()
}

fn networks(vm: &VirtualMachine) -> Vec<String> {
    let names = vm.spec.network_interfaces.iter().filter_map(|nic| nic.network_name.as_deref());
    names.filter(|name| !name.is_empty()).map(|name| key(vm.metadata.namespace.as_deref(), name)).collect()
}

fn interfaces(vm: &VirtualMachine) -> Vec<String> {
    let given = vm.spec.network_interfaces.iter().filter_map(|nic| nic.provider_ref.as_ref());
    let names = given.map(|given| &given.name).filter(|name| !name.is_empty());
    names.map(|name| key(vm.metadata.namespace.as_deref(), name)).collect()
}

#[cfg(test)]
mod tests {
    use api::vmop::NetworkInterfaceStatus;
    use kit::watch::Cache;

    use super::*;
    use crate::testing::fixtures;

    fn vm(name: &str, addresses: &[&str]) -> VirtualMachine {
        let mut vm = fixtures::virtual_machine();
        vm.metadata.name = Some(name.to_owned());
        vm.status.get_or_insert_default().endpoint_addresses =
            addresses.iter().map(|&address| address.to_owned()).collect();
        vm
    }

    #[test]
    fn only_a_vm_that_gains_an_address_notifies_the_others_that_have_it() {
        let holder = vm("holder", &["192.0.2.1"]);
        let (before, after) = (Arc::new(vm("other", &[])), Arc::new(vm("other", &["192.0.2.1"])));
        let cache = Cache::filled([holder.clone(), (*after).clone()]);
        let sharing = sharing_an_address(&cache.index(held));
        let notified = |old: Option<&Arc<VirtualMachine>>, new: &Arc<VirtualMachine>| {
            sharing(&Change { old: old.cloned(), new: Some(Arc::clone(new)) })
        };
        assert_eq!(notified(Some(&before), &after), [reference(&holder)]);
        assert!(notified(None, &after).is_empty(), "it is seen for the first time");
        assert!(notified(Some(&after), &after).is_empty());
        assert_eq!(notified(Some(&after), &before), [], "a holder does not wait");
    }

    #[test]
    fn an_address_that_is_released_wakes_a_bounded_number_of_the_vms_that_wait_for_it() {
        let waiting = |name: &str, addresses: &[&str]| {
            let mut vm = vm(name, &[]);
            let status = vm.status.get_or_insert_default();
            status.network_interfaces = vec![NetworkInterfaceStatus {
                ip_addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
                ..NetworkInterfaceStatus::default()
            }];
            vm
        };
        let (before, after) = (Arc::new(vm("other", &["192.0.2.1"])), Arc::new(vm("other", &[])));
        let woken =
            |cached: Vec<VirtualMachine>, old: &Arc<VirtualMachine>, new: Option<&Arc<VirtualMachine>>| {
                let awaiting = awaiting_an_address(&Cache::filled(cached).index(awaited));
                awaiting(&Change { old: Some(Arc::clone(old)), new: new.cloned() })
            };
        let waits = waiting("waits", &["fe80::1/64", "192.0.2.1/24"]);
        let elsewhere = waiting("elsewhere", &["192.0.2.2/24"]);
        let cached = || vec![waits.clone(), elsewhere.clone(), vm("holds", &["192.0.2.1"])];
        assert_eq!(woken(cached(), &before, Some(&after)), [reference(&waits)]);
        assert_eq!(woken(cached(), &before, None), [reference(&waits)], "its holder was deleted");
        assert!(woken(cached(), &before, Some(&before)).is_empty());
        assert!(woken(cached(), &after, Some(&before)).is_empty(), "it is taken");
        let crowd = (0..1000).map(|n| waiting(&format!("vm-{n}"), &["192.0.2.1/24"])).collect();
        assert_eq!(woken(crowd, &before, Some(&after)).len(), MAX_NOTIFIED);
    }
}
