//! Tests every transport with a real simulator process: the VM's settings, and the guest's setup.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::annotation;
use api::vmop::VirtualMachine;
use kit::bounded::Budget;
use serde_json::json;
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::inventory::PowerState;
use vsphere::{Backing, MoRef, NicKind, Value, Vm};

use crate::templates::GoldenTemplate;
use crate::testing::fixtures::{self, fixed, with_transport};
use crate::testing::vcsim::{clone_vm, plan_clone, seen, template, template_key, vcenter};
use crate::vcenter::{GuestNetwork, VCenter};
use crate::virtualmachine::bootstrap::compose::{LIMITS, compose};
use crate::virtualmachine::bootstrap::data::{Bootstrap, BootstrapInput, GUESTINFO, HASH};
use crate::virtualmachine::bootstrap::user_data::user_data;
use crate::virtualmachine::carry_out::steps::take_step;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::nic::adapter::{Addressing, Nic};
use crate::virtualmachine::step::{PowerMode, Step};

const MAC: &str = "00:50:56:aa:00:01";

/// A simulator with a template, and the network settings for guests.
struct Stage {
    sim: Sim,
    vcenter: Arc<VCenter>,
    template: Arc<GoldenTemplate>,
    network: GuestNetwork,
}

impl Stage {
    async fn of(sim: Sim) -> Self {
        let vcenter = vcenter(&sim).await;
        let template = template(&vcenter, &template_key(&sim, &vcenter).await).await;
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let network = GuestNetwork { nameservers: words(&["10.0.0.53"]), search: words(&["lab"]), mtu: None };
        Self { sim, vcenter, template, network }
    }

    async fn nic(&self, network: &str, mac: Option<&str>, addressing: Addressing) -> Nic {
        let backing = self.vcenter.network(network).await.unwrap().backing.clone();
        Nic { mac: mac.map(str::to_owned), addressing, ..Nic::plain(NicKind::Vmxnet3, backing) }
    }

    /// Returns a NIC with a MAC and address from the network provider, and one without.
    async fn nics(&self) -> Vec<Nic> {
        let addresses = fixed(&[("10.0.0.5", 24, "10.0.0.1"), ("2001:db8::5", 64, "2001:db8::1")]);
        vec![
            self.nic("workload", Some(MAC), addresses).await,
            self.nic("VM Network", None, Addressing::Dhcp).await,
        ]
    }

    fn composed(&self, vm: &VirtualMachine, data: &[(&str, &str)], nics: &[Nic]) -> Bootstrap {
        let input = BootstrapInput {
            identity: fixtures::facts(Found::Absent).identity,
            nics,
            present: self.template.devices.nics.len(),
            properties: &self.template.properties,
            defers: self.template.defers,
            network: &self.network,
        };
        let data = user_data(vm, "Secret ns/s".into(), fixtures::secret_data(data)).unwrap();
        compose(vm, &data, &input, &Budget::new(LIMITS.bytes)).unwrap()
    }

    /// Creates the VM with a single call, which also powers the VM on if its spec says so.
    async fn made(&self, vm: &VirtualMachine, data: &[(&str, &str)], nics: &[Nic]) -> Made {
        let facts = fixtures::facts(Found::Absent);
        let bootstrap = self.composed(vm, data, nics);
        let plan = plan_clone(vm, nics, &bootstrap, &facts, &self.template, &self.sim, &self.vcenter).await;
        self.sim.forget_requests().await;
        let vsphere_vm = within("the clone", clone_vm(&plan, &facts, &self.vcenter)).await.unwrap();
        for method in ["ReconfigVM_Task", "CustomizeVM_Task", "PowerOnVM_Task"] {
            assert_eq!(self.sim.calls(method).await, 0, "{method}: the one call is enough");
        }
        self.seen(&vsphere_vm.moref).await
    }

