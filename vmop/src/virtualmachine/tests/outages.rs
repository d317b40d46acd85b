//! Tests unreachable hosts and datastores with a real simulator over both vSphere API protocols: VMs aren't created, adopted or
//! destroyed.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::conditions;
use api::names::{annotation, finalizer};
use api::vmop::{VirtualMachine, VirtualMachineStatus};
use kit::Runtime;
use kube::ResourceExt;
use serde_json::{Value, json};
use support::api_server::{refusal, server};
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use uuid::Uuid;
use vsphere::inventory::{Configuration, Presence};
use vsphere::{ConfigSpec, DeviceChange, DiskChange, MoRef, Vm};

use crate::templates;
use crate::testing::context::context;
use crate::testing::fixtures;
use crate::testing::vcsim::{
    clone_vm, forget_base, names, place, reconfigure, seen, template, template_key, templates, vcenter,
    wanted, wanted_of,
};
use crate::vcenter::VCenter;
use crate::vcenter::mark::Mark;
use crate::virtualmachine::carry_out::destroy::destroy;
use crate::virtualmachine::context::Context;
use crate::virtualmachine::delete::{destroy_vm, end_if_object_went};
use crate::virtualmachine::error::{Blocked, Error};
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::{Found, SearchPlaces, find};
use crate::virtualmachine::identity::uuids::{Identity, parse_identity};
use crate::virtualmachine::plan;
use crate::virtualmachine::status::{Outcome, compute_status};
use crate::virtualmachine::storage::record::DiskRecord;

const MACHINES: u128 = 20;

/// Returns the VirtualMachine with this number, as it is while its VM is running.
fn object(number: u128) -> VirtualMachine {
    let mut vm = fixtures::annotated(annotation::FIRST_BOOT_DONE, "true");
    vm.metadata.name = Some(format!("cp-{number}"));
    let uuid = Some(Uuid::from_u128(0x4237 << 112 | number).to_string());
    (vm.spec.bios_uuid, vm.spec.instance_uuid) = (uuid.clone(), uuid);
    vm.spec.readiness_probe = None;
    vm
}

pub(super) fn identity(vm: &VirtualMachine) -> Identity {
    parse_identity(vm).unwrap().unwrap()
}

async fn find_now(vm: &VirtualMachine, sim: &Sim, vcenter: &VCenter, ctx: &Context) -> Found {
    let place = Ok(place(sim));
    let places = SearchPlaces { namespace: &place, own: &place };
    let mark = Mark::new("ns", &vm.name_any(), "s1");
    find(vm, identity(vm), &mark, &places, vcenter, &ctx.caches).await
}

/// Creates this number of running VMs, and returns their VirtualMachines with statuses.
pub(super) async fn made(
    number: u128,
    sim: &Sim,
    vcenter: &Arc<VCenter>,
    ctx: &Context,
) -> Vec<VirtualMachine> {
    let template = template(vcenter, &template_key(sim, vcenter).await).await;
    let mut objects = Vec::new();
    for number in 0..number {
        let mut vm = object(number);
        let facts = Facts::new(
            identity(&vm),
            Mark::new("ns", &vm.name_any(), "s1"),
            Found::Absent,
            jiff::Timestamp::UNIX_EPOCH,
        );
        let mut plan = wanted(sim, vcenter, &template, &facts).await;
        plan.name = vm.name_any();
        // The simulator's hosts are too small for reservations.
        let config = plan.spec.config.as_mut().unwrap();
        (config.cpu_allocation, config.memory_allocation) = (None, None);
        let made = within("the clone", clone_vm(&plan, &facts, vcenter)).await.unwrap();
        sim.guest(&made.moref, json!({ "ip": format!("10.1.2.{}", number + 1), "toolsRunning": true })).await;
        seen(&made.moref, vcenter, |vm| vm.guest.ip.is_some()).await;
        vm.status = Some(shown(&vm, &find_now(&vm, sim, vcenter, ctx).await));
        objects.push(vm);
    }
    objects
}

