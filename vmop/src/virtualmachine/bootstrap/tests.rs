//! What a guest is told, transport by transport.

use std::collections::BTreeMap;

use api::names::{annotation, label};
use api::vmop::VirtualMachine;
use serde_json::json;
use vsphere::{Backing, NicKind, VAppProperty};

use crate::testing::fixtures;
use crate::unmet::Need;
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::bootstrap::user_data::{Told, told};
use crate::virtualmachine::bootstrap::{Bootstrap, Surroundings, VApp, bootstrap};
use crate::virtualmachine::nic::nic::{Address, Addressing, Card};
use crate::virtualmachine::plan::Found;

fn machine(transport: &str) -> VirtualMachine {
    let mut vm = fixtures::virtual_machine();
    vm.spec.vm_metadata = (!transport.is_empty())
        .then(|| serde_json::from_value(json!({"secretName": "s", "transport": transport})).unwrap());
    vm
}

fn annotated(transport: &str, key: &str, value: &str) -> VirtualMachine {
    let mut vm = machine(transport);
    vm.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
    vm
}

fn card(mac: Option<&str>, addressing: Addressing) -> Card {
    let backing = Backing::Network { name: "n".into(), network: None };
    Card { mac: mac.map(str::to_owned), addressing, ..Card::plain(NicKind::Vmxnet3, backing) }
}

fn fixed(addresses: &[(&str, u8, &str)]) -> Addressing {
    let address = |(ip, prefix, gateway): &(&str, u8, &str)| Address {
        ip: ip.parse().unwrap(),
        prefix: *prefix,
        gateway: gateway.parse().ok(),
    };
    Addressing::Static(addresses.iter().map(address).collect())
}

/// A card with an address, and one that has DHCP.
fn cards() -> Vec<Card> {
    let addresses = fixed(&[("10.0.0.5", 24, "10.0.0.1"), ("2001:db8::5", 64, "2001:db8::1")]);
    vec![card(Some("00-50-56-AA-00-01"), addresses), card(None, Addressing::Dhcp)]
}

fn network() -> GuestNetwork {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    GuestNetwork { nameservers: words(&["10.0.0.53", "8.8.8.8"]), search: words(&["lab"]), mtu: Some(9000) }
}

fn properties() -> Vec<VAppProperty> {
    let property = |key, id: &str, user_configurable| VAppProperty {
        key,
        id: id.into(),
        user_configurable,
        value: Some("old".into()),
        ..VAppProperty::default()
    };
    vec![
        property(0, "ip", true),
        property(1, "serial", false),
        property(2, "same", true),
        property(3, "x", true),
    ]
}

fn read(vm: &VirtualMachine, data: &[(&str, &str)]) -> Need<Told> {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
    told(vm, "Secret ns/s".into(), data.collect())
}

fn on(vm: &VirtualMachine, data: &[(&str, &str)], cards: &[Card], network: &GuestNetwork) -> Need<Bootstrap> {
    let identity = fixtures::facts(Found::Lost(None)).identity;
    let (properties, present) = (properties(), 1);
    let around = Surroundings { identity, cards, present, properties: &properties, defers: true, network };
    bootstrap(vm, &read(vm, data)?, &around)
}

fn with(vm: &VirtualMachine, data: &[(&str, &str)]) -> Need<Bootstrap> {
    on(vm, data, &cards(), &network())
}