    /// Reads the VM from vCenter.
    async fn seen(&self, vsphere_vm: &MoRef) -> Made {
        let paths = ["config.extraConfig", "config.vAppConfig", "config.hardware.device", "guest"];
        let read = self.vcenter.client.retrieve(std::slice::from_ref(vsphere_vm), &paths).await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = read[0].get("config.extraConfig").items().iter();
        let properties = read[0].get("config.vAppConfig").get("property").items().iter();
        let guest = read[0].get("guest");
        Made {
            vsphere_vm: vsphere_vm.clone(),
            extra_config: options
                .map(|option| (text(option.get("key")), text(option.get("value"))))
                .collect(),
            properties: properties
                .map(|property| (text(property.get("id")), text(property.get("value"))))
                .collect(),
            nics: vsphere::Devices::read("", read[0].get("config.hardware.device")).nics,
            host_name: text(guest.get("hostName")),
            addresses: guest
                .get("net")
                .items()
                .iter()
                .map(|nic| text(&first(nic.get("ipAddress"))))
                .collect(),
            macs: guest.get("net").items().iter().map(|nic| text(nic.get("macAddress"))).collect(),
            customised: text(guest.get("customizationInfo").get("customizationStatus")),
        }
    }

    /// Carries out the steps in order. vCenter must accept each of them.
    async fn taken(&self, vsphere_vm: &MoRef, steps: &[Step]) {
        for step in steps {
            within(step.word(), take_step(vsphere_vm, step, &self.vcenter)).await.unwrap();
        }
    }

    async fn until(&self, vsphere_vm: &MoRef, what: &str, so: impl Fn(&Vm) -> bool) {
        within(what, seen(vsphere_vm, &self.vcenter, so)).await;
    }
}

fn first(value: &Value) -> Value {
    value.items().first().cloned().unwrap_or_default()
}

/// A VM in vCenter.
#[derive(Debug)]
struct Made {
    vsphere_vm: MoRef,
    extra_config: BTreeMap<String, String>,
    properties: BTreeMap<String, String>,
    nics: Vec<vsphere::VirtualNic>,
    host_name: String,
    /// The first address of each NIC, as the guest reports it.
    addresses: Vec<String>,
    macs: Vec<String>,
    /// The state of vCenter's guest customization.
    customised: String,
}

impl Made {
    /// Asserts that VMware Tools set the guest's name and the network provider's address.
    fn is_set_up(&self) {
        assert_eq!(self.customised, "TOOLSDEPLOYPKG_SUCCEEDED", "{self:?}");
        assert_eq!((self.host_name.as_str(), self.addresses[0].as_str()), ("cp-0", "10.0.0.5"), "{self:?}");
        assert_eq!(self.macs[0], MAC);
        assert_eq!(self.extra_config["vmware.tools.gosc.ignoretoolscheck"], "TRUE");
    }

    fn is_left_alone(&self) {
        assert_eq!(self.customised, "", "{self:?}");
        assert!(!self.extra_config.contains_key("vmware.tools.gosc.ignoretoolscheck"));
    }

    /// Asserts that cloud-init doesn't find any data.
    fn has_no_guestinfo(&self) {
        let composed =
            GUESTINFO.iter().filter(|key| self.extra_config.get(**key).is_some_and(|v| !v.is_empty()));
        assert_eq!(composed.count(), 0, "{self:?}");
    }

    /// Returns the network that cloud-init reads.
    fn network(&self) -> serde_json::Value {
        let decoded = cloudinit::decode(&self.extra_config, &Budget::new(1 << 20)).unwrap();
        decoded.metadata(&Budget::new(1 << 20)).unwrap().other["network"]["ethernets"].clone()
    }
}

fn off(mut vm: VirtualMachine) -> VirtualMachine {
    vm.spec.power_state = Some("poweredOff".into());
    vm
}

async fn without_a_transport_the_guest_is_set_up_by_vmware_tools(sim: Sim) {
    let stage = Stage::of(sim).await;
    let made = stage.made(&with_transport(""), &[], &stage.nics().await).await;
    made.is_set_up();
    made.has_no_guestinfo();
    assert!(!made.extra_config[HASH].is_empty());
    assert_eq!(made.properties["address"], "", "the image's own properties stay");
}

