//! The handshake with a network provider: an object is asked for, and the provider says in its status what
//! the card is plugged into, and which MAC and addresses it has.

use std::net::IpAddr;

use api::conditions::{self, Condition, vmop as reason};
use api::names::annotation;
use api::net::netoperator::{self, NetworkInterface, NetworkInterfaceSpec};
use api::net::{self, VirtualNetworkInterface, VirtualNetworkInterfaceSpec};
use api::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, VirtualMachine, VirtualMachineNetworkInterface,
};
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::settings::NetworkProvider;
use crate::virtualmachine::bootstrap::values::prefix_of;
use crate::virtualmachine::nic::nic::{Address, Addressing};

/// Who says what a card is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// net-operator, by a NetworkInterface.
    NetOperator,
    /// NSX, by a VirtualNetworkInterface.
    Nsx,
}

/// How it is found out what a card is plugged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plug<'a> {
    /// By the network's name in vCenter, else the configured one.
    Named(Option<&'a str>),
    /// By the configured network, once the VirtualNetwork of that name is realised.
    Realised(&'a str),
    /// By an object of that name that the user made.
    Given(Handshake, &'a str),
    /// By an object of that name that we ask for.
    Asked(Handshake, String),
}

/// What is known of the network providers.
#[derive(Clone, Copy, Debug)]
pub struct Providers {
    /// The configured one.
    pub configured: Option<NetworkProvider>,
    /// Whether a network is configured for cards that name none.
    pub default_network: bool,
    /// Whether NetworkInterfaces are served.
    pub net_operator: bool,
    /// Whether VirtualNetworkInterfaces are served.
    pub nsx: bool,
}

/// How it is found out what a card of `vm` is plugged into.
pub fn plug<'a>(
    vm: &VirtualMachine,
    interface: &'a VirtualMachineNetworkInterface,
    providers: Providers,
) -> Need<Plug<'a>> {
    if let Some(given) = &interface.provider_ref {
        return match (given.api_group.as_str(), given.kind.as_str()) {
            (netoperator::GROUP, "NetworkInterface") => {
                Ok(Plug::Given(served(Handshake::NetOperator, providers)?, &given.name))
            }
            (net::GROUP, "VirtualNetworkInterface") => {
                Ok(Plug::Given(served(Handshake::Nsx, providers)?, &given.name))
            }
            (group, kind) => Err(wrong(format!(
                "providerRef names a {kind} of {group}. Name a NetworkInterface of {}",
                netoperator::GROUP
            ))),
        };
    }
    let name = interface.network_name.as_deref().filter(|name| !name.is_empty());
    let asked = |handshake| Ok(Plug::Asked(served(handshake, providers)?, asked_name(vm, handshake, name)));
    let kind = match (interface.network_type.as_deref().unwrap_or_default(), providers.configured) {
        ("", Some(NetworkProvider::Distributed)) => NETWORK_TYPE_DISTRIBUTED,
        ("", Some(NetworkProvider::Nsx)) => NETWORK_TYPE_NSX_T,
        (kind, _) => kind,
    };
    match (kind, providers.configured) {
        ("", _) => Ok(Plug::Named(name)),
        (NETWORK_TYPE_DISTRIBUTED, Some(NetworkProvider::Distributed)) => asked(Handshake::NetOperator),
        (NETWORK_TYPE_DISTRIBUTED, None) if providers.net_operator => asked(Handshake::NetOperator),
        (NETWORK_TYPE_DISTRIBUTED, _) => Ok(Plug::Named(name)),
        (NETWORK_TYPE_NSX_T, Some(NetworkProvider::Nsx)) => asked(Handshake::Nsx),
        (NETWORK_TYPE_NSX_T, None) if providers.nsx && !providers.default_network => asked(Handshake::Nsx),
        (NETWORK_TYPE_NSX_T, _) => Ok(Plug::Realised(name.unwrap_or_default())),
        (other, _) => Err(wrong(format!(
            "networkType {other:?} is not supported. Use nsx-t, vsphere-distributed, or none"
        ))),
    }
}

fn served(handshake: Handshake, providers: Providers) -> Need<Handshake> {
    let (there, kind, who) = match handshake {
        Handshake::NetOperator => (providers.net_operator, "NetworkInterface", "net-operator"),
        Handshake::Nsx => (providers.nsx, "VirtualNetworkInterface", "NSX's container plug-in"),
    };
    if there {
        return Ok(handshake);
    }
    let message = format!(
        "The kind {kind} is not served. Install {who}, or set NetworkProvider to NAMED in the provider configuration"
    );
    Err(Unmet::in_vcenter(reason::NETWORK_NOT_READY, message))
}

