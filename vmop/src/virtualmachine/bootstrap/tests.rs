//! Tests for the bootstrap data of each transport.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use api::names::{annotation, label};
use api::vmop::VirtualMachine;
use bounds::Confidential;
use kit::bounded::Budget;
use vsphere::{Backing, CustomizationIdentity, CustomizationSpec, NicKind, VAppChange, VAppProperty};

use crate::testing::fixtures::{self, fixed, with_transport};
use crate::unmet::Need;
use crate::vcenter::GuestNetwork;
use crate::virtualmachine::bootstrap::compose::{LIMITS, compose, compose_within_limits};
use crate::virtualmachine::bootstrap::data::{Bootstrap, BootstrapInput, HASH, VApp};
use crate::virtualmachine::bootstrap::observe::DataSource;
use crate::virtualmachine::bootstrap::user_data::{UserData, user_data};
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::identity::uuids::Identity;
use crate::virtualmachine::nic::adapter::{Addressing, Nic};

mod limits;
mod refusals;
mod secrets;

fn annotated(transport: &str, key: &str, value: &str) -> VirtualMachine {
    let mut vm = with_transport(transport);
    vm.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
    vm
}

fn nic(mac: Option<&str>, addressing: Addressing) -> Nic {
    let backing = Backing::Network { name: "n".into(), network: None };
    Nic { mac: mac.map(str::to_owned), addressing, ..Nic::plain(NicKind::Vmxnet3, backing) }
}

/// Returns a NIC with a static address and one that uses DHCP.
fn nics() -> Vec<Nic> {
    let addresses = fixed(&[("10.0.0.5", 24, "10.0.0.1"), ("2001:db8::5", 64, "2001:db8::1")]);
    vec![nic(Some("00-50-56-AA-00-01"), addresses), nic(None, Addressing::Dhcp)]
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

fn read(vm: &VirtualMachine, data: &[(&str, &str)]) -> Need<UserData> {
    user_data(vm, "Secret ns/s".into(), fixtures::secret_data(data))
}

/// Returns the input for a VM with one NIC and an image whose cloud-init can wait.
fn input<'a>(
    nics: &'a [Nic],
    properties: &'a [VAppProperty],
    network: &'a GuestNetwork,
) -> BootstrapInput<'a> {
    let identity = fixtures::facts(Found::Absent).identity;
    BootstrapInput { identity, nics, present: 1, properties, defers: true, network }
}

fn on(vm: &VirtualMachine, data: &[(&str, &str)], nics: &[Nic], network: &GuestNetwork) -> Need<Bootstrap> {
    let properties = properties();
    let input = input(nics, &properties, network);
    compose(vm, &read(vm, data)?, &input, &enough()).map_err(|error| error.into_unmet("Secret ns/s"))
}

fn enough() -> Budget {
    Budget::new(LIMITS.bytes)
}

fn with(vm: &VirtualMachine, data: &[(&str, &str)]) -> Need<Bootstrap> {
    on(vm, data, &nics(), &network())
}

