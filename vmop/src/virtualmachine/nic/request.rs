//! The objects that request a VM's NICs from network providers.

use api::names::annotation;
use api::net::netoperator::{self, NetworkInterface, NetworkInterfaceSpec};
use api::net::{VirtualNetworkInterface, VirtualNetworkInterfaceSpec};
use api::vmop::{VirtualMachine, VirtualMachineNetworkInterface};
use kit::apply::{Api, is_already_exists};
use kit::events::describe_object;
use kit::index::key;
use kit::watch::Watchable;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use crate::caches::Caches;
use crate::virtualmachine::error::Error;

/// The kind of object that requests a NIC from a network provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A NetworkInterface, for net-operator.
    NetOperator,
    /// A VirtualNetworkInterface, for NSX.
    Nsx,
}

/// Returns the name of the object that requests a NIC on `network` for the VM, as vm-operator forms it.
pub fn request_name(vm: &VirtualMachine, kind: InterfaceKind, network: Option<&str>) -> String {
    let own = vm.name_any();
    let name = network.map_or_else(|| own.clone(), |network| format!("{network}-{own}"));
    match kind {
        InterfaceKind::NetOperator => name,
        InterfaceKind::Nsx => format!("{name}-lsp"),
    }
}

/// A request to a network provider.
#[derive(Clone, Debug, PartialEq)]
pub enum NicRequest {
    /// A request to net-operator.
    NetOperator(Box<NetworkInterface>),
    /// A request to NSX.
    Nsx(Box<VirtualNetworkInterface>),
}

/// Returns the kinds and names of all objects that may have been created for the NICs of `vm`.
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

/// Returns the object that requests a NIC for `vm` from a network provider.
///
/// The object names its VM in an annotation and doesn't have an owner reference. When a VirtualMachine is moved to another
/// cluster, its VM keeps running, but garbage collection would release the MAC and address of owned objects.
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

/// Returns the name of the VirtualMachine that an interface object is for, or `None` if that is `vm` or isn't known.
///
/// Names can collide: network `a` with VM `b-c`, and network `a-b` with VM `c`, have the same object name.
pub fn other_user<K: Resource>(object: &K, vm: &VirtualMachine) -> Option<String> {
    let noted = object.annotations().get(annotation::VIRTUAL_MACHINE).map(String::as_str);
    // vm-operator uses an owner reference instead.
    let owned = || object.owner_references().iter().find(|owner| owner.kind == "VirtualMachine");
    let user = noted.or_else(|| owned().map(|owner| owner.name.as_str()))?;
    (user != vm.name_any()).then(|| user.to_owned())
}

/// Creates the network interface objects. When a network provider writes their status, the VM is reconciled.
pub async fn create_requests(requests: &[NicRequest], api: &Api) -> Result<(), Error> {
    for request in requests {
        match request {
            NicRequest::NetOperator(interface) => create_request(&**interface, api).await?,
            NicRequest::Nsx(interface) => create_request(&**interface, api).await?,
        }
    }
    Ok(())
}

/// Creates a network interface object. An existing object with this name is left unchanged, because it may be another VM's.
async fn create_request<K: Watchable + Serialize>(object: &K, api: &Api) -> Result<(), Error> {
    match api.create(object).await {
        Err(error) if is_already_exists(&error) => Err(Error::Unsettled(format!(
            "{} already exists. VM Operator reads it again",
            describe_object(object)
        ))),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Deletes the network interface objects that the spec no longer names. Call this after their NICs are removed.
pub async fn delete_outdated(vm: &VirtualMachine, api: &Api, caches: &Caches) -> Result<(), Error> {
    delete_all_but(&request_names(vm), vm, api, caches).await
}

/// Deletes the network interface objects of a VM that is gone. Other components don't delete them.
pub async fn delete_requests(vm: &VirtualMachine, api: &Api, caches: &Caches) -> Result<(), Error> {
    let namespace = vm.metadata.namespace.as_deref();
    for (kind, name) in request_names(vm) {
        // An object that was just created may not be in the cache yet.
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