/// The name of the object, as vm-operator gives it.
fn asked_name(vm: &VirtualMachine, handshake: Handshake, network: Option<&str>) -> String {
    let machine = vm.name_any();
    let name = network.map_or_else(|| machine.clone(), |network| format!("{network}-{machine}"));
    match handshake {
        Handshake::NetOperator => name,
        Handshake::Nsx => format!("{name}-lsp"),
    }
}

/// An object that is asked of a network provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Of net-operator.
    NetOperator(Box<NetworkInterface>),
    /// Of NSX.
    Nsx(Box<VirtualNetworkInterface>),
}

/// The objects that may have been asked for, for the cards of `vm`.
pub fn asked_names(vm: &VirtualMachine) -> Vec<(Handshake, String)> {
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = vm.spec.network_interfaces.as_slice();
    let interfaces = if interfaces.is_empty() { &default } else { interfaces };
    let names = interfaces.iter().map(|interface| interface.network_name.as_deref());
    let names = names.map(|name| name.filter(|name| !name.is_empty()));
    let both = |name| {
        [Handshake::NetOperator, Handshake::Nsx].map(|handshake| (handshake, asked_name(vm, handshake, name)))
    };
    names.flat_map(both).collect()
}

/// The object by which a network provider is asked for a card of `vm`.
///
/// It names its machine in an annotation and has no owner reference: an object that was moved to another cluster leaves a
/// machine behind that runs, and garbage collection would give its MAC and its address to others.
pub fn ask(vm: &VirtualMachine, handshake: Handshake, name: &str, network: Option<&str>) -> Ask {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: vm.namespace(),
        annotations: Some([(annotation::VIRTUAL_MACHINE.to_owned(), vm.name_any())].into()),
        ..ObjectMeta::default()
    };
    let network = network.filter(|network| !network.is_empty()).map(str::to_owned);
    match handshake {
        Handshake::NetOperator => {
            let type_ = Some(netoperator::VMXNET3.to_owned());
            let spec = NetworkInterfaceSpec { network_name: network, type_, ..Default::default() };
            Ask::NetOperator(Box::new(NetworkInterface { metadata, spec, status: None }))
        }
        Handshake::Nsx => {
            let spec = VirtualNetworkInterfaceSpec { virtual_network: network, ..Default::default() };
            Ask::Nsx(Box::new(VirtualNetworkInterface { metadata, spec, status: None }))
        }
    }
}

/// A network by the provider's name of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkId {
    /// A port group, such as `dvportgroup-17`.
    Portgroup(String),
    /// An NSX segment, by its UUID.
    Segment(String),
}

/// What a network provider says of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realised {
    /// What the card is plugged into.
    pub network: NetworkId,
    /// Its MAC; `None` leaves it to vCenter.
    pub mac: Option<String>,
    /// What the provider calls the port.
    pub external_id: Option<String>,
    /// How the guest gets its addresses.
    pub addressing: Addressing,
}

/// What net-operator says; `segments` where the network lies in NSX.
pub fn of_net_operator(interface: &NetworkInterface, segments: bool) -> Need<Realised> {
    let named = named(interface);
    let status = interface.status.clone().unwrap_or_default();
    ready(&named, &status.conditions)?;
    let id = filled(status.network_id).ok_or_else(|| lacks(&named, "networkID"))?;
    let addresses = status.ip_configs.iter().filter(|config| !config.ip.is_empty());
    let addresses = addresses.map(|config| {
        let prefix = config.prefix.and_then(|prefix| u8::try_from(prefix).ok());
        address(&named, &config.ip, prefix, &config.subnet_mask, &config.gateway)
    });
    let addresses = addresses.collect::<Need<Vec<_>>>()?;
    let addressing = match status.ip_assignment_mode.as_deref() {
        Some("none") => Addressing::Unaddressed,
        Some("dhcp") => Addressing::Dhcp,
        _ if addresses.is_empty() => Addressing::Dhcp,
        _ => Addressing::Static(addresses),
    };
    Ok(Realised {
        network: if segments { NetworkId::Segment(id) } else { NetworkId::Portgroup(id) },
        mac: mac(status.mac_address),
        external_id: filled(status.external_id),
        addressing,
    })
}

