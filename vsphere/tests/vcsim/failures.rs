//! Tests wrong certificates and passwords, lost sessions, lost responses, and changes by others.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::{poll, within};
use uuid::Uuid;
use vsphere::inventory::{Location, Options, PowerState, Presence};
use vsphere::{Client, Config, Inventory, Kind, ServerTrust, with_bound_changes};

use crate::vms::golden;

async fn a_refused_certificate_shows_its_thumbprint_and_the_thumbprint_opens(sim: Sim) {
    let strange = Config { trust: ServerTrust::System, ..sim.config() };
    let refused = Client::connect(strange).await.err().unwrap();
    let Kind::Tls { shown: Some(shown), .. } = refused.kind() else { panic!("{refused:?}") };
    assert!(refused.to_string().contains(&shown.to_string()), "{refused}");

    let pinned = Config { trust: ServerTrust::Thumbprint(*shown), ..sim.config() };
    Client::connect(pinned).await.unwrap().logout().await;

    let other =
        Config { trust: ServerTrust::Thumbprint(vsphere::Thumbprint::of(b"another")), ..sim.config() };
    let refused = Client::connect(other).await.err().unwrap();
    assert!(matches!(refused.kind(), Kind::Tls { shown: Some(again), .. } if again == shown), "{refused:?}");
    assert!(!refused.retryable());
}

async fn a_wrong_password_and_a_closed_port_are_different_errors(sim: Sim) {
    let mut config = sim.config();
    config.credentials.password = "wrong".into();
    let refused = Client::connect(config).await.err().unwrap();
    assert_eq!(*refused.kind(), Kind::InvalidLogin, "{refused:?}");
    assert!(!refused.to_string().contains("wrong"));

    let config = sim.config();
    drop(sim);
    let refused = Client::connect(config).await.err().unwrap();
    assert!(matches!(refused.kind(), Kind::Unreachable { .. }), "{refused:?}");
}

async fn sessions_that_expire_in_the_middle_cost_one_login_and_lose_nothing(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let before = inventory.generation();
    let task = golden.clone(&sim, inventory.client(), "early", Uuid::from_u128(1)).await.unwrap();
    sim.forget_requests().await;
    sim.post("/v1/sessions/expire", json!({})).await;
    let calls = (0..8).map(|number| {
        let name = format!("late-{number}");
        let (sim, golden, client) = (&sim, &golden, inventory.client());
        async move { golden.clone(sim, client, &name, Uuid::from_u128(100 + number)).await }
    });
    let tasks: Vec<_> = stream::iter(calls).buffered(20).try_collect().await.unwrap();
    within("the task from before", inventory.wait_for_task(&task)).await.unwrap();
    for task in tasks {
        let made = within("a task from after", inventory.wait_for_task(&task)).await.unwrap();
        // The task may end before the inventory sees the new VM.
        inventory.wait_for_vm(made.moref().unwrap(), Duration::from_secs(10)).await.unwrap();
    }
    assert!(inventory.generation() > before);
    assert_eq!(sim.calls("Login").await, 1);
    within("everything is read anew", inventory.wait_until_complete()).await;
    for uuid in (100..108).map(Uuid::from_u128) {
        assert!(matches!(inventory.by_uuid(uuid), Presence::Present(_)));
    }
}

async fn a_session_that_expires_while_nothing_happens_is_renewed_by_the_stream(sim: Sim) {
    let inventory = sim.inventory().await;
    within("everything is read", inventory.wait_until_complete()).await;
    let before = inventory.generation();
    sim.post("/v1/sessions/expire", json!({})).await;
    read_anew(&inventory, before).await;
}

/// Waits until the inventory has moved on from generation `before` and is complete again.
async fn read_anew(inventory: &Inventory, before: u64) {
    let mut changes = inventory.subscribe();
    let anew = async {
        while inventory.generation() == before || !inventory.complete() {
            changes.next().await;
        }
    };
    within("everything is read anew", anew).await;
}

