//! Tests for requests to network providers and for the statuses that they publish.

use serde_json::{Value, json};

use api::vmop::{VirtualMachine, VirtualMachineNetworkInterface};
use kube::ResourceExt;

use super::adapter::*;
use super::realization::{NetworkId, Realization, read_net_operator, read_nsx};
use super::request::{InterfaceKind, NicRequest, nic_request, request_names};
use super::source::{NetworkProviders, NicSource, resolve_nic_source};
use crate::caches::made_for;
use crate::testing::fixtures;
use crate::unmet::Need;
use crate::vcenter::settings::NetworkProvider;

const NO_PROVIDER: NetworkProviders =
    NetworkProviders { configured: None, default_network: false, net_operator: false, nsx: false };
const ALL: NetworkProviders = NetworkProviders { net_operator: true, nsx: true, ..NO_PROVIDER };

fn interface(network_type: &str) -> VirtualMachineNetworkInterface {
    let interface = json!({ "networkType": network_type, "networkName": "net" });
    serde_json::from_value(interface).unwrap()
}

fn vm() -> VirtualMachine {
    let mut vm = fixtures::virtual_machine();
    vm.metadata.uid = Some("u-1".into());
    vm
}

fn net_operator(status: &Value) -> Need<Realization> {
    let object = json!({ "metadata": { "namespace": "ns", "name": "n" }, "spec": {}, "status": status });
    read_net_operator(&serde_json::from_value(object).unwrap(), false)
}

fn nsx(status: &Value) -> Need<Realization> {
    let object = json!({ "metadata": { "namespace": "ns", "name": "n" }, "spec": {}, "status": status });
    read_nsx(&serde_json::from_value(object).unwrap())
}

fn ready() -> Value {
    json!([{ "type": "Ready", "status": "True" }])
}

#[test]
fn who_says_which_network_a_nic_is_connected_to() {
    let asked = |kind, name: &str| NicSource::Requested(kind, name.to_owned());
    let distributed = NetworkProviders { configured: Some(NetworkProvider::Distributed), ..ALL };
    let nsx = NetworkProviders { configured: Some(NetworkProvider::Nsx), ..ALL };
    let named = NetworkProviders { configured: Some(NetworkProvider::Named), ..ALL };
    let port_groups = NetworkProviders { default_network: true, ..ALL };
    let (of_net_operator, of_nsx) =
        (asked(InterfaceKind::NetOperator, "net-cp-0"), asked(InterfaceKind::Nsx, "net-cp-0-lsp"));
    for (network_type, providers, plug) in [
        ("", NO_PROVIDER, NicSource::Named(Some("net"))),
        ("", distributed, of_net_operator.clone()),
        ("", nsx, of_nsx.clone()),
        ("vsphere-distributed", distributed, of_net_operator.clone()),
        ("vsphere-distributed", ALL, of_net_operator),
        ("vsphere-distributed", named, NicSource::Named(Some("net"))),
        ("vsphere-distributed", NO_PROVIDER, NicSource::Named(Some("net"))),
        ("nsx-t", nsx, of_nsx.clone()),
        ("nsx-t", ALL, of_nsx),
        ("nsx-t", port_groups, NicSource::VirtualNetwork("net")),
        ("nsx-t", named, NicSource::VirtualNetwork("net")),
    ] {
        let interface = interface(network_type);
        assert_eq!(
            resolve_nic_source(&vm(), &interface, providers),
            Ok(plug),
            "{network_type:?} {providers:?}"
        );
    }
    for (network_type, providers, words) in [
        ("nsx-t-subnet", ALL, "not supported"),
        ("nsx-t", NetworkProviders { nsx: false, ..nsx }, "does not serve the kind VirtualNetworkInterface"),
        (
            "",
            NetworkProviders { net_operator: false, ..distributed },
            "does not serve the kind NetworkInterface",
        ),
    ] {
        let unmet = resolve_nic_source(&vm(), &interface(network_type), providers).unwrap_err();
        assert!(unmet.message.contains(words), "{network_type}: {}", unmet.message);
    }
}

#[test]
fn a_nic_may_name_the_object_itself() {
    let given = |group: &str, kind: &str| {
        let reference = json!({ "apiGroup": group, "kind": kind, "name": "mine" });
        serde_json::from_value(json!({ "providerRef": reference })).unwrap()
    };
    let of_net_operator = given("netoperator.vmware.com", "NetworkInterface");
    let mine = NicSource::Given(InterfaceKind::NetOperator, "mine");
    assert_eq!(resolve_nic_source(&vm(), &of_net_operator, ALL), Ok(mine));
    let message = resolve_nic_source(&vm(), &of_net_operator, NO_PROVIDER).unwrap_err().message;
    assert!(message.contains("Install net-operator"), "{message}");
    let of_nsx = given("vmware.com", "VirtualNetworkInterface");
    assert_eq!(resolve_nic_source(&vm(), &of_nsx, ALL), Ok(NicSource::Given(InterfaceKind::Nsx, "mine")));
    let other = given("crd.nsx.vmware.com", "SubnetPort");
    let message = resolve_nic_source(&vm(), &other, ALL).unwrap_err().message;
    assert!(message.contains("SubnetPort of crd.nsx.vmware.com"), "{message}");
}

#[test]
fn what_is_asked_for_names_its_network_and_its_vm_and_is_nobody_s() {
    let NicRequest::NetOperator(asked) =
        nic_request(&vm(), InterfaceKind::NetOperator, "net-cp-0", Some("net"))
    else {
        panic!("of net-operator")
    };
    assert_eq!((asked.namespace().as_deref(), asked.name_any().as_str()), (Some("ns"), "net-cp-0"));
    assert_eq!(json!(asked.spec), json!({ "networkName": "net", "type": "vmxnet3" }));
    assert_eq!(made_for(&*asked).as_deref(), Some("ns/cp-0"));
    assert!(asked.owner_references().is_empty());

    let NicRequest::Nsx(asked) = nic_request(&vm(), InterfaceKind::Nsx, "net-cp-0-lsp", Some("net")) else {
        panic!("of NSX")
    };
    assert_eq!(json!(asked.spec), json!({ "virtualNetwork": "net" }));
    assert_eq!(made_for(&*asked).as_deref(), Some("ns/cp-0"));
    assert!(asked.owner_references().is_empty());
    let mut vm = vm();
    vm.spec.network_interfaces = vec![interface("nsx-t")];
    let names = request_names(&vm).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(names, ["net-cp-0", "net-cp-0-lsp"]);
    let NicRequest::NetOperator(default) = nic_request(&vm, InterfaceKind::NetOperator, "cp-0", None) else {
        panic!("of net-operator")
    };
    assert_eq!(json!(default.spec), json!({ "type": "vmxnet3" }), "the namespace's default network");
}

#[test]
fn what_net_operator_answers_becomes_a_nic() {
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
    let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.1.0.9/20", "fd00::9/64"]);
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
fn what_nsx_answers_becomes_a_nic() {
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
    for status in [Value::Null, json!({}), json!({ "conditions": [{ "type": "Ready", "status": "False" }] })]
    {
        let unmet = net_operator(&status).unwrap_err();
        assert!(unmet.underway && unmet.message.contains("NetworkInterface ns/n is not Ready"), "{unmet:?}");
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
        !unmet.underway && unmet.message.contains("VirtualNetworkInterface ns/n: VirtualNetwork net is gone")
    );
    assert!(nsx(&json!({ "conditions": ready() })).unwrap_err().message.contains("nsxLogicalSwitchID"));
}