/// What NSX says.
pub fn of_nsx(interface: &VirtualNetworkInterface) -> Need<Realised> {
    let named = named(interface);
    let status = interface.status.clone().unwrap_or_default();
    ready(&named, &status.conditions)?;
    let segment = status.provider_status.and_then(|provider| filled(provider.nsx_logical_switch_id));
    let segment = segment.ok_or_else(|| lacks(&named, "providerStatus.nsxLogicalSwitchID"))?;
    let addresses = status.ip_addresses.iter().filter(|address| !address.ip.is_empty());
    let addresses =
        addresses.map(|given| address(&named, &given.ip, None, &given.subnet_mask, &given.gateway));
    let addresses = addresses.collect::<Need<Vec<_>>>()?;
    Ok(Realised {
        network: NetworkId::Segment(segment),
        mac: mac(status.mac_address),
        external_id: filled(status.interface_id),
        addressing: if addresses.is_empty() { Addressing::Dhcp } else { Addressing::Static(addresses) },
    })
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// A MAC as vCenter and guests write it.
fn mac(given: Option<String>) -> Option<String> {
    filled(given).map(|mac| mac.replace('-', ":").to_ascii_lowercase())
}

fn named<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    format!("{} {namespace}/{}", K::kind(&()), object.name_any())
}

fn ready(named: &str, conditions: &[Condition]) -> Need<()> {
    if conditions::holds(conditions, net::READY) {
        return Ok(());
    }
    let failed = conditions::find(conditions, netoperator::FAILURE)
        .filter(|failure| failure.status == conditions::TRUE)
        .or_else(|| conditions::find(conditions, net::READY));
    match failed.and_then(|failed| failed.message.clone().or(failed.reason.clone())) {
        Some(why) if !why.is_empty() => Err(wrong(format!("{named}: {why}"))),
        _ => Err(waits(named)),
    }
}

/// The network provider has not answered yet.
pub fn waits(named: &str) -> Unmet {
    let message = format!("{named} is not Ready: the network provider is at it");
    Unmet::underway(reason::NETWORK_NOT_READY, message)
}

fn lacks(named: &str, field: &str) -> Unmet {
    wrong(format!("{named} is Ready and has no status.{field}. Ask whoever runs the network provider"))
}

fn address(named: &str, ip: &str, prefix: Option<u8>, mask: &str, gateway: &str) -> Need<Address> {
    let parsed: Option<IpAddr> = ip.parse().ok();
    let prefix = prefix.or_else(|| prefix_of(mask));
    let gateway = Some(gateway).filter(|gateway| !gateway.is_empty()).map(str::parse::<IpAddr>).transpose();
    match (parsed, prefix, gateway) {
        (Some(ip), Some(prefix), Ok(gateway)) if prefix <= if ip.is_ipv4() { 32 } else { 128 } => {
            Ok(Address { ip, prefix, gateway })
        }
        _ => Err(wrong(format!(
            "{named} has an address that can't be read ({ip} {mask}). Ask whoever runs the network provider"
        ))),
    }
}