/// All of it as people would want to read it: what is packed is unpacked.
fn shown(bootstrap: &Bootstrap) -> String {
    let mut lines = Vec::new();
    let decoded = cloudinit::decode(&bootstrap.extra_config).unwrap();
    for (key, value) in &bootstrap.extra_config {
        let plain = match key.as_str() {
            "guestinfo.metadata" => decoded.metadata.clone(),
            "guestinfo.userdata" => decoded.userdata.clone(),
            "guestinfo.vendordata" => decoded.vendordata.clone(),
            _ => None,
        };
        let text = plain.map_or_else(|| value.clone(), |plain| String::from_utf8(plain).unwrap());
        let text = if key == super::HASH { "<hash>".to_owned() } else { text };
        lines.push(format!("{key}: {}", text.trim_end().replace('\n', "\n    ")));
    }
    let v_app = match &bootstrap.v_app {
        VApp::Changed(spec) => {
            let values = spec.properties.iter().map(|property| {
                format!(
                    "{} {} = {}",
                    property.key,
                    property.id,
                    property.value.as_deref().unwrap_or_default()
                )
            });
            format!("{:?} {:?}", values.collect::<Vec<_>>(), spec.transports)
        }
        other => format!("{other:?}"),
    };
    lines.push(format!("vApp: {v_app}"));
    let customization = vsphere::Value::from(bootstrap.customization.clone().map_or_else(
        || vsphere::Object::new("none"),
        |spec| match vsphere::Value::from(spec) {
            vsphere::Value::Object(object) => object,
            _ => vsphere::Object::new("?"),
        },
    ));
    lines.push(format!("customization: {customization:#?}"));
    lines.join("\n")
}

#[test]
fn without_a_transport_the_guest_gets_its_name_and_addresses() {
    insta::assert_snapshot!(shown(&with(&machine(""), &[]).unwrap()));
}

#[test]
fn extra_config_is_the_keys_of_guestinfo_and_no_others() {
    let data = [("guestinfo.appliance", "a: {{ .Not }}"), ("disk.enableUUID", "FALSE")];
    insta::assert_snapshot!(shown(&with(&machine("ExtraConfig"), &data).unwrap()));
    // Data without a transport is the same.
    assert_eq!(with(&machine("ExtraConfig"), &data), {
        let mut vm = machine("ExtraConfig");
        vm.spec.vm_metadata.as_mut().unwrap().transport = None;
        with(&vm, &data)
    });
}

#[test]
fn cloud_init_by_extra_config_learns_the_network_and_is_not_customised() {
    let data = [
        ("guestinfo.metadata", "instance-id: i\nlocal-hostname: h\n"),
        ("guestinfo.userdata", "#cloud-config"),
    ];
    insta::assert_snapshot!(shown(&with(&machine("ExtraConfig"), &data).unwrap()));

    let told =
        with(&machine("ExtraConfig"), &[("guestinfo.metadata", "instance-id: i\nnetwork: {}\n")]).unwrap();
    assert_eq!(
        told.extra_config["guestinfo.metadata"], "instance-id: i\nnetwork: {}\n",
        "the user's network wins"
    );
    let plain = [card(None, Addressing::Dhcp)];
    let told = on(&machine("ExtraConfig"), &data, &plain, &GuestNetwork::default()).unwrap();
    assert_eq!(told.extra_config["guestinfo.metadata"], data[0].1, "nothing is known that need be told");
}

#[test]
fn cloud_init_gets_our_metadata_and_the_users_data() {
    let data = [("user-data", "#cloud-config\n"), ("value", "other"), ("ssh-public-keys", "ssh-ed25519 A\n")];
    let mut vm = machine("CloudInit");
    vm.metadata.labels = Some([(label::CAPW_CLUSTER_ROLE.to_owned(), "node".to_owned())].into());
    insta::assert_snapshot!(shown(&with(&vm, &data).unwrap()));
}

#[test]
fn userdata_is_taken_plain_or_packed_by_either_name() {
    let told = |data: &[(&str, &str)]| {
        let told = with(&machine("CloudInit"), data).unwrap();
        String::from_utf8(cloudinit::decode(&told.extra_config).unwrap().userdata.unwrap()).unwrap()
    };
    let packed = cloudinit::encode(&cloudinit::Metadata::default(), b"#cloud-config", None).unwrap();
    for (key, value) in [
        ("user-data", "#cloud-config"),
        ("value", "#cloud-config"),
        ("value", "I2Nsb3VkLWNvbmZpZw=="),
        ("user-data", packed["guestinfo.userdata"].as_str()),
    ] {
        assert_eq!(told(&[(key, value)]), "#cloud-config", "{key}: {value}");
    }
}

