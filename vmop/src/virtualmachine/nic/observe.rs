//! Reads the network for each NIC of a VM, and determines the requests to network providers.

use std::net::IpAddr;

use api::conditions::vmop as reason;
use api::names::annotation;
use api::vmop::{NETWORK_TYPE_NSX_T, VirtualMachine, VirtualMachineNetworkInterface};
use kit::events::describe_object;
use kube::{Resource, ResourceExt};
use vsphere::{MoRef, Network, NicKind};

use super::adapter::{Nic, nic_kind};
use super::realization::{
    NetworkId, Realization, check_network, net_operator_addresses, not_ready, nsx_addresses,
    read_net_operator, read_nsx, wrong,
};
use super::request::{InterfaceKind, NicRequest, nic_request, other_user};
use super::source::{NetworkProviders, NicSource, resolve_nic_source};
use crate::caches::Caches;
use crate::namespace_networks::{default_network, refusal};
use crate::unmet::{Need, Unmet};
use crate::vcenter::VCenter;
use crate::vcenter::settings::NetworkProvider;
use crate::virtualmachine::error::Error;

/// A VM's desired NICs, and the requests to network providers that they need.
pub struct NicFacts {
    pub nics: Need<Vec<Nic>>,
    /// The network interface objects to create.
    pub requests: Vec<NicRequest>,
}

/// Returns the desired NICs for a VM in `pool`. A VM that doesn't name interfaces gets one NIC on the default network, unless
/// the default NIC is disabled.
pub async fn observe_nics(
    vm: &VirtualMachine,
    pool: Option<&MoRef>,
    vcenter: &VCenter,
    caches: &Caches,
) -> Result<NicFacts, Error> {
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = match vm.spec.network_interfaces.as_slice() {
        [] if without_default(vm, vcenter) => &[],
        [] => default.as_slice(),
        given => given,
    };
    let mut facts = NicFacts { nics: Ok(Vec::with_capacity(interfaces.len())), requests: Vec::new() };
    for interface in interfaces {
        // Check all interfaces, so that the network provider can work on them at the same time.
        let nic = observe_nic(vm, interface, pool, vcenter, caches, &mut facts.requests).await?;
        match (&mut facts.nics, nic) {
            (Ok(nics), Ok(nic)) => nics.push(nic),
            (nics @ Ok(_), Err(unmet)) => *nics = Err(unmet),
            (Err(first), Err(unmet)) if first.underway && !unmet.underway => *first = unmet,
            (Err(_), _) => {}
        }
    }
    Ok(facts)
}

/// Returns true if the default NIC is left out for a VM whose spec doesn't name interfaces. This is the case if an annotation
/// disables the default NIC, or if the configuration has neither a default network nor a network provider that uses objects.
fn without_default(vm: &VirtualMachine, vcenter: &VCenter) -> bool {
    let settings = &vcenter.settings;
    vm.annotations().contains_key(annotation::NO_DEFAULT_NIC)
        || (settings.network.is_none()
            && !settings.network_provider.is_some_and(NetworkProvider::has_objects))
}

async fn observe_nic(
    vm: &VirtualMachine,
    interface: &VirtualMachineNetworkInterface,
    pool: Option<&MoRef>,
    vcenter: &VCenter,
    caches: &Caches,
    requests: &mut Vec<NicRequest>,
) -> Result<Need<Nic>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let source = resolve_nic_source(vm, interface, network_providers(vcenter, caches));
    let (kind, source) = match nic_kind(interface).and_then(|kind| Ok((kind, source?))) {
        Ok(planned) => planned,
        Err(unmet) => return Ok(Err(unmet)),
    };
    let answer = match &source {
        NicSource::Named(name) => {
            return match check_allowed(&namespace, *name, vcenter, caches) {
                Ok(()) => resolve_named_nic(*name, kind, vcenter).await,
                Err(unmet) => Ok(Err(unmet)),
            };
        }
        NicSource::VirtualNetwork(name) => {
            let network = caches.networks.cache().get(Some(&namespace), name);
            return match check_network(&namespace, name, network.as_deref()) {
                Ok(()) => resolve_named_nic(None, kind, vcenter).await,
                Err(unmet) => Ok(Err(unmet)),
            };
        }
        NicSource::Given(object, name) => read_answer(vm, *object, name, interface, caches)?,
        NicSource::Requested(object, name) => {
            let answer = read_answer(vm, *object, name, interface, caches)?;
            if answer.is_none() {
                requests.push(nic_request(vm, *object, name, interface.network_name.as_deref()));
            }
            answer
        }
    };
    match answer {
        Some(Ok(realization)) => build_realized_nic(kind, realization, pool, vcenter).await,
        Some(Err(unmet)) => Ok(Err(unmet)),
        None => Ok(Err(describe_absence(&namespace, &source))),
    }
}

