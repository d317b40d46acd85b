//! The objects by which network providers are asked for the NICs of a VM.

use api::names::annotation;
use api::net::netoperator::{self, NetworkInterface, NetworkInterfaceSpec};
use api::net::{VirtualNetworkInterface, VirtualNetworkInterfaceSpec};
use api::vmop::{VirtualMachine, VirtualMachineNetworkInterface};
use kit::apply::{Api, is_already_exists};
use kit::events::named;
use kit::index::key;
use kit::watch::Watchable;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use crate::caches::Caches;
use crate::virtualmachine::error::Error;

/// The kind of object by which a network provider is asked for a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// net-operator, by a NetworkInterface.
    NetOperator,
    /// NSX, by a VirtualNetworkInterface.
    Nsx,
}

/// The name of the object, as vm-operator gives it.
pub fn request_name(vm: &VirtualMachine, kind: InterfaceKind, network: Option<&str>) -> String {
    let own = vm.name_any();
    let name = network.map_or_else(|| own.clone(), |network| format!("{network}-{own}"));
    match kind {
        InterfaceKind::NetOperator => name,
        InterfaceKind::Nsx => format!("{name}-lsp"),
    }
}

/// An object that is asked of a network provider.
#[derive(Clone, Debug, PartialEq)]
pub enum NicRequest {
    /// Of net-operator.
    NetOperator(Box<NetworkInterface>),
    /// Of NSX.
    Nsx(Box<VirtualNetworkInterface>),
}

/// The objects that may have been asked for, for the NICs of `vm`.
pub fn request_names(vm: &VirtualMachine) -> Vec<(InterfaceKind, String)> {
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = vm.spec.network_interfaces.as_slice();
    let interfaces = if interfaces.is_empty() { &default } else { interfaces };
    let names = interfaces.iter().map(|interface| interface.network_name.as_deref());
    let names = names.map(|name| name.filter(|name| !name.is_empty()));
    let both = |name| {
        [InterfaceKind::NetOperator, InterfaceKind::Nsx].map(|kind| (kind, request_name(vm, kind, name)))
    };
    names.flat_map(both).collect()
}

/// The object by which a network provider is asked for a NIC of `vm`.
///
/// It names its VM in an annotation and has no owner reference: an object that was moved to another cluster leaves a
/// VM behind that runs, and garbage collection would give its MAC and its address to others.
pub fn nic_request(
    vm: &VirtualMachine,
    kind: InterfaceKind,
    name: &str,
    network: Option<&str>,
) -> NicRequest {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: vm.namespace(),
        annotations: Some([(annotation::VIRTUAL_MACHINE.to_owned(), vm.name_any())].into()),
        ..ObjectMeta::default()
    };
    let network = network.filter(|network| !network.is_empty()).map(str::to_owned);
    match kind {
        InterfaceKind::NetOperator => {
            let type_ = Some(netoperator::VMXNET3.to_owned());
            let spec = NetworkInterfaceSpec { network_name: network, type_, ..Default::default() };
            NicRequest::NetOperator(Box::new(NetworkInterface { metadata, spec, status: None }))
        }
        InterfaceKind::Nsx => {
            let spec = VirtualNetworkInterfaceSpec { virtual_network: network, ..Default::default() };
            NicRequest::Nsx(Box::new(VirtualNetworkInterface { metadata, spec, status: None }))
        }
    }
}

/// The other VirtualMachine that an interface object is for, if it is for another than `vm`.
///
/// Names collide: the one of network `a` and VM `b-c` is that of network `a-b` and VM `c`.
pub fn other_user<K: Resource>(object: &K, vm: &VirtualMachine) -> Option<String> {
    let noted = object.annotations().get(annotation::VIRTUAL_MACHINE).map(String::as_str);
    // vm-operator gives its objects an owner instead.
    let owned = || object.owner_references().iter().find(|owner| owner.kind == "VirtualMachine");
    let user = noted.or_else(|| owned().map(|owner| owner.name.as_str()))?;
    (user != vm.name_any()).then(|| user.to_owned())
}

/// Creates the objects; their status is the providers' to write, and has the VM reconciled.
pub async fn create_requests(requests: &[NicRequest], api: &Api) -> Result<(), Error> {
    for request in requests {
        match request {
            NicRequest::NetOperator(interface) => create_request(&**interface, api).await?,
            NicRequest::Nsx(interface) => create_request(&**interface, api).await?,
        }
    }
    Ok(())
}

/// Creates an object, and leaves one of its name as it is: it may be another VM's.
async fn create_request<K: Watchable + Serialize>(object: &K, api: &Api) -> Result<(), Error> {
    match api.create(object).await {
        Err(error) if is_already_exists(&error) => {
            Err(Error::Unsettled(format!("{} already exists. VM Operator reads it again", named(object))))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Deletes the objects that the spec does not name any more, once no NIC uses them.
pub async fn delete_outdated(vm: &VirtualMachine, api: &Api, caches: &Caches) -> Result<(), Error> {
    delete_all_but(&request_names(vm), vm, api, caches).await
}

/// Deletes the objects of a VM that is gone: nobody else does.
pub async fn delete_requests(vm: &VirtualMachine, api: &Api, caches: &Caches) -> Result<(), Error> {
    let namespace = vm.metadata.namespace.as_deref();
    for (kind, name) in request_names(vm) {
        // One that was asked for a moment ago may not be in the cache yet.
        match kind {
            InterfaceKind::NetOperator => drop(caches.interfaces.cache().current(namespace, &name)?),
            InterfaceKind::Nsx => drop(caches.nsx_interfaces.cache().current(namespace, &name)?),
        }
    }
    delete_all_but(&[], vm, api, caches).await
}

async fn delete_all_but(
    kept: &[(InterfaceKind, String)],
    vm: &VirtualMachine,
    api: &Api,
    caches: &Caches,
) -> Result<(), Error> {
    let own = key(vm.metadata.namespace.as_deref(), &vm.name_any());
    for interface in caches.interfaces_by_vm.objects(&own) {
        if !kept.contains(&(InterfaceKind::NetOperator, interface.name_any())) {
            api.delete(&*interface).await?;
        }
    }
    for interface in caches.nsx_interfaces_by_vm.objects(&own) {
        if !kept.contains(&(InterfaceKind::Nsx, interface.name_any())) {
            api.delete(&*interface).await?;
        }
    }
    Ok(())
}