fn wrong(message: String) -> Unmet {
    Unmet::wrong(reason::NETWORK_NOT_READY, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::caches::made_for;
    use crate::testing::fixtures;

    const NOBODY: Providers =
        Providers { configured: None, default_network: false, net_operator: false, nsx: false };
    const ALL: Providers = Providers { net_operator: true, nsx: true, ..NOBODY };

    fn card(network_type: &str) -> VirtualMachineNetworkInterface {
        let card = json!({ "networkType": network_type, "networkName": "net" });
        serde_json::from_value(card).unwrap()
    }

    fn vm() -> VirtualMachine {
        let mut vm = fixtures::virtual_machine();
        vm.metadata.uid = Some("u-1".into());
        vm
    }

    fn net_operator(status: &Value) -> Need<Realised> {
        let object = json!({ "metadata": { "namespace": "ns", "name": "n" }, "spec": {}, "status": status });
        of_net_operator(&serde_json::from_value(object).unwrap(), false)
    }

    fn nsx(status: &Value) -> Need<Realised> {
        let object = json!({ "metadata": { "namespace": "ns", "name": "n" }, "spec": {}, "status": status });
        of_nsx(&serde_json::from_value(object).unwrap())
    }

    fn ready() -> Value {
        json!([{ "type": "Ready", "status": "True" }])
    }

    #[test]
    fn who_says_what_a_card_is_plugged_into() {
        let asked = |handshake, name: &str| Plug::Asked(handshake, name.to_owned());
        let distributed = Providers { configured: Some(NetworkProvider::Distributed), ..ALL };
        let nsx = Providers { configured: Some(NetworkProvider::Nsx), ..ALL };
        let named = Providers { configured: Some(NetworkProvider::Named), ..ALL };
        let port_groups = Providers { default_network: true, ..ALL };
        let (of_net_operator, of_nsx) =
            (asked(Handshake::NetOperator, "net-cp-0"), asked(Handshake::Nsx, "net-cp-0-lsp"));
        for (network_type, providers, plug) in [
            ("", NOBODY, Plug::Named(Some("net"))),
            ("", distributed, of_net_operator.clone()),
            ("", nsx, of_nsx.clone()),
            ("vsphere-distributed", distributed, of_net_operator.clone()),
            ("vsphere-distributed", ALL, of_net_operator),
            ("vsphere-distributed", named, Plug::Named(Some("net"))),
            ("vsphere-distributed", NOBODY, Plug::Named(Some("net"))),
            ("nsx-t", nsx, of_nsx.clone()),
            ("nsx-t", ALL, of_nsx),
            ("nsx-t", port_groups, Plug::Realised("net")),
            ("nsx-t", named, Plug::Realised("net")),
        ] {
            let card = card(network_type);
            assert_eq!(super::plug(&vm(), &card, providers), Ok(plug), "{network_type:?} {providers:?}");
        }
        for (network_type, providers, words) in [
            ("nsx-t-subnet", ALL, "not supported"),
            ("nsx-t", Providers { nsx: false, ..nsx }, "VirtualNetworkInterface is not served"),
            ("", Providers { net_operator: false, ..distributed }, "NetworkInterface is not served"),
        ] {
            let unmet = super::plug(&vm(), &card(network_type), providers).unwrap_err();
            assert!(unmet.message.contains(words), "{network_type}: {}", unmet.message);
        }
    }

    #[test]
    fn a_card_may_name_the_object_itself() {
        let given = |group: &str, kind: &str| {
            let reference = json!({ "apiGroup": group, "kind": kind, "name": "mine" });
            serde_json::from_value(json!({ "providerRef": reference })).unwrap()
        };
        let of_net_operator = given("netoperator.vmware.com", "NetworkInterface");
        assert_eq!(plug(&vm(), &of_net_operator, ALL), Ok(Plug::Given(Handshake::NetOperator, "mine")));
        assert!(plug(&vm(), &of_net_operator, NOBODY).unwrap_err().message.contains("Install net-operator"));
        let of_nsx = given("vmware.com", "VirtualNetworkInterface");
        assert_eq!(plug(&vm(), &of_nsx, ALL), Ok(Plug::Given(Handshake::Nsx, "mine")));
        let other = given("crd.nsx.vmware.com", "SubnetPort");
        let message = plug(&vm(), &other, ALL).unwrap_err().message;
        assert!(message.contains("SubnetPort of crd.nsx.vmware.com"), "{message}");
    }

    #[test]
    fn what_is_asked_for_names_its_network_and_its_machine_and_is_nobody_s() {
        let Ask::NetOperator(asked) = ask(&vm(), Handshake::NetOperator, "net-cp-0", Some("net")) else {
            panic!("of net-operator")
        };
        assert_eq!((asked.namespace().as_deref(), asked.name_any().as_str()), (Some("ns"), "net-cp-0"));
        assert_eq!(json!(asked.spec), json!({ "networkName": "net", "type": "vmxnet3" }));
        assert_eq!(made_for(&*asked).as_deref(), Some("ns/cp-0"));
        assert!(asked.owner_references().is_empty());

        let Ask::Nsx(asked) = ask(&vm(), Handshake::Nsx, "net-cp-0-lsp", Some("net")) else {
            panic!("of NSX")
        };
        assert_eq!(json!(asked.spec), json!({ "virtualNetwork": "net" }));
        assert_eq!(made_for(&*asked).as_deref(), Some("ns/cp-0"));
        assert!(asked.owner_references().is_empty());
        let mut vm = vm();
        vm.spec.network_interfaces = vec![card("nsx-t")];
        let names = asked_names(&vm).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names, ["net-cp-0", "net-cp-0-lsp"]);
        let Ask::NetOperator(default) = ask(&vm, Handshake::NetOperator, "cp-0", None) else {
            panic!("of net-operator")
        };
        assert_eq!(json!(default.spec), json!({ "type": "vmxnet3" }), "the namespace's default network");
    }

    #[test]
    fn what_net_operator_answers_becomes_a_card() {
        let realised = net_operator(&json!({
            "conditions": ready(), "networkID": "dvportgroup-17", "macAddress": "00-50-56-AA-BB-CC",
            "externalID": "port-1",
            "ipConfigs": [
                { "ip": "10.1.0.9", "ipFamily": "IPv4", "gateway": "10.1.0.1", "subnetMask": "255.255.240.0" },
                { "ip": "fd00::9", "ipFamily": "IPv6", "gateway": "", "subnetMask": "", "prefix": 64 },
            ],
        }))
        .unwrap();
        assert_eq!(realised.network, NetworkId::Portgroup("dvportgroup-17".into()));
        assert_eq!(realised.mac.as_deref(), Some("00:50:56:aa:bb:cc"));
        assert_eq!(realised.external_id.as_deref(), Some("port-1"));
        let Addressing::Static(addresses) = &realised.addressing else { panic!("{realised:?}") };
        let told: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["10.1.0.9/20", "fd00::9/64"]);
        assert_eq!(addresses[0].gateway, Some("10.1.0.1".parse().unwrap()));
        assert_eq!(addresses[1].gateway, None);

        let by_mode = |mode: Value| {
            let status = json!({ "conditions": ready(), "networkID": "p", "ipAssignmentMode": mode });
            net_operator(&status).unwrap().addressing
        };
        assert_eq!(by_mode(json!("dhcp")), Addressing::Dhcp);
        assert_eq!(by_mode(json!("none")), Addressing::Unaddressed);
        assert_eq!(by_mode(Value::Null), Addressing::Dhcp);
    }

    #[test]
    fn what_nsx_answers_becomes_a_card() {
        let realised = nsx(&json!({
            "conditions": ready(), "interfaceID": "lsp-1", "macAddress": "04:50:56:00:00:01",
            "ipAddresses": [{ "ip": "10.2.0.9", "gateway": "10.2.0.1", "subnetMask": "255.255.255.0" }],
            "providerStatus": { "nsxLogicalSwitchID": "seg-1" },
        }))
        .unwrap();
        assert_eq!(realised.network, NetworkId::Segment("seg-1".into()));
        assert_eq!(realised.mac.as_deref(), Some("04:50:56:00:00:01"));
        assert_eq!(realised.external_id.as_deref(), Some("lsp-1"));
        let Addressing::Static(addresses) = &realised.addressing else { panic!("{realised:?}") };
        assert_eq!(addresses[0].to_string(), "10.2.0.9/24");
        let dhcp = json!({ "conditions": ready(), "providerStatus": { "nsxLogicalSwitchID": "seg-1" } });
        let dhcp = nsx(&dhcp).unwrap();
        assert_eq!((dhcp.addressing, dhcp.mac, dhcp.external_id), (Addressing::Dhcp, None, None));
    }

    #[test]
    fn an_interface_that_can_not_be_used_says_why() {
        for status in
            [Value::Null, json!({}), json!({ "conditions": [{ "type": "Ready", "status": "False" }] })]
        {
            let unmet = net_operator(&status).unwrap_err();
            assert!(
                unmet.underway && unmet.message.contains("NetworkInterface ns/n is not Ready"),
                "{unmet:?}"
            );
        }
        let failed = json!({ "conditions": [
            { "type": "Ready", "status": "False" },
            { "type": "Failure", "status": "True", "reason": "NoAddress", "message": "the pool is exhausted" },
        ] });
        let address = |ip: &str, mask: &str| {
            json!({ "conditions": ready(), "networkID": "p", "ipConfigs": [
                { "ip": ip, "ipFamily": "IPv4", "gateway": "10.0.0.1", "subnetMask": mask },
            ] })
        };
        for (status, words) in [
            (failed, "NetworkInterface ns/n: the pool is exhausted"),
            (json!({ "conditions": ready() }), "no status.networkID"),
            (address("10.0.0.300", "255.0.0.0"), "can't be read (10.0.0.300 255.0.0.0)"),
            (address("10.0.0.3", "255.0.255.0"), "can't be read"),
        ] {
            let unmet = net_operator(&status).unwrap_err();
            assert!(!unmet.underway && unmet.message.contains(words), "{unmet:?}");
        }
        let why = json!([{ "type": "Ready", "status": "False", "message": "VirtualNetwork net is gone" }]);
        let unmet = nsx(&json!({ "conditions": why })).unwrap_err();
        assert!(
            !unmet.underway
                && unmet.message.contains("VirtualNetworkInterface ns/n: VirtualNetwork net is gone")
        );
        assert!(nsx(&json!({ "conditions": ready() })).unwrap_err().message.contains("nsxLogicalSwitchID"));
    }
}