fn shown(vm: &VirtualMachine, found: &Found) -> VirtualMachineStatus {
    let facts = Facts {
        found: found.clone(),
        mark: Mark::new("ns", &vm.name_any(), "s1"),
        identity: identity(vm),
        ..fixtures::facts(Found::Absent)
    };
    let error = match plan::plan(vm, &facts) {
        Err(blocked) => Some(Error::from(blocked)),
        Ok(_) => None,
    };
    compute_status(vm, Some(&facts), &error.as_ref().map_or(Outcome::Done(None), Outcome::Stopped))
}

/// Waits until the inventory shows this number of unreachable VMs, including templates.
async fn away(vcenter: &VCenter, number: usize) {
    let so = |inventory: &vsphere::Inventory| {
        let away = inventory.all().iter().filter(|vm| !vm.is_available()).count();
        (away == number).then_some(())
    };
    vcenter.inventory.wait_until(std::time::Duration::from_secs(30), so).await.expect("the stream tells");
}

/// Asserts that the VirtualMachine keeps its status, that the power condition explains why, and that the VM can't be destroyed.
async fn stays(vm: &VirtualMachine, word: &str, sim: &Sim, vcenter: &VCenter, ctx: &Context) {
    let found = find_now(vm, sim, vcenter, ctx).await;
    assert!(matches!(found, Found::Unavailable(_)), "{}: {found:?}", vm.name_any());
    let (before, mut now) = (vm.status.clone().unwrap(), shown(vm, &found));
    let power = conditions::find(&now.conditions, "VirtualMachinePowerStateSynced").cloned().unwrap();
    assert_eq!((power.status.as_ref(), power.reason.as_deref()), ("Unknown", Some("Unreachable")));
    assert!(power.message.as_deref().unwrap().contains(word), "{power:?}");
    let ready = |status: &VirtualMachineStatus| conditions::holds(&status.conditions, conditions::READY);
    assert_eq!((ready(&now), now.vm_ip.is_some()), (ready(&before), true));
    now.conditions.clone_from(&before.conditions);
    assert_eq!(now, before, "address, UUIDs and power state stand");
    let refused = destroy_vm(vm, ctx).await;
    assert!(matches!(refused, Err(Error::Blocked(Blocked::Unavailable(_)))), "{refused:?}");
}

/// Asserts that VMs weren't created or destroyed, and that each VirtualMachine's VM is found with the same status.
async fn all_are_back(objects: &[VirtualMachine], sim: &Sim, vcenter: &VCenter, ctx: &Context) {
    assert_eq!((sim.calls("CloneVM_Task").await, sim.calls("Destroy_Task").await), (0, 0));
    for vm in objects {
        let found = find_now(vm, sim, vcenter, ctx).await;
        assert!(matches!(found, Found::Ours(_)), "{found:?}");
        assert_eq!(Some(shown(vm, &found)), vm.status);
    }
}

async fn hosts(sim: &Sim) -> BTreeSet<String> {
    let inventory = sim.get("/v1/inventory").await;
    let vms = inventory["vms"].as_array().unwrap().iter();
    vms.map(|vm| vm["host"].as_str().unwrap().to_owned()).collect()
}

/// Returns a context whose API server returns every requested object.
fn started(vcenter: &Arc<VCenter>) -> (Runtime, Context) {
    let (client, _) = server(|request| {
        let name = request.path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        match name.strip_prefix("cp-").and_then(|number| number.parse().ok()) {
            Some(number) => (200, serde_json::to_value(object(number)).unwrap()),
            None => refusal(404, "NotFound"),
        }
    });
    let runtime = Runtime::detached(client);
    let ctx = context(&runtime, vcenter);
    (runtime, ctx)
}

async fn no_vm_is_made_or_destroyed_while_hosts_are_away(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let (runtime, ctx) = started(&vcenter);
    let objects = made(MACHINES, &sim, &vcenter, &ctx).await;
    let before = names(&sim).await;
    sim.forget_requests().await;

    for host in hosts(&sim).await {
        sim.put(&format!("/v1/hosts/{host}/outage"), json!({ "state": "notResponding" })).await;
    }
    away(&vcenter, objects.len() + 1).await;
    for vm in &objects {
        stays(vm, "disconnected", &sim, &vcenter, &ctx).await;
    }
    sim.delete("/v1/outages").await;
    away(&vcenter, 0).await;
    all_are_back(&objects, &sim, &vcenter, &ctx).await;
    assert_eq!(names(&sim).await, before);
    runtime.shutdown.cancel();
}

