use std::sync::Arc;

use api::capw::VirtualMachineNaming;
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachineStatus, vm_phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::fixtures::{self, UUID, bootstrap, facts, wcp_machine};

use super::*;
use proptest::prelude::*;
use uuid::Uuid;

fn made(plan: Plan) -> MachineObjects {
    match plan.then {
        Then::Apply(make) => *make,
        Then::Wait(waiting) => panic!("waits: {waiting}"),
        Then::Lost => panic!("lost"),
    }
}

fn waits(wcp_machine: &WCPMachine, facts: &Facts) -> Waiting {
    match plan(wcp_machine, facts).unwrap().then {
        Then::Wait(waiting) => waiting,
        _ => panic!("does not wait"),
    }
}

/// Returns the WCPMachine after the plan's identity was persisted.
fn persisted(mut wcp_machine: WCPMachine, plan: &Plan) -> WCPMachine {
    if let Some(provider_id) = &plan.identity {
        wcp_machine.spec.provider_id = Some(provider_id.clone());
        wcp_machine.metadata.finalizers = Some(vec![finalizer::WCP_MACHINE.into()]);
    }
    wcp_machine
}

fn text(data: &BTreeMap<String, ByteString>) -> BTreeMap<String, String> {
    data.iter().map(|(key, value)| (key.clone(), String::from_utf8(value.0.clone()).unwrap())).collect()
}

#[test]
fn a_control_plane_machine_is_asked_for_as_in_the_seed() {
    let make = made(plan(&wcp_machine(), &facts(true)).unwrap());
    insta::assert_yaml_snapshot!(make.vm);
}

#[test]
fn a_worker_has_no_probe_and_its_own_module() {
    let mut facts = facts(false);
    let mut machine = fixtures::machine(false);
    machine.metadata.labels.as_mut().unwrap().insert(label::DEPLOYMENT_NAME.into(), "pool".into());
    machine.spec.failure_domain = Some("zone-a".into());
    facts.machine = Some(Arc::new(machine));
    let mut wcp_machine = wcp_machine();
    wcp_machine.spec.volumes = vec![MachineVolume {
        name: "containerd".into(),
        capacity: BTreeMap::from([("storage".into(), "16Gi".into())]),
        ..MachineVolume::default()
    }];
    let make = made(plan(&wcp_machine, &facts).unwrap());
    insta::assert_yaml_snapshot!((make.vm, make.claims));
}

#[test]
fn a_network_adapter_names_what_connects_it() {
    let interface = |facts: &Facts| {
        let interface = made(plan(&wcp_machine(), facts).unwrap()).vm.spec.network_interfaces.remove(0);
        (interface.network_type, interface.network_name)
    };
    let of = |network_provider| interface(&Facts { network_provider, ..facts(true) });
    assert_eq!(of(NetworkProvider::Named), (None, None), "the VM operator's configured port group");
    assert_eq!(of(NetworkProvider::Distributed), (Some("vsphere-distributed".into()), None));
    let nsx = (Some("nsx-t".into()), Some("test-cluster-vnet".into()));
    assert_eq!(of(NetworkProvider::Nsx), nsx);

    let there = made(plan(&wcp_machine(), &facts(true)).unwrap()).vm;
    let network_provider = NetworkProvider::Named;
    let stays = Facts { vm: Some(Arc::new(there.clone())), network_provider, ..facts(true) };
    assert_eq!(interface(&stays), nsx, "what is there stays where it is");
    let mut network = VirtualNetwork::default();
    network.metadata.owner_references = Some(vec![build_controller_reference(&fixtures::wcp_cluster())]);
    let mut changed = there;
    changed.spec.network_interfaces[0].network_type = None;
    let (network, vm) = (Some(Arc::new(network)), Some(Arc::new(changed)));
    let repaired = Facts { vm, network, network_provider, ..facts(true) };
    assert_eq!(interface(&repaired), nsx, "the cluster's own network goes before what somebody wrote");
    let strangers = Some(Arc::new(VirtualNetwork::default()));
    let namesake = Facts { network: strangers, network_provider, ..facts(true) };
    assert_eq!(interface(&namesake), (None, None));
}

