//! Tests a VM whose spec names other NICs than the VM has, with a real simulator over both vSphere API protocols and an API
//! server with one Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::Runtime;
use kit::bounded::Budget;
use serde_json::json;
use support::api_server::{refusal, server};
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::inventory::PowerState;
use vsphere::{ConfigSpec, DeviceChange, NicKind, VirtualNic, Vm};

use crate::device_check::{DeviceKinds, hold_for_check, nics_differ, proven, unchecked};
use crate::testing::context::{allow_all_networks, context, empty_runtime};
use crate::testing::fixtures;
use crate::testing::vcsim::{clone_vm, planned_clone, seen, wanted};
use crate::virtualmachine::bootstrap::data::HASH;
use crate::virtualmachine::carry_out::destroy::destroy;
use crate::virtualmachine::carry_out::steps::take_step;
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::nic::adapter::Nic;
use crate::virtualmachine::nic::device_changes::build_virtual_nic;
use crate::virtualmachine::observe::observe_power_on;
use crate::virtualmachine::plan::{Plan, plan};
use crate::virtualmachine::step::Step;
use crate::virtualmachine::storage::class::Storage;
use crate::virtualmachine::storage::observe::DiskFacts;
use crate::virtualmachine::storage::record::DiskRecord;
use crate::virtualmachine::storage::{disks, marks};

async fn a_vm_gets_the_nics_that_its_spec_names_before_it_runs_again(sim: Sim) {
    let (vcenter, _, facts, mut intent) = planned_clone(&sim).await;
    intent.spec.power_on = false;
    let config = intent.spec.config.get_or_insert_with(ConfigSpec::default);
    config.extra_config.push((HASH.into(), "set before".into()));
    let made = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
    let made = seen(&made.moref, &vcenter, |vsphere_vm| vsphere_vm.extra_config.contains_key(HASH)).await;
    let nics = async || vcenter.client.read_nics(&made.moref).await.unwrap();
    let first: Vec<VirtualNic> = nics().await;

    let started = Runtime::detached(
        server(|request| match request.line().as_str() {
            "GET /api/v1/namespaces/ns/secrets/cp-0-cloud-init" => {
                let data = json!({ "user-data": STANDARD.encode("#cloud-config\n") });
                (200, json!({ "metadata": { "name": "cp-0-cloud-init", "namespace": "ns" }, "data": data }))
            }
            _ => refusal(404, "NotFound"),
        })
        .0,
    );
    let mut ctx = context(&started, &vcenter);
    allow_all_networks(&mut ctx, "ns");
    let mut vm = fixtures::virtual_machine();
    vm.spec.vm_metadata.get_or_insert_default().transport = Some("CloudInit".into());
    let named = json!([{ "networkName": "VM Network" }, { "networkName": "workload" }]);
    vm.spec.network_interfaces = serde_json::from_value(named).unwrap();
    let steps = async |vsphere_vm: &Arc<Vm>| {
        let (nic_change, update) =
            observe_power_on(&vm, vsphere_vm, facts.identity, &vcenter, &ctx).await.unwrap();
        assert!(update.nic_requests.is_empty());
        let (found, bootstrap_update) = (Found::Ours(Arc::clone(vsphere_vm)), update.data);
        match plan(&vm, &Facts { found, nic_change, bootstrap_update, ..facts.clone() }).unwrap() {
            Plan::Change { steps, .. } => steps,
            other => panic!("{other:?}"),
        }
    };
    let taken = async |steps: &[Step]| {
        for step in steps {
            within("a step", take_step(&made.moref, step, &vcenter)).await.unwrap();
        }
    };
    let words = |steps: &[Step]| steps.iter().map(Step::word).collect::<Vec<_>>().join(", ");

    // Only the NICs are changed: their MACs in vCenter aren't known yet.
    let change = steps(&made).await;
    assert_eq!(words(&change), "reconfigure");
    taken(&change).await;
    let second = nics().await;
    assert_eq!((first.len(), second.len()), (1, 2));
    assert_eq!(second[0], first[0], "the NIC on a network that is still named stays");

    // As after a crash: the guest gets both NICs by their MACs, and that is recorded last.
    let rest = steps(&made).await;
    assert_eq!(words(&rest), "reconfigure, reconfigure, power on");
    let Step::Reconfigure(set) = &rest[0] else { panic!("{rest:?}") };
    let set: BTreeMap<_, _> = set.extra_config.iter().cloned().collect();
    let metadata = cloudinit::unpacked(set["guestinfo.metadata"].as_bytes(), &Budget::new(1 << 20)).unwrap();
    let metadata = String::from_utf8(metadata).unwrap();
    for nic in &second {
        assert!(metadata.contains(nic.address.as_deref().unwrap()), "{metadata}");
    }
    taken(&rest).await;
    let done = seen(&made.moref, &vcenter, |vsphere_vm| !nics_differ(&vm, vsphere_vm)).await;
    let mut off = (*done).clone();
    off.power_state = Some(PowerState::Off);
    let (again, _) = observe_power_on(&vm, &Arc::new(off), facts.identity, &vcenter, &ctx).await.unwrap();
    assert_eq!(again, Ok(None));
    assert_eq!(nics().await, second);
    within("its end", destroy(&done, &DiskRecord::default(), &vcenter)).await.unwrap();
    started.shutdown.cancel();
}