async fn no_vm_is_made_or_destroyed_while_a_datastore_is_away(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let (runtime, ctx) = started(&vcenter);
    let objects = made(MACHINES, &sim, &vcenter, &ctx).await;
    let before = names(&sim).await;
    sim.forget_requests().await;

    sim.put("/v1/datastores/ds1/outage", json!({ "accessible": false })).await;
    away(&vcenter, objects.len() + 1).await;
    for vm in &objects {
        stays(vm, "inaccessible", &sim, &vcenter, &ctx).await;
    }
    // The program restarts, and has never read the VMs' configurations.
    let late = crate::testing::vcsim::vcenter(&sim).await;
    let (late_runtime, late_ctx) = started(&late);
    away(&late, objects.len() + 1).await;
    for vm in &objects {
        stays(vm, "inaccessible", &sim, &late, &late_ctx).await;
        // The status is lost, as after a move to another cluster.
        let moved = VirtualMachine { status: None, ..vm.clone() };
        assert!(matches!(find_now(&moved, &sim, &late, &late_ctx).await, Found::Unavailable(_)));
        let mut new = moved;
        new.metadata.annotations = None;
        assert!(matches!(find_now(&new, &sim, &late, &late_ctx).await, Found::Unavailable(_)), "by its name");
    }
    assert!(matches!(find_now(&fresh(), &sim, &late, &late_ctx).await, Found::Absent), "another's is made");

    sim.delete("/v1/outages").await;
    away(&vcenter, 0).await;
    away(&late, 0).await;
    all_are_back(&objects, &sim, &late, &late_ctx).await;
    assert_eq!(names(&sim).await, before);
    destroy_vm(&objects[0], &ctx).await.unwrap();
    assert_eq!(names(&sim).await.len(), before.len() - 1);
    for runtime in [runtime, late_runtime] {
        runtime.shutdown.cancel();
    }
}

/// Returns a VirtualMachine that never had a VM.
fn fresh() -> VirtualMachine {
    let mut vm = object(99);
    vm.metadata.annotations = None;
    vm
}

async fn what_is_known_of_a_vm_outlasts_its_configuration(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let (runtime, ctx) = started(&vcenter);
    let objects = made(1, &sim, &vcenter, &ctx).await;
    let id = objects[0].status.as_ref().unwrap().unique_id.clone().unwrap();
    let before = vcenter.inventory.vm(&MoRef::vm(id.as_str())).present().unwrap();
    for (state, config) in
        [("connected", "unset"), ("orphaned", "unset"), ("invalid", "unset"), ("disconnected", "kept")]
    {
        sim.put(&format!("/v1/vms/{id}/outage"), json!({ "state": state, "config": config })).await;
        away(&vcenter, 1).await;
        let Presence::Unavailable(now) = vcenter.inventory.by_uuid(identity(&objects[0]).instance) else {
            panic!("{state}: not found by its UUID")
        };
        let kept = |vm: &Vm| (vm.uuid, vm.extra_config.clone(), vm.devices.clone(), vm.disks, vm.num_cpus);
        assert_eq!(kept(&now), kept(&before), "{state}");
        assert_eq!(now.configuration == Configuration::LastKnown, config == "unset");
        stays(&objects[0], "", &sim, &vcenter, &ctx).await;
        sim.put(&format!("/v1/vms/{id}/outage"), json!({ "state": "connected" })).await;
        away(&vcenter, 0).await;
    }
    let after = vcenter.inventory.vm(&MoRef::vm(id.as_str())).present().unwrap();
    assert_eq!(after.extra_config, before.extra_config);
    runtime.shutdown.cancel();
}