async fn what_one_session_showed_is_not_changed_in_the_next(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let client = inventory.client();
    let vm = golden.make_clone(&sim, &inventory, "cp-0", Uuid::from_u128(5)).await;
    inventory.wait_for_vm(&vm, Duration::from_secs(20)).await.unwrap();
    with_bound_changes(async {
        inventory.bind_changes();
        let before = inventory.generation();
        sim.post("/v1/sessions/expire", json!({})).await;
        let refused = client.power_off(&vm).await.unwrap_err();
        assert_eq!(*refused.kind(), Kind::NotAuthenticated);
        assert_eq!(sim.calls("PowerOffVM_Task").await, 1, "it was not sent again");
        read_anew(&inventory, before).await;
        let refused = client.power_off(&vm).await.unwrap_err();
        assert_eq!(*refused.kind(), Kind::NotAuthenticated, "it is bound to the old one still");
        inventory.bind_changes();
        let task = client.power_off(&vm).await.unwrap();
        within("the end", inventory.wait_for_task(&task)).await.unwrap();
    })
    .await;
}

async fn a_clone_whose_answer_is_lost_is_found_by_its_uuid(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    sim.forget_requests().await;
    sim.post("/v1/faults", json!({ "method": "CloneVM_Task", "kind": "lostAnswer", "count": 1 })).await;
    let uuid = Uuid::from_u128(5);
    let lost = golden.clone(&sim, inventory.client(), "cp-0", uuid).await.unwrap_err();
    assert!(lost.outcome_unknown(), "{lost:?}");
    let mut changes = inventory.subscribe();
    while inventory.by_uuid(uuid) == Presence::Absent {
        within("the VM appears", changes.next()).await.unwrap();
    }
    assert_eq!(sim.calls("CloneVM_Task").await, 1);
    let again = golden.clone(&sim, inventory.client(), "cp-0", Uuid::from_u128(6)).await;
    let error = match again {
        Ok(task) => within("the second", inventory.wait_for_task(&task)).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.category(), "DuplicateName", "{error:?}");
}

async fn a_task_that_fails_says_why(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let fault = "InsufficientMemoryResourcesFault";
    sim.post(
        "/v1/faults",
        json!({ "method": "CloneVM_Task", "kind": "taskFault", "fault": fault, "message": "no memory", "count": 1 }),
    )
    .await;
    let task = golden.clone(&sim, inventory.client(), "cp-0", Uuid::from_u128(5)).await.unwrap();
    let error = within("the failure", inventory.wait_for_task(&task)).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::InsufficientResources, "{error:?}");
    assert!(error.to_string().contains("no memory"), "{error}");
}

async fn a_clone_that_fails_half_way_leaves_a_vm_that_is_known(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    sim.post("/v1/faults", json!({ "method": "CloneVM_Task", "kind": "halfClone", "count": 1 })).await;
    let uuid = Uuid::from_u128(5);
    let task = golden.clone(&sim, inventory.client(), "cp-0", uuid).await.unwrap();
    within("the failure", inventory.wait_for_task(&task)).await.unwrap_err();
    let mut changes = inventory.subscribe();
    while inventory.by_uuid(uuid) == Presence::Absent {
        within("the VM appears", changes.next()).await.unwrap();
    }
    let vm = inventory.by_uuid(uuid).present().unwrap();
    assert_eq!(vm.power_state, Some(PowerState::Off));
    let task = inventory.client().power_on(&vm.moref).await.unwrap();
    within("power on", inventory.wait_for_task(&task)).await.unwrap();
}

async fn broken_answers_are_survived(sim: Sim) {
    let inventory = sim.inventory().await;
    for kind in ["http503", "html", "abort"] {
        sim.post("/v1/faults", json!({ "method": "FindByUuid", "kind": kind, "count": 2 })).await;
        let location = inventory.locate(Uuid::from_u128(1), None).await;
        assert_eq!(location.unwrap(), Location::Gone, "{kind}");
        sim.post("/v1/faults", json!({ "method": "WaitForUpdatesEx", "kind": kind, "count": 2 })).await;
    }
    let golden = golden(&sim, &inventory).await;
    golden.make_clone(&sim, &inventory, "cp-0", Uuid::from_u128(5)).await;
}