#[test]
fn a_users_own_metadata_and_network_win() {
    let data = [
        ("user-data", "#cloud-config\n"),
        ("metadata", "instance-id: mine\nwait-on-network: {ipv6: true}\ncolour: blue\n"),
        ("network-config", "network:\n  version: 2\n  ethernets: {ens192: {addresses: [10.9.9.9/24]}}\n"),
    ];
    insta::assert_snapshot!(shown(&with(&machine("CloudInit"), &data).unwrap()));
}

#[test]
fn a_single_card_without_a_mac_is_told_by_its_driver() {
    let metadata = |cards: &[Card], network: &GuestNetwork| {
        let told = on(&machine("CloudInit"), &[("value", "#")], cards, network).unwrap();
        let metadata = cloudinit::decode(&told.extra_config).unwrap().metadata().unwrap();
        metadata.other.get("network").map_or_else(String::new, ToString::to_string)
    };
    let none = GuestNetwork::default();
    let address = fixed(&[("10.0.0.5", 24, "10.0.0.1")]);
    let said = [
        metadata(&[card(None, address.clone())], &none),
        metadata(&[card(None, address.clone()), card(None, Addressing::Unaddressed)], &none),
        metadata(&[card(Some("00:50:56:AA:00:01"), Addressing::Dhcp)], &none),
        metadata(&[card(None, Addressing::Dhcp)], &network()),
        metadata(&[card(None, Addressing::Dhcp)], &none),
        metadata(&[], &network()),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn cards_without_macs_are_told_by_their_driver_while_that_tells_enough() {
    let told = |cards: &[Card]| {
        let told = on(&machine("CloudInit"), &[("value", "#")], cards, &network()).unwrap();
        let metadata = cloudinit::decode(&told.extra_config).unwrap().metadata().unwrap();
        let ethernets = metadata.other["network"]["ethernets"].as_object().unwrap().clone();
        let matches = ethernets.iter().map(|(name, ethernet)| format!("{name} {}", ethernet["match"]));
        matches.collect::<Vec<_>>()
    };
    let plain = || card(None, Addressing::Dhcp);
    let e1000 = || Card { kind: NicKind::E1000e, ..plain() };
    let fixed = || card(None, fixed(&[("10.0.0.5", 24, "10.0.0.1")]));
    let known = || card(Some("00:50:56:aa:00:01"), Addressing::Dhcp);
    for (cards, expected) in [
        (vec![plain(), plain()], vec![r#"eth0 {"driver":"vmxnet3"}"#]),
        (
            vec![plain(), e1000(), plain()],
            vec![r#"eth0 {"driver":"vmxnet3"}"#, r#"eth1 {"driver":"e1000e"}"#],
        ),
        (vec![fixed(), e1000()], vec![r#"eth0 {"driver":"vmxnet3"}"#, r#"eth1 {"driver":"e1000e"}"#]),
        (vec![fixed(), plain()], vec![r#"eth0 {"name":"eth0"}"#, r#"eth1 {"name":"eth1"}"#]),
        (
            vec![known(), plain()],
            vec![r#"eth0 {"macaddress":"00:50:56:aa:00:01"}"#, r#"eth1 {"name":"eth1"}"#],
        ),
    ] {
        assert_eq!(told(&cards), expected);
    }
}

#[test]
fn who_the_guest_is_outlives_a_move() {
    let id = |vm: &VirtualMachine| {
        let told = with(vm, &[("value", "#")]).unwrap();
        cloudinit::decode(&told.extra_config).unwrap().metadata().unwrap().instance_id
    };
    let mut moved = machine("CloudInit");
    moved.metadata.uid = Some("another".into());
    assert_eq!(id(&moved), "42370000-0000-4000-8000-000000000001");
    assert_eq!(id(&annotated("CloudInit", annotation::CLOUD_INIT_INSTANCE_ID, "restored")), "restored");
}

#[test]
fn cloud_init_by_customization_goes_in_plain() {
    let vm = annotated("CloudInit", annotation::CLOUDINIT_TYPE, "cloudinitprep");
    insta::assert_snapshot!(shown(&with(&vm, &[("value", "I2Nsb3VkLWNvbmZpZw==")]).unwrap()));
}

#[test]
fn ovf_properties_that_exist_and_may_be_set_are_set() {
    let data = [("ip", "{{ V1alpha1_FirstIP }}"), ("serial", "9"), ("same", "old"), ("unknown", "u")];
    insta::assert_snapshot!(shown(&with(&machine("OvfEnv"), &data).unwrap()));
    let told = with(&machine("vAppConfig"), &data).unwrap();
    assert_eq!(told.customization, None);
    assert!(!told.extra_config.contains_key(crate::extra_config::DEFER_CLOUD_INIT));
    assert_eq!(told.v_app, with(&machine("OvfEnv"), &data).unwrap().v_app);
}

#[test]
fn windows_gets_its_answer_file() {
    let data = [("unattend", "<a ip=\"{{ V1alpha1_FirstIP }}\" mac=\"{{ V1alpha1_FirstNicMacAddr }}\"/>")];
    let told = with(&machine("Sysprep"), &data).unwrap();
    insta::assert_snapshot!(shown(&told));
    assert!(!format!("{told:?}").contains("<a ip"));
}

#[test]
fn customization_can_be_kept_away() {
    let vm = annotated("", annotation::VSPHERE_CUSTOMIZATION, "disable");
    let told = with(&vm, &[]).unwrap();
    assert_eq!(told.customization, None);
    assert!(!told.extra_config.contains_key("vmware.tools.gosc.ignoretoolscheck"));
}

#[test]
fn a_card_less_machine_is_customised_by_what_its_template_has() {
    let told = on(&machine(""), &[], &[], &GuestNetwork::default()).unwrap();
    assert_eq!(told.customization.unwrap().adapters.len(), 1);
}

#[test]
fn what_is_wrong_is_told_with_the_key_and_never_with_its_value() {
    let secret = "SECRET".repeat(20_000);
    // Nothing that can be packed.
    let mut state = 1_u64;
    let mut sign = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'#' + u8::try_from((state >> 33) % 90).unwrap())
    };
    let noise: String = (0..70_000).map(|_| sign()).collect();
    let said = |transport: &str, data: &[(&str, &str)]| {
        with(&machine(transport), data).map_or_else(|unmet| unmet.message, |told| format!("{told:?}"))
    };
    let told = [
        said("ExtraConfig", &[("value", "x")]),
        said("ExtraConfig", &[("guestinfo.userdata", &secret)]),
        said("CloudInit", &[("other", "x")]),
        said("CloudInit", &[("value", &noise)]),
        said("CloudInit", &[("value", "H4sISECRET==")]),
        said("CloudInit", &[("value", "x"), ("metadata", "- SECRET")]),
        said("Sysprep", &[("value", "SECRET")]),
        said("Sysprep", &[("unattend", "SECRET\n  {{ V1alpha1_FirstIPFromNIC 7 }}")]),
        said("vAppConfig", &[("ip", "{{ .V1alpha1.Net.Devices")]),
        said("vAppConfig", &[("ip", "{{ (index .V1alpha1.Net.Devices 1).MacAddress }}")]),
        said("carrier pigeon", &[]),
    ];
    assert!(!told.join("\n").contains("SECRET"), "{}", told.join("\n"));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn templates_reach_addresses_nameservers_and_the_object() {
    let vm = machine("vAppConfig");
    let value = |text: &str| match with(&vm, &[("ip", text)]) {
        Ok(told) => match told.v_app {
            VApp::Changed(spec) => spec.properties[0].value.clone().unwrap(),
            other => format!("{other:?}"),
        },
        Err(unmet) => unmet.message.split(", column").last().unwrap_or_default().to_owned(),
    };
    for (template, text) in [
        ("{{ V1alpha1_FirstIP }}", "10.0.0.5/24"),
        ("{{ V1alpha1_FirstIPFromNIC 0 }}", "10.0.0.5/24"),
        (
            "{{ V1alpha1_FirstIPFromNIC 1 }}",
            " 4: network card 1 has no address from the network provider. Mend it",
        ),
        ("{{ V1alpha1_IPsFromNIC 0 }}", "[10.0.0.5/24 2001:db8::5/64]"),
        ("{{ V1alpha1_FirstNicMacAddr }}", "00-50-56-AA-00-01"),
        ("{{ V1alpha1_FormatIP V1alpha1_FirstIP \"\" }}", "10.0.0.5"),
        ("{{ V1alpha1_FormatIP \"10.0.0.5\" \"/16\" }}", "10.0.0.5/16"),
        ("{{ V1alpha1_FormatIP \"10.0.0.5/8\" \"255.255.252.0\" }}", "10.0.0.5/22"),
        ("{{ V1alpha1_FormatIP \"10.0.0.5\" \"255.0.255.0\" }}", " 4: \"255.0.255.0\" is no mask. Mend it"),
        ("{{ V1alpha1_IP \"172.16.0.1\" }}", "172.16.0.1/16"),
        ("{{ V1alpha1_SubnetMask V1alpha1_FirstIP }}", "255.255.255.0"),
        ("{{ V1alpha1_SubnetMask \"10.0.0.1/0\" }}", "0.0.0.0"),
        ("{{ V1alpha1_FormatNameservers 1 \"-\" }}", "10.0.0.53"),
        ("{{ V1alpha1_FormatNameservers -1 \",\" }}", "10.0.0.53,8.8.8.8"),
        ("{{ (index .V1alpha1.Net.Devices 0).Gateway4 }}", "10.0.0.1"),
        ("{{ index .V1alpha1.Net.Nameservers 1 }}", "8.8.8.8"),
        (
            "{{ .V1alpha1.VM.Name }} {{ .V1alpha1.VM.Spec.ClassName }}{{ .V1alpha1.VM.Labels }}",
            "cp-0 guaranteed-small",
        ),
        ("\\{\\{ kept \\}\\}", "{{ kept }}"),
    ] {
        assert_eq!(value(template), text, "{template}");
    }
}

#[test]
fn the_hash_stands_for_what_the_user_gave() {
    let salt = uuid::Uuid::from_u128(1);
    let hash = |vm: &VirtualMachine, data: &[(&str, &str)]| read(vm, data).unwrap().hash(salt);
    let vm = machine("CloudInit");
    let one = hash(&vm, &[("value", "x")]);
    assert_eq!(one.len(), 16);
    assert_eq!(one, hash(&vm, &[("value", "x")]));
    let mut all: Vec<_> = [
        hash(&vm, &[("value", "y")]),
        hash(&vm, &[("valuex", "")]),
        hash(&machine("ExtraConfig"), &[("value", "x")]),
        hash(&annotated("CloudInit", annotation::CLOUD_INIT_INSTANCE_ID, "i"), &[("value", "x")]),
        read(&vm, &[("value", "x")]).unwrap().hash(uuid::Uuid::from_u128(2)),
        one,
    ]
    .into();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
fn what_is_told_anew_is_noted_last() {
    let told = with(&machine(""), &[]).unwrap();
    let words: Vec<_> = told.steps().iter().map(crate::virtualmachine::step::Step::word).collect();
    assert_eq!(words, ["customize", "reconfigure"]);
    let entries: BTreeMap<_, _> = told.entries().collect();
    assert_eq!(entries["guestinfo.userdata"], "");
    assert!(entries.contains_key(super::HASH));
}