/// Formats all bootstrap data for snapshots, decompressed.
fn shown(bootstrap: &Bootstrap) -> String {
    let mut lines = Vec::new();
    let decoded = cloudinit::decode(&bootstrap.extra_config, &enough()).unwrap();
    for (key, value) in &bootstrap.extra_config {
        let plain = match key.as_str() {
            "guestinfo.metadata" => decoded.metadata.clone(),
            "guestinfo.userdata" => decoded.userdata.clone(),
            "guestinfo.vendordata" => decoded.vendordata.clone(),
            _ => None,
        };
        let text = plain.map_or_else(|| value.clone(), |plain| String::from_utf8(plain).unwrap());
        let text = if key == HASH { "<hash>".to_owned() } else { text };
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
    // `Debug` omits these, because they are secret.
    match bootstrap.customization.as_ref().map(|spec| &spec.identity) {
        Some(CustomizationIdentity::SysprepText(text)) => lines.push(format!("answer file: {text:?}")),
        Some(CustomizationIdentity::CloudinitPrep { userdata, .. }) => {
            lines.push(format!("userdata: {userdata:?}"));
        }
        _ => {}
    }
    lines.join("\n")
}

#[test]
fn debug_output_of_bootstrap_data_omits_its_values() {
    const CANARY: &str = "canary";
    let property =
        VAppProperty { id: "password".into(), value: Some(CANARY.into()), ..VAppProperty::default() };
    let properties = VAppChange { properties: vec![property], ..VAppChange::default() };
    for identity in [
        CustomizationIdentity::SysprepText(CANARY.to_owned()),
        CustomizationIdentity::CloudinitPrep { metadata: String::new(), userdata: Some(CANARY.to_owned()) },
    ] {
        let customization =
            CustomizationSpec { identity, dns_suffixes: vec![], dns_servers: vec![], adapters: vec![] };
        let bootstrap = Bootstrap {
            extra_config: [("guestinfo.userdata".to_owned(), CANARY.to_owned())].into(),
            v_app: VApp::Changed(properties.clone()),
            customization: Some(customization),
        };
        let data = [("user-data".to_owned(), Confidential::new(CANARY.as_bytes().to_vec()))].into();
        let user_data = UserData { data, ..UserData::default() };
        let shown = format!("{bootstrap:?} {user_data:?} {:?}", bootstrap.steps());
        let bytes = format!("{:?}", CANARY.as_bytes());
        assert!(!shown.contains(CANARY) && !shown.contains(&bytes), "{shown}");
        assert!(shown.contains("guestinfo.userdata") && shown.contains("user-data"), "{shown}");
    }
}

#[test]
fn without_a_transport_the_guest_gets_its_name_and_addresses() {
    insta::assert_snapshot!(shown(&with(&with_transport(""), &[]).unwrap()));
}

#[test]
fn extra_config_is_the_keys_of_guestinfo_and_no_others() {
    let data = [("guestinfo.appliance", "a: {{ .Not }}"), ("disk.enableUUID", "FALSE")];
    insta::assert_snapshot!(shown(&with(&with_transport("ExtraConfig"), &data).unwrap()));
    // ExtraConfig is the default transport for data.
    assert_eq!(with(&with_transport("ExtraConfig"), &data), {
        let mut vm = with_transport("ExtraConfig");
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
    insta::assert_snapshot!(shown(&with(&with_transport("ExtraConfig"), &data).unwrap()));

    let own = ("guestinfo.metadata", "instance-id: i\nnetwork: {}\n");
    let composed = with(&with_transport("ExtraConfig"), &[own]).unwrap();
    assert_eq!(composed.extra_config[own.0], own.1, "the user's network wins");
    let plain = [nic(None, Addressing::Dhcp)];
    let composed = on(&with_transport("ExtraConfig"), &data, &plain, &GuestNetwork::default()).unwrap();
    assert_eq!(composed.extra_config[own.0], data[0].1, "nothing is known that need be configured");
}

#[test]
fn cloud_init_gets_our_metadata_and_the_users_data() {
    let data = [("user-data", "#cloud-config\n"), ("value", "other"), ("ssh-public-keys", "ssh-ed25519 A\n")];
    let mut vm = with_transport("CloudInit");
    vm.metadata.labels = Some([(label::CAPW_CLUSTER_ROLE.to_owned(), "node".to_owned())].into());
    insta::assert_snapshot!(shown(&with(&vm, &data).unwrap()));
}

#[test]
fn userdata_is_taken_plain_or_packed_by_either_name() {
    let composed = |data: &[(&str, &str)]| {
        let composed = with(&with_transport("CloudInit"), data).unwrap();
        String::from_utf8(cloudinit::decode(&composed.extra_config, &enough()).unwrap().userdata.unwrap())
            .unwrap()
    };
    let packed =
        cloudinit::encode(&cloudinit::NodeMetadata::default(), b"#cloud-config", None, &enough()).unwrap();
    for (key, value) in [
        ("user-data", "#cloud-config"),
        ("value", "#cloud-config"),
        ("value", "I2Nsb3VkLWNvbmZpZw=="),
        ("user-data", packed["guestinfo.userdata"].as_str()),
    ] {
        assert_eq!(composed(&[(key, value)]), "#cloud-config", "{key}: {value}");
    }
}

#[test]
fn a_users_own_metadata_and_network_win() {
    let data = [
        ("user-data", "#cloud-config\n"),
        ("metadata", "instance-id: mine\nwait-on-network: {ipv6: true}\ncolour: blue\n"),
        ("network-config", "network:\n  version: 2\n  ethernets: {ens192: {addresses: [10.9.9.9/24]}}\n"),
    ];
    insta::assert_snapshot!(shown(&with(&with_transport("CloudInit"), &data).unwrap()));
}

/// Returns the network in the metadata of a VM that is created with these NICs.
fn network_config(nics: &[Nic], network: &GuestNetwork) -> String {
    let vm = with_transport("CloudInit");
    let identity = fixtures::facts(Found::Absent).identity;
    let source = DataSource::of(read(&vm, &[("value", "#")]));
    let nics = source.with_macs(nics.to_vec(), identity, network);
    let composed = on(&vm, &[("value", "#")], &nics, network).unwrap();
    let metadata = cloudinit::decode(&composed.extra_config, &enough()).unwrap().metadata(&enough()).unwrap();
    metadata.other.get("network").map_or_else(String::new, ToString::to_string)
}

/// Returns every kind of network configuration in metadata, and cases that don't need one.
fn networks() -> Vec<String> {
    let none = GuestNetwork::default();
    let address = fixed(&[("10.0.0.5", 24, "10.0.0.1")]);
    let both = fixed(&[("2001:db8::5", 64, "2001:db8::1"), ("10.0.0.5", 24, "10.0.0.1")]);
    let plain = || nic(None, Addressing::Dhcp);
    let e1000 = || Nic { kind: NicKind::E1000e, ..plain() };
    let known = |addressing| nic(Some("00:50:56:aa:00:01"), addressing);
    vec![
        network_config(&[nic(None, address.clone())], &none),
        network_config(&[nic(None, address), nic(None, Addressing::Unaddressed)], &none),
        network_config(&[known(Addressing::Dhcp), plain()], &none),
        network_config(&[known(both)], &none),
        network_config(&[plain(), e1000()], &network()),
        network_config(&[plain(), e1000()], &none),
        network_config(&[], &network()),
    ]
}

#[test]
fn a_guest_that_has_to_know_its_nics_learns_their_macs() {
    insta::assert_snapshot!(networks().join("\n"));
}

#[test]
fn every_renderer_of_cloud_init_takes_every_network() {
    if Command::new("cloud-init").arg("--version").output().is_err() {
        eprintln!(
            "SKIPPED: cloud-init is not installed, so its renderers were not tried (Debian: apt-get install cloud-init)"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (at, network) in networks().iter().filter(|network| !network.is_empty()).enumerate() {
        let config: serde_json::Value = serde_json::from_str(network).unwrap();
        let file = folder.path().join(format!("{at}.yaml"));
        std::fs::write(&file, network).unwrap();
        for renderer in ["netplan", "networkd", "eni"] {
            let into = folder.path().join(format!("{at}-{renderer}"));
            let mut convert = Command::new("cloud-init");
            convert.args([
                "devel",
                "net-convert",
                "--kind",
                "yaml",
                "--distro",
                "debian",
                "--output-kind",
                renderer,
            ]);
            convert.arg("--network-data").arg(&file).arg("--directory").arg(&into);
            let done = convert.output().unwrap();
            let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(
                done.status.success() && !complaint.contains("eprecated"),
                "{renderer}, {network}: {complaint}"
            );
            let written = written_below(&into);
            for ethernet in config["ethernets"].as_object().unwrap().values() {
                let routes = ethernet["routes"].as_array().into_iter().flatten().map(|route| &route["via"]);
                for known in routes.chain([&ethernet["match"]["macaddress"]]) {
                    let known = known.as_str().unwrap();
                    assert!(written.contains(known), "{renderer} lacks {known}: {written}");
                }
            }
        }
    }
}

fn written_below(folder: &Path) -> String {
    let below = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        if path.is_dir() { written_below(&path) } else { std::fs::read_to_string(path).unwrap() }
    };
    below.map(read).collect()
}

#[test]
fn a_mac_that_is_drawn_is_the_vms_own_and_stays() {
    let identity = fixtures::facts(Found::Absent).identity;
    let mac = |identity, at| nic(None, Addressing::Dhcp).with_mac(identity, at).mac.unwrap();
    let other = Identity { instance: uuid::Uuid::from_u128(7), ..identity };
    let drawn = [mac(identity, 0), mac(identity, 1), mac(other, 0)];
    assert_eq!(BTreeSet::from(drawn.clone()).len(), 3, "{drawn:?}");
    assert!(drawn.iter().all(|mac| mac.starts_with("02:") && mac.len() == 17), "{drawn:?}");
    assert_eq!(mac(identity, 0), drawn[0]);
    let given = nic(Some("00:50:56:aa:00:01"), Addressing::Dhcp).with_mac(identity, 0);
    assert_eq!(given.mac.as_deref(), Some("00:50:56:aa:00:01"));
}

#[test]
fn who_the_guest_is_outlives_a_move() {
    let id = |vm: &VirtualMachine| {
        let composed = with(vm, &[("value", "#")]).unwrap();
        cloudinit::decode(&composed.extra_config, &enough()).unwrap().metadata(&enough()).unwrap().instance_id
    };
    let mut moved = with_transport("CloudInit");
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
    let data = [("ip", "{{ V1alpha1_FirstIP }}"), ("same", "old")];
    insta::assert_snapshot!(shown(&with(&with_transport("OvfEnv"), &data).unwrap()));
    let composed = with(&with_transport("vAppConfig"), &data).unwrap();
    assert_eq!(composed.customization, None);
    assert!(!composed.extra_config.contains_key(crate::extra_config::DEFER_CLOUD_INIT));
    assert_eq!(composed.v_app, with(&with_transport("OvfEnv"), &data).unwrap().v_app);
}

#[test]
fn windows_gets_its_answer_file() {
    let data = [("unattend", "<a ip=\"{{ V1alpha1_FirstIP }}\" mac=\"{{ V1alpha1_FirstNicMacAddr }}\"/>")];
    let composed = with(&with_transport("Sysprep"), &data).unwrap();
    insta::assert_snapshot!(shown(&composed));
    assert!(!format!("{composed:?}").contains("<a ip"));
}

#[test]
fn customization_can_be_kept_away() {
    let vm = annotated("", annotation::VSPHERE_CUSTOMIZATION, "disable");
    let composed = with(&vm, &[]).unwrap();
    assert_eq!(composed.customization, None);
    assert!(!composed.extra_config.contains_key("vmware.tools.gosc.ignoretoolscheck"));
}

#[test]
fn a_vm_without_nics_is_customized_by_what_its_template_has() {
    let composed = on(&with_transport(""), &[], &[], &GuestNetwork::default()).unwrap();
    assert_eq!(composed.customization.unwrap().adapters.len(), 1);
}

#[test]
fn what_is_wrong_is_reported_with_the_key_and_never_with_its_value() {
    let secret = "SECRET".repeat(20_000);
    // Random data that can't be compressed.
    let mut state = 1_u64;
    let mut sign = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'#' + u8::try_from((state >> 33) % 90).unwrap())
    };
    let noise: String = (0..70_000).map(|_| sign()).collect();
    let shown_of = |transport: &str, data: &[(&str, &str)]| {
        with(&with_transport(transport), data)
            .map_or_else(|unmet| unmet.message, |composed| format!("{composed:?}"))
    };
    let composed = [
        shown_of("ExtraConfig", &[("value", "x")]),
        shown_of("ExtraConfig", &[("guestinfo.userdata", &secret)]),
        shown_of("CloudInit", &[("other", "x")]),
        shown_of("CloudInit", &[("value", &noise)]),
        shown_of("CloudInit", &[("value", "H4sISECRET==")]),
        shown_of("CloudInit", &[("value", "x"), ("metadata", "- SECRET")]),
        shown_of("Sysprep", &[("value", "SECRET")]),
        shown_of("Sysprep", &[("unattend", "SECRET\n  {{ V1alpha1_FirstIPFromNIC 7 }}")]),
        shown_of("vAppConfig", &[("ip", "{{ .V1alpha1.Net.Devices")]),
        shown_of("vAppConfig", &[("ip", "{{ (index .V1alpha1.Net.Devices 1).MacAddress }}")]),
        shown_of("carrier pigeon", &[]),
    ];
    assert!(!composed.join("\n").contains("SECRET"), "{}", composed.join("\n"));
    insta::assert_snapshot!(composed.join("\n"));
}

#[test]
fn templates_reach_addresses_nameservers_and_the_object() {
    let vm = with_transport("vAppConfig");
    let value = |text: &str| match with(&vm, &[("ip", text)]) {
        Ok(composed) => match composed.v_app {
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
            " 4: the network adapter has no address from the network provider. Correct it",
        ),
        ("{{ V1alpha1_IPsFromNIC 0 }}", "[10.0.0.5/24 2001:db8::5/64]"),
        ("{{ V1alpha1_FirstNicMacAddr }}", "00-50-56-AA-00-01"),
        ("{{ V1alpha1_FormatIP V1alpha1_FirstIP \"\" }}", "10.0.0.5"),
        ("{{ V1alpha1_FormatIP \"10.0.0.5\" \"/16\" }}", "10.0.0.5/16"),
        ("{{ V1alpha1_FormatIP \"10.0.0.5/8\" \"255.255.252.0\" }}", "10.0.0.5/22"),
        ("{{ V1alpha1_FormatIP \"10.0.0.5\" \"255.0.255.0\" }}", " 4: an argument is not a mask. Correct it"),
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
    let vm = with_transport("CloudInit");
    let one = hash(&vm, &[("value", "x")]);
    assert_eq!(one.len(), 16);
    assert_eq!(one, hash(&vm, &[("value", "x")]));
    let mut all: Vec<_> = [
        hash(&vm, &[("value", "y")]),
        hash(&vm, &[("valuex", "")]),
        hash(&with_transport("ExtraConfig"), &[("value", "x")]),
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
fn a_change_of_the_data_is_noted_last() {
    let composed = with(&with_transport(""), &[]).unwrap();
    let words: Vec<_> = composed.steps().iter().map(crate::virtualmachine::step::Step::word).collect();
    assert_eq!(words, ["customize", "reconfigure"]);
    let entries: BTreeMap<_, _> = composed.entries().collect();
    assert_eq!(entries["guestinfo.userdata"], "");
    assert!(entries.contains_key(HASH));
}