async fn a_long_poll_that_hangs_ends_what_was_complete(sim: Sim) {
    let second = Duration::from_secs(1);
    let config = Config { poll_timeout: second, poll_grace: second, ..sim.config() };
    let client = Client::connect(config).await.unwrap();
    let inventory = Inventory::start(client, vec![sim.folder()], Options::default());
    within("everything is read", inventory.wait_until_complete()).await;
    let before = inventory.generation();
    // Hold more polls than a single resync attempt sends.
    sim.post("/v1/faults", json!({ "method": "WaitForUpdatesEx", "kind": "hold", "count": 1000 })).await;
    let doubted = || async { (!inventory.complete()).then_some(()) };
    poll("what may be old does not count as complete", Duration::from_secs(20), doubted).await.unwrap();
    let why = || async { inventory.last_error().filter(|error| *error.kind() == Kind::TimedOut) };
    poll("it says why", Duration::from_secs(20), why).await.unwrap();
    assert!(!inventory.complete());
    sim.delete("/v1/faults").await;
    within("everything is read anew", inventory.wait_until_complete()).await;
    assert!(inventory.generation() > before);
}

async fn changes_by_others_are_seen(sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let uuid = Uuid::from_u128(5);
    let vm = golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    inventory.wait_for_vm(&vm, Duration::from_secs(20)).await.unwrap();
    let mut changes = inventory.subscribe();
    let path = format!("/v1/vms/{}/power", vm.id());
    sim.post(&path, json!({ "action": "off" })).await;
    while inventory.vm(&vm).present().unwrap().power_state != Some(PowerState::Off) {
        within("it is off", changes.next()).await.unwrap();
    }
    sim.post(&path, json!({ "action": "destroy" })).await;
    while inventory.by_uuid(uuid) != Presence::Absent {
        within("it is gone", changes.next()).await.unwrap();
    }
    assert_eq!(inventory.locate(uuid, None).await.unwrap(), Location::Gone);
}

async fn a_folder_is_added_later_and_its_vms_are_known_at_once(sim: Sim) {
    let inventory = Inventory::start(sim.client().await, Vec::new(), Options::default());
    within("nothing is complete, too", inventory.wait_until_complete()).await;
    let seen = sim.inventory().await;
    let golden = golden(&sim, &seen).await;
    let uuid = Uuid::from_u128(5);
    golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    assert_eq!(inventory.by_uuid(uuid), Presence::Absent);
    assert!(
        matches!(inventory.locate(uuid, None).await.unwrap(), Location::Elsewhere(vm) if vm.name == "cp-0")
    );

    within("the folder", inventory.add_root(&sim.folder())).await.unwrap();
    assert!(matches!(inventory.by_uuid(uuid), Presence::Present(_)));
    let missing = inventory.add_root(&vsphere::MoRef::folder("group-v999")).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    assert_eq!(inventory.roots(), [sim.folder()]);
    let vm = golden.make_clone(&sim, &inventory, "cp-1", Uuid::from_u128(6)).await;
    inventory.wait_for_vm(&vm, Duration::from_secs(20)).await.unwrap();
}