async fn no_template_goes_while_a_vm_cannot_be_read(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let (runtime, ctx) = started(&vcenter);
    let objects = made(1, &sim, &vcenter, &ctx).await;
    let id = objects[0].status.as_ref().unwrap().unique_id.clone().unwrap();
    forget_base(&MoRef::vm(id.as_str()), &vcenter).await;

    // First our VM can't be read, so that its template is unknown. Then a datastore can't be read, which also affects other
    // installations' VMs.
    for path in [format!("/v1/vms/{id}/outage"), "/v1/datastores/ds0/outage".to_owned()] {
        let order = if path.contains("vms") {
            json!({ "state": "inaccessible" })
        } else {
            json!({ "accessible": false })
        };
        sim.put(&path, order).await;
        if path.contains("vms") {
            away(&vcenter, 1).await;
        }
        let collected = templates::collect(&templates().0, &vcenter, |_, _| false).await;
        assert!(collected.is_err(), "{path}: {collected:?}");
        sim.delete("/v1/outages").await;
        away(&vcenter, 0).await;
    }
    assert_eq!(sim.calls("Destroy_Task").await, 0);
    let inventory = sim.get("/v1/inventory").await;
    assert!(inventory["vms"].as_array().unwrap().iter().all(|vm| vm["broken"] == false), "{inventory}");
    runtime.shutdown.cancel();
}

/// Creates a VM with a volume, and returns it with its disk record.
async fn with_volume(sim: &Sim, vcenter: &Arc<VCenter>) -> (Arc<Vm>, DiskRecord) {
    let template = template(vcenter, &template_key(sim, vcenter).await).await;
    let facts = fixtures::facts(Found::Absent);
    let mut vm = fixtures::with_volumes(&[("tmp", "1Gi")]);
    let plan = wanted_of(&vm, sim, vcenter, &template, &facts).await;
    let made = within("the clone", clone_vm(&plan, &facts, vcenter)).await.unwrap();
    let text = DiskRecord::default().complete_record(&made).expect("both disks are recorded");
    vm.metadata.annotations = Some([(annotation::DISKS.to_owned(), text)].into());
    assert_eq!(DiskRecord::of(&vm).complete_record(&made), None);
    (made, DiskRecord::of(&vm))
}

async fn a_disk_in_a_vacated_place_outlives_the_vm(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    for first_class in [false, true] {
        let (made, record) = with_volume(&sim, &vcenter).await;
        let devices = vcenter.client.devices(&made.moref).await.unwrap();
        let places = |devices: &vsphere::Devices| -> BTreeSet<_> {
            devices.disks.iter().map(|disk| (disk.controller, disk.unit)).collect()
        };
        let own = devices.disks.last().unwrap().clone();
        let change = vec![DeviceChange::Disk(DiskChange::Destroy(own))];
        let spec = ConfigSpec { device_change: change, ..ConfigSpec::default() };
        reconfigure(&made.moref, spec, &vcenter).await;
        let id = made.moref.id();
        let mut theirs = String::new();
        if first_class {
            let disk = sim.post("/v1/disks", json!({ "name": "theirs", "capacityMiB": 64 })).await;
            disk["id"].as_str().unwrap().clone_into(&mut theirs);
            sim.put(&format!("/v1/vms/{id}/disks/{theirs}"), Value::Null).await;
        } else {
            let order = json!({ "file": "[ds1] theirs/disk.vmdk", "capacityMiB": 64 });
            sim.post(&format!("/v1/vms/{id}/disks"), order).await;
        }
        let now = vcenter.client.devices(&made.moref).await.unwrap();
        assert_eq!(places(&now), places(&devices), "theirs hangs where ours did");

        let vsphere_vm = vcenter.inventory.vm(&made.moref).present().unwrap();
        within("its end", destroy(&vsphere_vm, &record, &vcenter)).await.unwrap();
        if first_class {
            let disks = sim.get("/v1/disks").await;
            assert_eq!((&disks["disks"][0]["exists"], &disks["disks"][0]["vm"]), (&json!(true), &json!("")));
        } else {
            assert_eq!(sim.get("/v1/orphans").await["files"], json!(["ds1/theirs"]));
        }
        sim.delete("/v1/orphans").await;
    }
}