async fn ovf_env_sets_properties_and_the_guest_up(sim: Sim) {
    let stage = Stage::of(sim).await;
    let data = [("address", "{{ V1alpha1_FirstIP }}")];
    let made = stage.made(&with_transport("OvfEnv"), &data, &stage.nics().await).await;
    made.is_set_up();
    made.has_no_guestinfo();
    assert_eq!(made.properties["address"], "10.0.0.5/24");
}

async fn v_app_config_sets_properties_and_nothing_else(sim: Sim) {
    let stage = Stage::of(sim).await;
    let made =
        stage.made(&with_transport("vAppConfig"), &[("address", "10.0.0.9")], &stage.nics().await).await;
    made.is_left_alone();
    made.has_no_guestinfo();
    assert_eq!(made.properties["address"], "10.0.0.9");
}

async fn sysprep_gives_windows_its_answers(sim: Sim) {
    let stage = Stage::of(sim).await;
    let answers = "<unattend ip=\"{{ V1alpha1_FirstIP }}\"/>";
    let made =
        stage.made(&off(with_transport("Sysprep")), &[("unattend", answers)], &stage.nics().await).await;
    assert_eq!(made.customised, "TOOLSDEPLOYPKG_PENDING");
    made.has_no_guestinfo();
    stage.taken(&made.vsphere_vm, &[Step::Power(PowerState::On, PowerMode::Hard)]).await;
    assert_eq!(stage.seen(&made.vsphere_vm).await.customised, "TOOLSDEPLOYPKG_SUCCEEDED");
}

async fn extra_config_is_copied_and_learns_the_network(sim: Sim) {
    let stage = Stage::of(sim).await;
    let data = [
        ("guestinfo.metadata", "instance-id: i\nlocal-hostname: h\n"),
        ("guestinfo.userdata", "#cloud-config\nusers: [\"a <b> & 'c'\"]\r\n"),
        ("guestinfo.appliance", "ä{{ .Not }}"),
        ("disk.enableUUID", "FALSE"),
    ];
    let made = stage.made(&with_transport("ExtraConfig"), &data, &stage.nics().await).await;
    made.is_left_alone();
    for (key, value) in &data[1..3] {
        assert_eq!(made.extra_config[*key], *value);
    }
    assert_eq!(made.extra_config["disk.enableUUID"], "TRUE", "only keys of guestinfo are copied");
    assert!(made.properties.is_empty(), "cloud-init would prefer them: {made:?}");
    let network = made.network();
    assert_eq!(network["eth0"]["match"]["macaddress"], MAC);
    assert_eq!(network["eth0"]["addresses"], json!(["10.0.0.5/24", "2001:db8::5/64"]));
    assert_eq!(network["eth1"]["dhcp4"], true);
}

async fn cloud_init_reads_its_six_keys(sim: Sim) {
    let stage = Stage::of(sim).await;
    let data = [("user-data", "#cloud-config\n")];
    let made = stage.made(&with_transport("CloudInit"), &data, &stage.nics().await).await;
    made.is_left_alone();
    assert!(made.properties.is_empty(), "cloud-init would prefer them: {made:?}");
    let decoded = cloudinit::decode(&made.extra_config, &Budget::new(1 << 20)).unwrap();
    assert_eq!(decoded.userdata.as_deref(), Some(b"#cloud-config\n".as_slice()));
    assert_eq!(decoded.metadata(&Budget::new(1 << 20)).unwrap().hostname.as_deref(), Some("cp-0"));
    assert_eq!(made.network()["eth0"]["match"]["macaddress"], MAC);
}

async fn cloud_init_by_customization_sets_the_guest_up(sim: Sim) {
    let stage = Stage::of(sim).await;
    let mut vm = with_transport("CloudInit");
    vm.metadata.annotations = Some([(annotation::CLOUDINIT_TYPE.into(), "cloudinitprep".into())].into());
    let made = stage.made(&vm, &[("user-data", "#cloud-config\n")], &stage.nics().await).await;
    made.is_set_up();
    made.has_no_guestinfo();
}