/// Checks that the namespace may use the vCenter network.
fn check_allowed(namespace: &str, name: Option<&str>, vcenter: &VCenter, caches: &Caches) -> Need<()> {
    let settings = &vcenter.settings;
    let default = default_network(settings.network_provider, settings.network.as_deref());
    let refused = name.and_then(|name| refusal(namespace, name, default, &caches.shared.namespaces));
    refused.map_or(Ok(()), |why| Err(wrong(sentence(&why))))
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns the addresses that network providers have assigned to the VM's NICs, according to the caches. Objects that belong to
/// other VMs don't count.
pub fn list_assigned_addresses(vm: &VirtualMachine, vcenter: &VCenter, caches: &Caches) -> Vec<IpAddr> {
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = vm.spec.network_interfaces.as_slice();
    let interfaces = if interfaces.is_empty() { &default } else { interfaces };
    let (namespace, providers) = (vm.namespace(), network_providers(vcenter, caches));
    let of = |interface: &VirtualMachineNetworkInterface| -> Vec<IpAddr> {
        let (kind, name) = match resolve_nic_source(vm, interface, providers) {
            Ok(NicSource::Given(kind, name)) => (kind, name.to_owned()),
            Ok(NicSource::Requested(kind, name)) => (kind, name),
            Ok(NicSource::Named(_) | NicSource::VirtualNetwork(_)) | Err(_) => return Vec::new(),
        };
        match kind {
            InterfaceKind::NetOperator => caches
                .interfaces
                .cache()
                .get(namespace.as_deref(), &name)
                .filter(|object| other_user(&**object, vm).is_none())
                .map(|object| net_operator_addresses(&object)),
            InterfaceKind::Nsx => caches
                .nsx_interfaces
                .cache()
                .get(namespace.as_deref(), &name)
                .filter(|object| other_user(&**object, vm).is_none())
                .map(|object| nsx_addresses(&object)),
        }
        .unwrap_or_default()
    };
    interfaces.iter().flat_map(of).collect()
}

fn network_providers(vcenter: &VCenter, caches: &Caches) -> NetworkProviders {
    NetworkProviders {
        configured: vcenter.settings.network_provider,
        default_network: vcenter.settings.network.is_some(),
        net_operator: caches.interfaces.is_served(),
        nsx: caches.nsx_interfaces.is_served(),
    }
}

/// Returns the settings that the network provider published in the object with this `name`, or `None` if the object doesn't
/// exist.
fn read_answer(
    vm: &VirtualMachine,
    object: InterfaceKind,
    name: &str,
    interface: &VirtualMachineNetworkInterface,
    caches: &Caches,
) -> Result<Option<Need<Realization>>, Error> {
    let namespace = vm.namespace();
    Ok(match object {
        InterfaceKind::NetOperator => {
            let segments = interface.network_type.as_deref() == Some(NETWORK_TYPE_NSX_T);
            let object = caches.interfaces.cache().current(namespace.as_deref(), name)?;
            object
                .map(|object| check_usable(&*object, vm).and_then(|()| read_net_operator(&object, segments)))
        }
        InterfaceKind::Nsx => {
            let object = caches.nsx_interfaces.cache().current(namespace.as_deref(), name)?;
            object.map(|object| check_usable(&*object, vm).and_then(|()| read_nsx(&object)))
        }
    })
}

/// Checks that the object can be used for `vm`. An object of another VM would give both VMs the same MAC and address. An object
/// that is being deleted, such as the one of an earlier VM with the same name, is requested again after it is gone.
fn check_usable<K: Resource<DynamicType = ()>>(object: &K, vm: &VirtualMachine) -> Need<()> {
    let named = describe_object(object);
    if let Some(other) = other_user(object, vm) {
        let message = format!(
            "{named} is the network adapter of VirtualMachine {other}. Rename this VirtualMachine, or use another network or interface"
        );
        // The deletion of the other VM's network interface object doesn't enqueue this VM.
        return Err(Unmet::in_vcenter(reason::NETWORK_NOT_READY, message));
    }
    match object.meta().deletion_timestamp {
        None => Ok(()),
        Some(_) => Err(not_ready(&named)),
    }
}

fn describe_absence(namespace: &str, source: &NicSource<'_>) -> Unmet {
    let word = |kind: &InterfaceKind| match kind {
        InterfaceKind::NetOperator => "NetworkInterface",
        InterfaceKind::Nsx => "VirtualNetworkInterface",
    };
    match source {
        NicSource::Requested(kind, name) => not_ready(&format!("{} {namespace}/{name}", word(kind))),
        NicSource::Given(kind, name) => {
            wrong(format!("{} {namespace}/{name} (providerRef) does not exist. Create it", word(kind)))
        }
        NicSource::Named(_) | NicSource::VirtualNetwork(_) => not_ready("The network"),
    }
}

/// Returns a NIC on the network with this name, or on the default network.
async fn resolve_named_nic(name: Option<&str>, kind: NicKind, vcenter: &VCenter) -> Result<Need<Nic>, Error> {
    let Some(name) = name.or(vcenter.settings.network.as_deref()) else {
        let message = "The provider configuration has no Network to connect the network adapter to. Add the key, or set networkName";
        return Ok(Err(wrong(message)));
    };
    Ok(found(vcenter.network(name).await, vcenter)?.map(|network| Nic::plain(kind, network.backing)))
}

/// Returns a NIC with the network provider's settings.
async fn build_realized_nic(
    kind: NicKind,
    realization: Realization,
    pool: Option<&MoRef>,
    vcenter: &VCenter,
) -> Result<Need<Nic>, Error> {
    let Realization { network, mac, external_id, addressing } = realization;
    let network = match &network {
        NetworkId::Portgroup(id) => vcenter.network(id).await,
        NetworkId::Segment(id) => vcenter.segment(id, pool).await,
    };
    let network = found(network, vcenter)?;
    Ok(network.map(|network| Nic { kind, backing: network.backing, mac, external_id, addressing }))
}

fn found(network: Result<Network, vsphere::Error>, vcenter: &VCenter) -> Result<Need<Network>, Error> {
    match network {
        Ok(network) => Ok(Ok(network)),
        Err(error) if error.is_not_found() => {
            Ok(Err(Unmet::in_vcenter(reason::NETWORK_NOT_READY, vcenter.problem(&error).to_string())))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use api::net::netoperator::NetworkInterface;
    use kit::optional::Optional;
    use kit::watch::Cache;
    use serde_json::json;

    use super::*;
    use crate::caches::ReplicaCaches;
    use crate::testing::context::empty_runtime;
    use crate::virtualmachine::nic::request::request_name;

    fn vm(name: &str) -> VirtualMachine {
        let spec = json!({ "imageName": "i", "className": "c" });
        serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": spec }))
            .unwrap()
    }

    #[test]
    fn an_interface_of_another_vm_is_refused_by_name() {
        let (first, second) = (vm("b-c"), vm("c"));
        let kind = InterfaceKind::NetOperator;
        let name = request_name(&first, kind, Some("a"));
        assert_eq!(name, request_name(&second, kind, Some("a-b")), "the names collide");
        let NicRequest::NetOperator(made) = nic_request(&first, kind, &name, Some("a")) else {
            panic!("{kind:?}")
        };
        assert_eq!(check_usable(&*made, &first), Ok(()));
        let unmet = check_usable(&*made, &second).unwrap_err();
        assert!(unmet.message.contains("is the network adapter of VirtualMachine b-c"), "{}", unmet.message);
        assert!(unmet.unwatched && !unmet.underway, "it is looked at again");
    }

    #[tokio::test]
    async fn an_interface_object_of_another_vm_is_not_used() {
        let started = empty_runtime();
        let mut caches = Caches::start(&started, ReplicaCaches::start(&started));
        let (first, second) = (vm("b-c"), vm("c"));
        let kind = InterfaceKind::NetOperator;
        let name = request_name(&first, kind, Some("a"));
        let NicRequest::NetOperator(made) = nic_request(&first, kind, &name, Some("a")) else {
            panic!("{kind:?}")
        };
        caches.interfaces = Optional::served(Cache::filled([*made]));
        let answer = |vm: &VirtualMachine| {
            let interface = VirtualMachineNetworkInterface::default();
            let read = read_answer(vm, kind, &name, &interface, &caches).unwrap().expect("it is there");
            read.err().map(|unmet| unmet.message).unwrap_or_default()
        };
        assert!(answer(&second).contains("network adapter of VirtualMachine b-c"), "{}", answer(&second));
        assert!(!answer(&first).contains("network adapter of"), "{}", answer(&first));
        started.shutdown.cancel();
    }

    #[test]
    fn an_interface_that_names_no_vm_may_be_used() {
        let of = |metadata: serde_json::Value| -> NetworkInterface {
            serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
        };
        assert_eq!(check_usable(&of(json!({ "name": "mine", "namespace": "ns" })), &vm("c")), Ok(()));
        let owner = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine", "name": "b", "uid": "u",
        });
        let of_another = of(json!({ "name": "mine", "namespace": "ns", "ownerReferences": [owner] }));
        assert!(check_usable(&of_another, &vm("c")).is_err());
        assert_eq!(check_usable(&of_another, &vm("b")), Ok(()));
    }
}
