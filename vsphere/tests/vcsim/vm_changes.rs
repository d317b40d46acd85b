//! Tests VM changes: settings, hardware upgrades, guest power operations, and removal.

use serde_json::json;
use support::vcsim::Sim;
use support::wait::within;
use uuid::Uuid;
use vsphere::inventory::{PowerState, Presence};
use vsphere::{ConfigSpec, Inventory, MoRef, Vm};

use crate::vms::golden;

support::on_both_wires!(a_vm_is_changed_and_its_guest_is_asked, a_removal_has_its_event_time_and_user);

async fn clone_vm(sim: &Sim, inventory: &Inventory, name: &str) -> MoRef {
    let golden = golden(sim, inventory).await;
    let vm = golden.make_clone(sim, inventory, name, Uuid::new_v4()).await;
    within("it enters", inventory.wait_for_vm(&vm, std::time::Duration::from_secs(20))).await.unwrap();
    vm
}

async fn becomes(inventory: &Inventory, vm: &MoRef, what: &str, so: impl Fn(&Vm) -> bool) {
    let mut changes = inventory.subscribe();
    let reached = async {
        loop {
            match inventory.vm(vm) {
                Presence::Present(now) if so(&now) => return,
                _ => drop(changes.next().await),
            }
        }
    };
    within(what, reached).await;
}

async fn a_vm_is_changed_and_its_guest_is_asked(sim: Sim) {
    let inventory = sim.inventory().await;
    let client = inventory.client().clone();
    let vm = clone_vm(&sim, &inventory, "cp-0").await;

    let refused = client.shutdown_guest(&vm).await.unwrap_err();
    assert_eq!(refused.category(), "InvalidState", "{refused}");
    sim.guest(&vm, json!({ "toolsRunning": true, "heartbeat": "yellow" })).await;
    let yellow = |vm: &Vm| vm.guest.heartbeat.as_deref() == Some("yellow");
    becomes(&inventory, &vm, "the heartbeat is yellow", yellow).await;

    client.standby_guest(&vm).await.unwrap();
    becomes(&inventory, &vm, "it sleeps", |vm| vm.power_state == Some(PowerState::Suspended)).await;
    let task = client.power_on(&vm).await.unwrap();
    within("power-on", inventory.wait_for_task(&task)).await.unwrap();
    sim.guest(&vm, json!({ "toolsRunning": true })).await;
    client.shutdown_guest(&vm).await.unwrap();
    becomes(&inventory, &vm, "it is off", |vm| vm.power_state == Some(PowerState::Off)).await;

    let spec = ConfigSpec {
        num_cpus: Some(8),
        memory_mib: Some(1024),
        change_tracking_enabled: Some(true),
        extra_config: vec![("vmservice.lastRestartTime".into(), "7".into())].into(),
        ..ConfigSpec::default()
    };
    let task = client.reconfigure_vm(&vm, spec).await.unwrap();
    within("reconfigure", inventory.wait_for_task(&task)).await.unwrap();
    becomes(&inventory, &vm, "its settings are the new ones", |vm| {
        (vm.num_cpus, vm.memory_mib, vm.change_tracking) == (8, 1024, Some(true))
            && vm.extra_config.get("vmservice.lastRestartTime").is_some_and(|at| at == "7")
    })
    .await;

    let task = client.upgrade_hardware(&vm, 21).await.unwrap();
    within("upgrade", inventory.wait_for_task(&task)).await.unwrap();
    becomes(&inventory, &vm, "its hardware is newer", |vm| vm.hardware_version == "vmx-21").await;
    client.logout().await;
}

async fn a_removal_has_its_event_time_and_user(sim: Sim) {
    let inventory = sim.inventory().await;
    let client = inventory.client().clone();
    let vm = clone_vm(&sim, &inventory, "cp-0").await;
    let before = client.read_current_time().await.unwrap();
    assert_eq!(client.list_removals(&sim.datacenter(), None).await.unwrap(), []);
    sim.post(&format!("/v1/vms/{}/power", vm.id()), json!({ "action": "destroy" })).await;
    becomes_gone(&inventory, &vm).await;
    let removals = client.list_removals(&sim.datacenter(), Some(before)).await.unwrap();
    let [removal] = removals.as_slice() else { panic!("{removals:?}") };
    assert_eq!((removal.event.as_str(), removal.name.as_str()), ("VmRemovedEvent", "cp-0"));
    assert_eq!(removal.vm.as_ref(), Some(&vm));
    assert!(removal.at.is_some_and(|at| at >= before), "{removal:?}");
    client.logout().await;
}

async fn becomes_gone(inventory: &Inventory, vm: &MoRef) {
    let mut changes = inventory.subscribe();
    let gone = async {
        while inventory.vm(vm) != Presence::Absent {
            drop(changes.next().await);
        }
    };
    within("it leaves", gone).await;
}