/// Without swapped disks, a deletion doesn't need additional calls.
async fn own_disks_go_without_another_call(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let (made, record) = with_volume(&sim, &vcenter).await;
    sim.forget_requests().await;
    within("its end", destroy(&made, &record, &vcenter)).await.unwrap();
    let calls = (sim.calls("ReconfigVM_Task").await, sim.calls("RetrievePropertiesEx").await);
    assert_eq!((calls, sim.calls("Destroy_Task").await), ((0, 0), 1));
    assert_eq!(sim.get("/v1/orphans").await["files"], json!([]));
}

/// A restarted vCenter has forgotten its tasks. A task that isn't found doesn't mean that its VM is gone.
async fn a_vm_outlives_the_memory_of_a_task(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let (made, record) = with_volume(&sim, &vcenter).await;
    let order = json!({ "file": "[ds1] theirs/disk.vmdk", "capacityMiB": 64 });
    sim.post(&format!("/v1/vms/{}/disks", made.moref.id()), order).await;
    for method in ["PowerOffVM_Task", "ReconfigVM_Task", "Destroy_Task"] {
        let fault =
            json!({ "method": method, "kind": "taskFault", "fault": "ManagedObjectNotFound", "count": 1 });
        sim.post("/v1/faults", fault).await;
        let vsphere_vm = vcenter.inventory.vm(&made.moref).present().unwrap();
        let ended = within("the attempt", destroy(&vsphere_vm, &record, &vcenter)).await;
        assert!(matches!(ended, Err(Error::Unsettled(_))), "{method}: {ended:?}");
    }
    let vsphere_vm = vcenter.inventory.vm(&made.moref).present().unwrap();
    within("its end", destroy(&vsphere_vm, &record, &vcenter)).await.unwrap();
    assert_eq!(sim.get("/v1/orphans").await["files"], json!(["ds1/theirs"]));
}

/// Returns the result of a reconcile that failed because its VirtualMachine is gone. `marked` means that the VirtualMachine had
/// the finalizer before.
async fn end_after(marked: bool, vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let mut cached = vm.clone();
    cached.metadata.finalizers = marked.then(|| vec![finalizer::VIRTUAL_MACHINE.to_owned()]);
    let gone = kube::core::Status::failure("gone", "NotFound").with_code(404);
    let failed = Err(Error::from(kube::Error::Api(Box::new(gone))));
    end_if_object_went(failed, &cached, vm, ctx).await.map(drop)
}

async fn a_vm_is_destroyed_whose_object_went_while_its_finalizer_was_put_on(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let there = Arc::new(std::sync::Mutex::new(None::<VirtualMachine>));
    let shown = Arc::clone(&there);
    let (client, _) = server(move |_| match &*shown.lock().unwrap() {
        Some(vm) => (200, json!(vm)),
        None => refusal(404, "NotFound"),
    });
    let started = Runtime::detached(client);
    let ctx = context(&started, &vcenter);
    let vm = made(1, &sim, &vcenter, &ctx).await.remove(0);
    let uuid = identity(&vm).instance;
    let runs = || matches!(vcenter.inventory.by_uuid(uuid), Presence::Present(_));

    assert!(end_after(true, &vm, &ctx).await.is_err() && runs(), "somebody took it away, such as a move");
    *there.lock().unwrap() = Some(vm.clone());
    assert!(end_after(false, &vm, &ctx).await.is_err() && runs(), "it is there");
    *there.lock().unwrap() = None;
    within("the end", end_after(false, &vm, &ctx)).await.unwrap();
    assert_eq!(vcenter.inventory.by_uuid(uuid), Presence::Absent);
    started.shutdown.cancel();
}

on_both_wires!(
    no_vm_is_made_or_destroyed_while_hosts_are_away,
    no_vm_is_made_or_destroyed_while_a_datastore_is_away,
    what_is_known_of_a_vm_outlasts_its_configuration,
    no_template_goes_while_a_vm_cannot_be_read,
    a_disk_in_a_vacated_place_outlives_the_vm,
    own_disks_go_without_another_call,
    a_vm_outlives_the_memory_of_a_task,
    a_vm_is_destroyed_whose_object_went_while_its_finalizer_was_put_on,
);