#[test]
fn a_volume_with_a_place_is_a_disk_of_the_vms_own() {
    let volume = |name: &str, size: &str, unit| MachineVolume {
        name: name.into(),
        capacity: BTreeMap::from([("storage".into(), size.into())]),
        storage_class: Some("silver".into()),
        unit_number: unit,
        ..MachineVolume::default()
    };
    let mut wcp_machine = wcp_machine();
    wcp_machine.spec.volumes = vec![volume("etcd", "1G", Some(1)), volume("old", "1Gi", None)];
    let make = made(plan(&wcp_machine, &facts(true)).unwrap());
    assert_eq!(make.claims.len(), 1, "that of the volume without a place");
    assert_eq!(
        serde_json::to_value(&make.vm.spec.volumes).unwrap(),
        serde_json::json!([
            {
                "name": "etcd", "unitNumber": 1,
                "vSphereVolume": { "capacity": { "ephemeral-storage": "954Mi" }, "storageClass": "silver" },
            },
            {
                "name": "old",
                "persistentVolumeClaim": { "claimName": "test-cluster-control-plane-jwsx7-old" },
            },
        ])
    );
    for (volumes, why) in [
        (vec![volume("etcd", "1Gi", Some(7))], "unitNumber 7 is already in use"),
        (vec![volume("a", "1Gi", Some(1)), volume("b", "1Gi", Some(1))], "b: unitNumber 1 is already in use"),
        (vec![volume("etcd", "0", Some(1))], "capacity.storage is required, for example 16Gi"),
        (vec![volume("etcd", "much", Some(1))], "16Gi"),
    ] {
        wcp_machine.spec.volumes = volumes;
        let refused = plan(&wcp_machine, &facts(true)).err().unwrap().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn cloud_init_says_who_the_node_is() {
    for control_plane in [true, false] {
        let make = made(plan(&wcp_machine(), &facts(control_plane)).unwrap());
        let secret = make.cloud_init.unwrap();
        assert_eq!(secret.name_any(), "machine-cloud-init");
        assert!(secret.labels().is_empty(), "Cluster API's managers keep Secrets that have its label");
        let keys = text(secret.data.as_ref().unwrap());
        let decoded = cloudinit::decode(&keys, &Budget::new(1 << 20)).unwrap();
        let metadata = decoded.metadata(&Budget::new(1 << 20)).unwrap();
        assert_eq!(metadata.instance_id, "test-cluster-control-plane-jwsx7");
        assert_eq!(metadata.provider_id, Some(format!("vsphere://{UUID}")));
        let endpoint = control_plane.then(|| "192.168.123.3:6443".to_owned());
        assert_eq!(metadata.control_plane_endpoint, endpoint);
        assert_eq!(
            decoded.userdata.unwrap(),
            b"## template: jinja\n#cloud-config\n",
            "as Cluster API wrote it"
        );
        assert_eq!(decoded.vendordata.unwrap(), cloudinit::BOOTSTRAP_REPORTER.as_bytes());
        assert_eq!(keys[cloudinit::BOOTSTRAP_REPORTED], "true");
        assert_eq!(keys[cloudinit::BOOTSTRAP_CONDITION], "", "a captured node's report is not this one's");
    }
}

#[test]
fn bootstrap_data_that_cannot_be_booted_is_refused_with_a_remedy() {
    let cases = [
        (
            bootstrap(Some("ignition"), "{}"),
            "key format is not cloud-config, the only supported format. Set the bootstrap format",
        ),
        (bootstrap(None, ""), "key value is missing or empty"),
    ];
    for (bootstrap, says) in cases {
        let invalid = plan(&wcp_machine(), &Facts { bootstrap, ..facts(true) }).err().unwrap();
        let message = invalid.to_string();
        assert!(message.starts_with("bootstrap data in Secret bootstrap: "), "{message}");
        assert!(message.contains(says), "{message}");
        assert_eq!(invalid.reason(), "BootstrapDataInvalid");
    }
    assert!(
        plan(&wcp_machine(), &Facts { bootstrap: bootstrap(None, "#cloud-config\n"), ..facts(true) }).is_ok()
    );
}

#[test]
fn it_waits_for_what_is_not_there_yet() {
    let wcp_machine = wcp_machine();
    let all = || facts(true);
    let mut bare = fixtures::cluster();
    bare.status = None;
    let mut unbootstrapped = fixtures::machine(true);
    unbootstrapped.spec.bootstrap.data_secret_name = None;
    let mut deleted = fixtures::machine(true);
    deleted.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let cases = [
        (Facts { machine: None, ..all() }, "WaitingForOwnerMachine"),
        (Facts { cluster: None, ..all() }, "WaitingForClusterInfrastructureReady"),
        (Facts { cluster: Some(Arc::new(bare)), ..all() }, "WaitingForClusterInfrastructureReady"),
        (
            Facts { machine: Some(Arc::new(unbootstrapped)), bootstrap: BootstrapSource::NotRead, ..all() },
            "WaitingForBootstrapData",
        ),
        (
            Facts { bootstrap: BootstrapSource::Missing("bootstrap".into()), ..all() },
            "WaitingForBootstrapData",
        ),
        (Facts { machine: Some(Arc::new(deleted)), ..all() }, "Deleting"),
    ];
    for (facts, reason) in cases {
        assert_eq!(waits(&wcp_machine, &facts).reason(), reason);
    }
}

/// Only new VirtualMachines are checked, because a zone can be removed from the namespace later.
#[test]
fn a_machine_of_a_zone_that_does_not_exist_is_not_placed_anywhere() {
    let mut machine = fixtures::machine(true);
    machine.spec.failure_domain = Some("zone-typo".into());
    let refused = |zones: &[&str]| {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        plan(&wcp_machine(), &Facts { machine: Some(Arc::new(machine.clone())), zones, ..facts(true) }).err()
    };
    let invalid = refused(&["zone-a", "zone-b"]).unwrap();
    assert_eq!(invalid.reason(), "ZoneMismatch");
    assert_eq!(
        invalid.to_string(),
        format!(
            "spec.failureDomain of Machine {}: namespace {} has no zone \"zone-typo\". Set failureDomain of the node pool to one of zone-a, zone-b, or leave it out",
            machine.name_any(),
            machine.namespace().unwrap()
        )
    );
    let without = refused(&[]).unwrap().to_string();
    assert!(without.ends_with("It has no zones: leave failureDomain out of the node pool"), "{without}");
    assert_eq!(refused(&["zone-typo"]), None);
}

#[test]
fn the_identity_comes_before_anything_else_even_while_waiting() {
    let mut facts = facts(true);
    let mut bare = fixtures::cluster();
    bare.status = None;
    facts.cluster = Some(Arc::new(bare));
    let plan = plan(&wcp_machine(), &facts).unwrap();
    assert_eq!(plan.identity, Some(format!("vsphere://{UUID}")));
    assert!(matches!(plan.then, Then::Wait(_)));
}

#[test]
fn a_provider_id_of_another_kind_is_refused() {
    for wrong in ["aws:///i-1", "vsphere://", "vsphere://not-a-uuid", ""] {
        let mut wcp_machine = wcp_machine();
        wcp_machine.spec.provider_id = Some(wrong.into());
        assert_eq!(plan(&wcp_machine, &facts(true)).err(), Some(InvalidInput::ProviderId(wrong.into())));
    }
}

#[test]
fn a_machine_that_was_there_is_lost_and_not_made_again() {
    let by_status = {
        let mut wcp_machine = wcp_machine();
        wcp_machine.status.get_or_insert_default().vm_id = Some(UUID.into());
        (wcp_machine, facts(true))
    };
    let by_the_machine_after_a_move = {
        let mut machine = fixtures::machine(true);
        machine.spec.provider_id = Some(format!("vsphere://{UUID}"));
        (wcp_machine(), Facts { machine: Some(Arc::new(machine)), ..facts(true) })
    };
    for (wcp_machine, facts) in [by_status, by_the_machine_after_a_move] {
        assert!(matches!(plan(&wcp_machine, &facts).unwrap().then, Then::Lost));
    }
}

#[test]
fn a_virtual_machine_of_somebody_else_is_left_alone() {
    let mut vm = made(plan(&wcp_machine(), &facts(true)).unwrap()).vm;
    vm.metadata.owner_references.as_mut().unwrap()[0].uid = "former".into();
    let former = Facts { vm: Some(Arc::new(vm.clone())), ..facts(true) };
    assert_eq!(waits(&wcp_machine(), &former).reason(), "WaitingForFormerObject");
    vm.metadata.owner_references.as_mut().unwrap()[0].name = "other".into();
    let taken = Facts { vm: Some(Arc::new(vm)), ..facts(true) };
    let invalid = plan(&wcp_machine(), &taken).err().unwrap();
    assert!(
        invalid.to_string().starts_with("VirtualMachine ben-test/test-cluster-control-plane-jwsx7 belongs")
    );
}

#[test]
fn no_namesake_of_a_child_is_taken_over() {
    let mut wcp_machine = wcp_machine();
    wcp_machine.spec.volumes = vec![MachineVolume { name: "data".into(), ..MachineVolume::default() }];
    let make = made(plan(&wcp_machine, &facts(true)).unwrap());
    let (secret, claim) = (make.cloud_init.unwrap(), make.claims[0].clone());
    let with = |change: fn(&mut ObjectMeta)| {
        let (mut secret, mut claim) = (secret.clone(), claim.clone());
        change(&mut secret.metadata);
        change(&mut claim.metadata);
        [Facts { cloud_init: Some(secret), ..facts(true) }, Facts { claims: vec![claim], ..facts(true) }]
    };
    for users in with(|metadata| metadata.owner_references = None) {
        let invalid = plan(&wcp_machine, &users).err().unwrap();
        assert!(matches!(invalid, InvalidInput::NameTaken { .. }), "{invalid}");
        assert!(invalid.to_string().contains(" ben-test/"), "{invalid}");
    }
    for former in with(|metadata| metadata.owner_references.as_mut().unwrap()[0].uid = "former".into()) {
        let waiting = waits(&wcp_machine, &former);
        assert_eq!(waiting.reason(), "WaitingForFormerObject");
        assert!(waiting.look_again().is_some(), "no watch shows when it is gone");
    }
    let [_, own] = with(|_| ());
    assert!(made(plan(&wcp_machine, &own).unwrap()).claims.is_empty(), "what is there is not made again");
}

#[test]
fn without_the_cluster_nobody_knows_whether_it_is_paused() {
    let mut machine = fixtures::machine(true);
    machine.spec.provider_id = Some(format!("vsphere://{UUID}"));
    let moved = Facts { machine: Some(Arc::new(machine)), cluster: None, ..facts(true) };
    let plan = plan(&wcp_machine(), &moved).unwrap();
    assert_eq!(plan.identity, None);
    assert!(matches!(plan.then, Then::Wait(Waiting::Cluster(_))), "neither lost nor written");
}

#[test]
fn a_virtual_machine_without_an_owner_is_ours_only_if_it_has_our_identity() {
    let first = plan(&wcp_machine(), &facts(true)).unwrap();
    let wcp_machine = persisted(wcp_machine(), &first);
    let mut vm = made(first).vm;
    vm.metadata.owner_references = None;
    assert_eq!(whose(&wcp_machine, Some(&vm)), NameAvailability::Free);
    assert_eq!(
        whose(&fixtures::wcp_machine(), Some(&vm)),
        NameAvailability::Taken,
        "the WCPMachine has another identity"
    );
    let mut replaced = vm.clone();
    replaced.spec.vm_metadata.as_mut().unwrap().secret_name = Some("b-kubeconfig".into());
    assert_eq!(
        whose(&wcp_machine, Some(&replaced)),
        NameAvailability::Free,
        "its Secret was replaced: it is put back"
    );
    let mut half = vm.clone();
    half.spec.instance_uuid = Some("00000000-0000-4000-8000-000000000000".into());
    assert_eq!(
        whose(&wcp_machine, Some(&half)),
        NameAvailability::Taken,
        "one UUID alone is no identity of ours"
    );
    vm.spec.bios_uuid = None;
    assert_eq!(whose(&wcp_machine, Some(&vm)), NameAvailability::Taken, "not to be deleted either");
    let users = Facts { vm: Some(Arc::new(vm)), ..facts(true) };
    let invalid = plan(&wcp_machine, &users).err().unwrap();
    assert!(matches!(invalid, InvalidInput::NameTaken { .. }));
    assert!(invalid.look_again().is_some(), "nobody tells us when the name is free");
}

#[test]
fn a_given_identity_is_spelt_for_vcenter_and_kept_for_the_node() {
    let given = format!("vsphere://{}", UUID.replace('-', "").to_uppercase());
    let mut wcp_machine = wcp_machine();
    wcp_machine.spec.provider_id = Some(given.clone());
    let make = made(plan(&wcp_machine, &facts(true)).unwrap());
    assert_eq!(make.vm.spec.bios_uuid.as_deref(), Some(UUID));
    let secret = make.cloud_init.unwrap();
    let decoded = cloudinit::decode(&text(secret.data.as_ref().unwrap()), &Budget::new(1 << 20)).unwrap();
    assert_eq!(decoded.metadata(&Budget::new(1 << 20)).unwrap().provider_id, Some(given));
}

proptest! {
    #[test]
    fn the_identity_is_drawn_once(first in any::<u128>(), then in any::<u128>()) {
        let drawn = |bits| Facts { drawn: Uuid::from_u128(bits), ..facts(true) };
        let one = plan(&wcp_machine(), &drawn(first)).unwrap();
        let wcp_machine = persisted(wcp_machine(), &one);
        let two = plan(&wcp_machine, &drawn(then)).unwrap();
        prop_assert_eq!(&two.identity, &None);
        let (one, two) = (made(one), made(two));
        prop_assert_eq!(one.vm.spec.bios_uuid.clone(), Some(Uuid::from_u128(first).to_string()));
        prop_assert_eq!(one.vm, two.vm);
        prop_assert_eq!(one.cloud_init, two.cloud_init);
    }

    #[test]
    fn a_plan_of_the_planned_state_is_empty(control_plane: bool, zone in "[a-z]{0,3}", volumes in 0_usize..3) {
        let mut wcp_machine = wcp_machine();
        wcp_machine.spec.failure_domain = Some(zone.clone());
        wcp_machine.spec.volumes = (0..volumes)
            .map(|at| MachineVolume { name: format!("v{at}"), ..MachineVolume::default() })
            .collect();
        let facts = |control_plane| Facts { zones: vec![zone.clone()], ..facts(control_plane) };
        let first = plan(&wcp_machine, &facts(control_plane)).unwrap();
        let wcp_machine = persisted(wcp_machine, &first);
        let mut live = made(first).vm;
        live.status = Some(VirtualMachineStatus {
            phase: Some(vm_phase::CREATED.into()),
            ..VirtualMachineStatus::default()
        });
        let bootstrap = BootstrapSource::NotRead;
        let facts = Facts { vm: Some(Arc::new(live.clone())), bootstrap, ..facts(control_plane) };
        let second = plan(&wcp_machine, &facts).unwrap();
        prop_assert_eq!(&second.identity, &None);
        let MachineObjects { cloud_init, claims, vm } = made(second);
        prop_assert!(cloud_init.is_none());
        prop_assert!(claims.is_empty());
        prop_assert_eq!(VirtualMachine { status: live.status.clone(), ..vm }, live);
    }
}

#[test]
fn a_control_plane_node_shuts_down_unless_its_cluster_goes() {
    let mode = |wcp_machine: &WCPMachine, facts: &Facts| {
        made(plan(wcp_machine, facts).unwrap()).vm.spec.power_off_mode
    };
    assert_eq!(mode(&wcp_machine(), &facts(true)).as_deref(), Some("trySoft"));
    assert_eq!(mode(&wcp_machine(), &facts(false)), None);
    let mut going = facts(true);
    let cluster = Arc::make_mut(going.cluster.as_mut().unwrap());
    cluster.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(mode(&wcp_machine(), &going), None);
    let mut chosen = wcp_machine();
    chosen.spec.power_off_mode = Some("hard".into());
    assert_eq!(mode(&chosen, &facts(true)).as_deref(), Some("hard"));
}

#[test]
fn a_naming_template_names_the_vm_and_its_node_and_nothing_else() {
    let mut wcp_machine = wcp_machine();
    wcp_machine.spec.volumes = vec![MachineVolume { name: "data".into(), ..MachineVolume::default() }];
    let before = made(plan(&wcp_machine, &facts(true)).unwrap());
    let template = "{{ .machine.name | trunc -5 }}-vm".to_owned();
    wcp_machine.spec.naming = Some(VirtualMachineNaming { template });
    let after = made(plan(&wcp_machine, &facts(true)).unwrap());

    assert_eq!(after.vm.name_any(), "jwsx7-vm");
    let (secret, old_secret) = (after.cloud_init.unwrap(), before.cloud_init.unwrap());
    let decoded = cloudinit::decode(&text(secret.data.as_ref().unwrap()), &Budget::new(1 << 20)).unwrap();
    let metadata = decoded.metadata(&Budget::new(1 << 20)).unwrap();
    assert_eq!(metadata.local_hostname.as_deref(), Some("jwsx7-vm"), "the Node has this name");
    assert_eq!(metadata.hostname.as_deref(), Some("jwsx7-vm"));

    let mut renamed = before.vm;
    renamed.metadata.name = Some("jwsx7-vm".into());
    assert_eq!(after.vm, renamed);
    assert_eq!(secret.metadata, old_secret.metadata);
    assert_eq!(after.claims, before.claims);

    wcp_machine.spec.naming = Some(VirtualMachineNaming { template: "{{ .machine.nam }}".into() });
    let invalid = plan(&wcp_machine, &facts(true)).err().unwrap();
    assert!(matches!(invalid, InvalidInput::VmName { .. }), "{invalid}");
}

#[test]
fn machines_that_were_given_one_name_do_not_share_a_vm() {
    let mut first = wcp_machine();
    let template = "vm-{{ trunc 4 .machine.name }}".to_owned();
    first.spec.naming = Some(VirtualMachineNaming { template });
    let vm = made(plan(&first, &facts(true)).unwrap()).vm;
    let mut second = first;
    second.metadata.name = Some("second".into());
    second.metadata.uid = Some("uid-of-second".into());
    let invalid = plan(&second, &Facts { vm: Some(Arc::new(vm)), ..facts(true) }).err().unwrap();
    assert!(matches!(invalid, InvalidInput::VmNameTwice { .. }), "{invalid}");
}

#[test]
fn a_machine_whose_secret_was_replaced_gets_its_own_back_while_it_is_off() {
    let first = plan(&wcp_machine(), &facts(true)).unwrap();
    let wcp_machine = persisted(wcp_machine(), &first);
    let intent = made(first).vm;
    let replanned = |live: &VirtualMachine| {
        made(plan(&wcp_machine, &Facts { vm: Some(Arc::new(live.clone())), ..facts(true) }).unwrap()).vm
    };
    assert_eq!(replanned(&intent), intent);
    let mut live = intent.clone();
    live.metadata.owner_references = None;
    live.metadata.labels.as_mut().unwrap().remove(label::CAPW_CLUSTER_NAME);
    live.spec.vm_metadata.as_mut().unwrap().secret_name = Some("b-kubeconfig".into());
    assert_eq!(
        repair::replaced_fields(&live, &intent),
        ["spec.vmMetadata", "metadata.ownerReferences", "metadata.labels"]
    );
    assert!(repair::replaced_fields(&intent, &intent).is_empty());
    // The API server rejects a Secret change while the VirtualMachine is powered on.
    let off = VirtualMachine {
        spec: VirtualMachineSpec { power_state: Some("poweredOff".into()), ..intent.spec.clone() },
        ..intent.clone()
    };
    assert_eq!(replanned(&live), off);
    live.spec.power_state = Some("poweredOff".into());
    assert_eq!(replanned(&live), intent, "it is off already");
    assert_eq!(replanned(&off), intent, "then it is powered on with its own Secret");
}

#[test]
fn a_node_gets_the_virtual_router_that_was_drawn_for_its_cluster() {
    let router = |drawn, network_provider| {
        let facts = Facts { virtual_router: drawn, network_provider, ..facts(true) };
        let secret = made(plan(&wcp_machine(), &facts).unwrap()).cloud_init;
        let budget = Budget::new(1 << 20);
        let decoded = cloudinit::decode(&text(secret.unwrap().data.as_ref().unwrap()), &budget).unwrap();
        decoded.metadata(&budget).unwrap().virtual_router_id
    };
    assert_eq!(router(Some(77), NetworkProvider::Named), Some(77));
    assert_eq!(router(None, NetworkProvider::Named), Some(3), "that of its address, where none was drawn");
    assert_eq!(router(Some(77), NetworkProvider::Nsx), Some(77), "an earlier version has drawn it");
    assert_eq!(router(None, NetworkProvider::Nsx), None, "a load balancer has the address");
}

#[test]
fn a_control_plane_vm_says_which_endpoint_and_which_virtual_router_it_has() {
    let annotations = |control_plane: bool, network_provider| {
        let facts = Facts { virtual_router: Some(9), network_provider, ..facts(control_plane) };
        let mut annotations = made(plan(&wcp_machine(), &facts).unwrap()).vm.annotations().clone();
        [annotation::CONTROL_PLANE_ENDPOINT, annotation::VIRTUAL_ROUTER].map(|key| annotations.remove(key))
    };
    let host = || Some("192.168.123.3".to_owned());
    assert_eq!(annotations(true, NetworkProvider::Named), [host(), Some("9".to_owned())]);
    assert_eq!(annotations(true, NetworkProvider::Nsx), [host(), None], "a load balancer has the address");
    assert_eq!(annotations(false, NetworkProvider::Named), [None, None]);
}