async fn nics_are_as_many_and_as_the_provider_says(sim: Sim) {
    let stage = Stage::of(sim).await;
    let mut three = stage.nics().await;
    three.push(Nic { kind: NicKind::E1000e, ..three[1].clone() });
    let made = stage.made(&with_transport(""), &[], &three).await;
    made.is_set_up();
    let seen: Vec<_> = made.nics.iter().map(|nic| (nic.kind, nic.backing.clone())).collect();
    let wanted: Vec<_> = three.iter().map(|nic| (nic.kind, Some(nic.backing.clone()))).collect();
    assert_eq!(seen, wanted);
    assert_eq!(made.nics[0].mac.as_deref(), Some(MAC));
    assert!(matches!(made.nics[0].backing, Some(Backing::Portgroup { .. })), "{made:?}");
    assert!(made.macs.iter().all(|mac| !mac.is_empty()), "vCenter chooses the others: {made:?}");
}

async fn a_vm_without_nics_is_set_up_all_the_same(sim: Sim) {
    let stage = Stage::of(sim).await;
    let mut vm = with_transport("");
    vm.spec.network_interfaces.clear();
    let kept = stage.made(&vm, &[], &[]).await;
    assert_eq!(kept.nics.len(), 1, "the template's");
    assert_eq!(kept.customised, "TOOLSDEPLOYPKG_SUCCEEDED");
}

async fn a_vm_that_is_off_gets_a_change_once(sim: Sim) {
    let stage = Stage::of(sim).await;
    let nics = stage.nics().await;
    let mut before = nics.clone();
    let Addressing::Static(addresses) = &mut before[0].addressing else { panic!("{before:?}") };
    addresses[0].ip = "10.0.0.4".parse().unwrap();
    let made = stage.made(&off(with_transport("OvfEnv")), &[("address", "old")], &before).await;
    assert_eq!(made.properties["address"], "old");
    assert_eq!(made.customised, "TOOLSDEPLOYPKG_PENDING");
    let second = stage.composed(&with_transport("OvfEnv"), &[("address", "new")], &nics);
    // The clone's customization, with another address, is still pending. vCenter rejects a second customization, so the pending
    // one is replaced.
    let mut steps = second.steps();
    stage.taken(&made.vsphere_vm, &steps).await;
    assert_eq!(stage.seen(&made.vsphere_vm).await.customised, "TOOLSDEPLOYPKG_PENDING");
    let hash = &second.extra_config[HASH];
    stage.until(&made.vsphere_vm, "it is noted", |vm| vm.extra_config.get(HASH) == Some(hash)).await;
    steps.push(Step::Power(PowerState::On, PowerMode::Hard));
    stage.taken(&made.vsphere_vm, &steps).await;
    let made = stage.seen(&made.vsphere_vm).await;
    assert_eq!(made.properties["address"], "new");
    made.is_set_up();
    // After the guest has started, vCenter accepts another customization.
    stage.taken(&made.vsphere_vm, &[Step::Power(PowerState::Off, PowerMode::Hard)]).await;
    stage.taken(&made.vsphere_vm, &second.steps()).await;
    assert_eq!(stage.seen(&made.vsphere_vm).await.customised, "TOOLSDEPLOYPKG_PENDING");
}

on_both_wires!(
    without_a_transport_the_guest_is_set_up_by_vmware_tools,
    ovf_env_sets_properties_and_the_guest_up,
    v_app_config_sets_properties_and_nothing_else,
    sysprep_gives_windows_its_answers,
    extra_config_is_copied_and_learns_the_network,
    cloud_init_reads_its_six_keys,
    cloud_init_by_customization_sets_the_guest_up,
    nics_are_as_many_and_as_the_provider_says,
    a_vm_without_nics_is_set_up_all_the_same,
    a_vm_that_is_off_gets_a_change_once,
);