/// A clone may lack the second NIC and the volume that its settings request.
async fn what_a_clone_did_not_bring_is_asked_for_before_the_vm_runs(sim: Sim) {
    let (vcenter, template, facts, _) = planned_clone(&sim).await;
    let mut vm = fixtures::with_volumes(&[("data", "1Gi")]);
    vm.spec.vm_metadata = None;
    let named = json!([{ "networkName": "VM Network" }, { "networkName": "workload" }]);
    vm.spec.network_interfaces = serde_json::from_value(named).unwrap();
    let started = empty_runtime();
    let mut ctx = context(&started, &vcenter);
    allow_all_networks(&mut ctx, "ns");
    let storage =
        Storage { policy: None, datastore: vcenter.datastore().await.unwrap(), ..Storage::default() };
    for heeded in [false, true] {
        let mut intent = wanted(&sim, &vcenter, &template, &facts).await;
        let layout = disks::plan_disks(&vm, &template.devices, &storage, false).unwrap();
        let config = intent.spec.config.get_or_insert_with(ConfigSpec::default);
        let backing = vcenter.network("VM Network").await.unwrap().backing.clone();
        let second = build_virtual_nic(-100, &Nic::plain(NicKind::Vmxnet3, backing));
        config.device_change = layout.changes.into_iter().chain([DeviceChange::Add(second)]).collect();
        config.extra_config.retain(|(key, _)| key != marks::DISKS);
        config.extra_config.push((marks::DISKS.to_owned(), layout.mark));
        let held = hold_for_check(&mut intent.spec, *vcenter.proven_devices.lock());
        assert!(held && !intent.spec.power_on, "nothing is proven yet");
        if !heeded {
            sim.post("/v1/faults", json!({ "method": "CloneVM_Task", "kind": "noDevices" })).await;
        }
        let made = within("the clone", clone_vm(&intent, &facts, &vcenter)).await.unwrap();
        let mut made = seen(&made.moref, &vcenter, |vsphere_vm| unchecked(vsphere_vm).is_some()).await;
        let mut found_proven = DeviceKinds::default();
        for pass in 0..4 {
            let (nic_change, update) =
                observe_power_on(&vm, &made, facts.identity, &vcenter, &ctx).await.unwrap();
            let devices = Arc::new(vcenter.client.devices(&made.moref).await.unwrap());
            let disks = Some(DiskFacts { devices, storage: Ok(storage.clone()) });
            let (found, bootstrap_update) = (Found::Ours(Arc::clone(&made)), update.data);
            let facts = Facts { found, disks, nic_change, bootstrap_update, ..facts.clone() };
            found_proven = found_proven.and(proven(&made, facts.complete_devices(&vm, &made)));
            let Plan::Change { steps, .. } = plan(&vm, &facts).unwrap() else { panic!("pass {pass}") };
            let powers_on = steps.iter().any(|step| step.word() == "power on");
            let devices = vcenter.client.devices(&made.moref).await.unwrap();
            let version = devices.change_version.clone();
            for step in &steps {
                within("a step", take_step(&made.moref, step, &vcenter)).await.unwrap();
            }
            if powers_on {
                break;
            }
            made = seen(&made.moref, &vcenter, |vsphere_vm| vsphere_vm.change_version != version).await;
        }
        let devices = vcenter.client.devices(&made.moref).await.unwrap();
        assert_eq!((devices.nics.len(), devices.disks.len()), (2, 2), "heeded: {heeded}");
        let on = seen(&made.moref, &vcenter, |now| now.power_state == Some(PowerState::On)).await;
        let by_clone = DeviceKinds { nics: heeded, disks: heeded };
        assert_eq!(found_proven, by_clone, "only the clone itself is a proof");
        *vcenter.proven_devices.lock() = found_proven;
        within("its end", destroy(&on, &DiskRecord::default(), &vcenter)).await.unwrap();
    }
    assert!(DeviceKinds { nics: true, disks: true }.within(*vcenter.proven_devices.lock()));
    started.shutdown.cancel();
}

on_both_wires!(
    a_vm_gets_the_nics_that_its_spec_names_before_it_runs_again,
    what_a_clone_did_not_bring_is_asked_for_before_the_vm_runs,
);