async fn a_vm_that_cannot_be_read_where_nobody_looks_is_not_gone(sim: Sim) {
    let inventory = Inventory::start(sim.client().await, Vec::new(), Options::default());
    within("nothing is complete, too", inventory.wait_until_complete()).await;
    let golden = golden(&sim, &sim.inventory().await).await;
    let (uuid, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let made = golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    let outage = format!("/v1/vms/{}/outage", made.id());
    sim.put(&outage, json!({ "state": "inaccessible" })).await;
    assert_eq!(inventory.locate(uuid, None).await.unwrap(), Location::Gone, "vCenter does not find it");
    let found = inventory.locate(uuid, Some(&made)).await.unwrap();
    assert!(matches!(&found, Location::Unavailable(vm) if vm.moref == made), "{found:?}");
    sim.put(&outage, json!({ "state": "connected" })).await;
    assert!(matches!(inventory.locate(uuid, Some(&made)).await.unwrap(), Location::Elsewhere(_)));
    assert_eq!(inventory.locate(other, Some(&made)).await.unwrap(), Location::Gone, "it is another's");
}

async fn a_vm_that_is_moved_away_and_cannot_be_read_is_not_gone(sim: Sim) {
    let client = sim.client().await;
    let inventory = Inventory::start(client.clone(), vec![sim.folder()], Options::default());
    within("the folder", inventory.wait_until_complete()).await;
    let golden = golden(&sim, &sim.inventory().await).await;
    let (uuid, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let made = golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    inventory.wait_for_vm(&made, Duration::from_secs(20)).await.unwrap();
    sim.put(&format!("/v1/vms/{}/outage", made.id()), json!({ "state": "inaccessible" })).await;
    let place = client.retrieve(&[sim.folder()], &["parent"]).await.unwrap();
    let outside = place[0].get("parent").as_moref().unwrap();
    sim.post(&format!("/v1/vms/{}/move", made.id()), json!({ "folder": outside.id() })).await;
    let left = |inventory: &Inventory| matches!(inventory.vm(&made), Presence::Absent).then_some(());
    inventory.wait_until(Duration::from_secs(20), left).await.unwrap();
    let found = inventory.locate(uuid, None).await.unwrap();
    assert!(matches!(&found, Location::Unavailable(vm) if vm.moref == made), "{found:?}");
    assert_eq!(inventory.locate(other, None).await.unwrap(), Location::Gone);
}

async fn at_rest_there_is_the_long_poll_and_nothing_else(sim: Sim) {
    let inventory = sim.inventory().await;
    sim.forget_requests().await;
    // The only test that sleeps, because it checks the behavior over time.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let requests = sim.get("/v1/requests").await;
    let polls = sim.calls("WaitForUpdatesEx").await;
    assert!(sim.total().await == polls && polls <= 1, "{requests}");
    drop(inventory);
}

async fn a_restarted_vcenter_is_read_anew(mut sim: Sim) {
    let inventory = sim.inventory().await;
    let golden = golden(&sim, &inventory).await;
    let uuid = Uuid::from_u128(5);
    golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    let mut changes = inventory.subscribe();
    sim.restart();
    while inventory.by_uuid(uuid) != Presence::Absent {
        within("the VM is gone", changes.next()).await.unwrap();
    }
    assert_eq!(inventory.locate(uuid, None).await.unwrap(), Location::Gone);
    assert!(inventory.last_error().is_none());
    let golden = crate::vms::golden(&sim, &inventory).await;
    within("the folder", inventory.add_root(&sim.folder())).await.unwrap();
    let vm = golden.make_clone(&sim, &inventory, "cp-0", uuid).await;
    inventory.wait_for_vm(&vm, Duration::from_secs(20)).await.unwrap();
}

on_both_wires!(
    a_refused_certificate_shows_its_thumbprint_and_the_thumbprint_opens,
    a_wrong_password_and_a_closed_port_are_different_errors,
    sessions_that_expire_in_the_middle_cost_one_login_and_lose_nothing,
    a_clone_whose_answer_is_lost_is_found_by_its_uuid,
    a_task_that_fails_says_why,
    a_clone_that_fails_half_way_leaves_a_vm_that_is_known,
    broken_answers_are_survived,
    a_long_poll_that_hangs_ends_what_was_complete,
    at_rest_there_is_the_long_poll_and_nothing_else,
    a_restarted_vcenter_is_read_anew,
    a_session_that_expires_while_nothing_happens_is_renewed_by_the_stream,
    changes_by_others_are_seen,
    a_folder_is_added_later_and_its_vms_are_known_at_once,
    a_vm_that_cannot_be_read_where_nobody_looks_is_not_gone,
    a_vm_that_is_moved_away_and_cannot_be_read_is_not_gone,
    what_one_session_showed_is_not_changed_in_the_next,
);
