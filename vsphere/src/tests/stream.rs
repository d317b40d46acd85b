//! The inventory when its stream breaks.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::fake::{Fake, Reply, Seen, fault, json as reply, moref};
use crate::inventory::{Options, Presence};
use crate::{Inventory, Kind, MoRef, WireKind};

fn reference(kind: &str, id: &str) -> Json {
    json!({ "_typeName": "ManagedObjectReference", "type": kind, "value": id })
}

fn object(kind: &str, obj: &Json, changes: &[(&str, Json)]) -> Json {
    let changes: Vec<Json> = changes
        .iter()
        .map(|(name, val)| json!({ "_typeName": "PropertyChange", "name": name, "op": "assign", "val": val }))
        .collect();
    json!({ "_typeName": "ObjectUpdate", "kind": kind, "obj": obj, "changeSet": changes })
}

fn vm(id: &str) -> Json {
    object(
        "enter",
        &reference("VirtualMachine", id),
        &[
            ("name", json!({ "_typeName": "string", "_value": id })),
            ("config.template", json!({ "_typeName": "boolean", "_value": false })),
            (
                "runtime.connectionState",
                json!({ "_typeName": "VirtualMachineConnectionState", "_value": "connected" }),
            ),
        ],
    )
}

fn task(state: &str) -> Json {
    let state = json!({ "_typeName": "TaskInfoState", "_value": state });
    object("enter", &reference("Task", "task-1"), &[("info.state", state)])
}

fn set(version: &str, truncated: bool, objects: &[Json]) -> Option<Reply> {
    let filters = json!([{ "_typeName": "PropertyFilterUpdate", "filter": reference("PropertyFilter", "f"), "objectSet": objects }]);
    reply(
        200,
        json!({ "_typeName": "UpdateSet", "version": version, "truncated": truncated, "filterSet": filters }),
    )
}

/// Answers the polls in order, then not at all; everything else as a server would.
async fn following(wire: WireKind, polls: Vec<Option<Reply>>) -> (Fake, Inventory) {
    let mut polls = VecDeque::from(polls);
    let fake = Fake::start(wire, move |seen| match seen.call() {
        "WaitForUpdatesEx" => polls.pop_front().unwrap_or(Some(Reply::Never)),
        "CreateContainerView" => moref("ContainerView", "session[1]2"),
        "CreateListView" => moref("ListView", "session[1]3"),
        "CreateFilter" => moref("PropertyFilter", "session[1]4"),
        _ => None,
    })
    .await;
    let options = Options { burst: 100, pace: Duration::ZERO, ..Options::default() };
    let inventory = Inventory::start(fake.client().await, vec![MoRef::folder("group-v3")], options);
    (fake, inventory)
}

fn versions(fake: &Fake) -> Vec<String> {
    let polls = fake.seen().into_iter().filter(|seen| seen.call() == "WaitForUpdatesEx");
    let version = |seen: Seen| {
        let body: Json = serde_json::from_str(&seen.body).unwrap();
        let seconds = body["options"]["maxWaitSeconds"].to_string();
        format!("{}/{}", body["version"].as_str().unwrap(), seconds.trim_matches('"'))
    };
    polls.map(version).collect()
}

fn here(inventory: &Inventory, id: &str) -> bool {
    matches!(inventory.vm(&MoRef::vm(id)), Presence::Present(_))
}

async fn the_cache_is_complete_after_the_last_page_only(wire: WireKind) {
    let pages = vec![set("1", true, &[vm("vm-1")]), set("2", false, &[vm("vm-2")])];
    let (fake, inventory) = following(wire, pages).await;
    assert_eq!(inventory.vm(&MoRef::vm("vm-1")), Presence::Unknown);
    inventory.wait_until_complete().await;
    assert!(here(&inventory, "vm-1") && here(&inventory, "vm-2"));
    assert_eq!(inventory.vm(&MoRef::vm("vm-3")), Presence::Absent);
    fake.until("WaitForUpdatesEx", 3).await;
    assert_eq!(versions(&fake), ["/0", "1/0", "2/240"]);
}

async fn an_empty_folder_is_complete_at_once(wire: WireKind) {
    let (fake, inventory) = following(wire, vec![reply(204, Json::Null)]).await;
    inventory.wait_until_complete().await;
    fake.until("WaitForUpdatesEx", 2).await;
    assert_eq!(versions(&fake), ["/0", "/240"]);
    assert!(inventory.all().is_empty());
}

async fn a_lost_answer_is_asked_for_again(wire: WireKind) {
    let polls = vec![
        set("1", false, &[vm("vm-1")]),
        Some(Reply::Abort),
        Some(Reply::Body(503, "<html>".into())),
        set("2", false, &[vm("vm-2")]),
    ];
    let (fake, inventory) = following(wire, polls).await;
    fake.until("WaitForUpdatesEx", 5).await;
    assert_eq!(versions(&fake), ["/0", "1/240", "1/240", "1/240", "2/240"]);
    assert!(here(&inventory, "vm-1") && here(&inventory, "vm-2"));
    assert_eq!((inventory.generation(), fake.count("CreateFilter")), (1, 1));
}

async fn an_unknown_version_is_sent_from_the_beginning(wire: WireKind) {
    let polls = vec![
        set("1", false, &[vm("vm-1"), vm("vm-2")]),
        fault("InvalidCollectorVersion"),
        set("7", false, &[vm("vm-2")]),
    ];
    let (fake, inventory) = following(wire, polls).await;
    fake.until("WaitForUpdatesEx", 4).await;
    inventory.wait_until_complete().await;
    assert_eq!(versions(&fake), ["/0", "1/240", "/0", "7/240"]);
    assert!(!here(&inventory, "vm-1") && here(&inventory, "vm-2"));
    assert_eq!(fake.count("CreateFilter"), 1);
}

async fn a_lost_session_rebuilds_everything_and_keeps_who_waits(wire: WireKind) {
    for lost in ["NotAuthenticated", "RequestCanceled", "ManagedObjectNotFound"] {
        let polls = vec![
            set("1", false, &[vm("vm-1"), vm("vm-2")]),
            fault(lost),
            set("1", false, &[vm("vm-1"), task("success")]),
        ];
        let (fake, inventory) = following(wire, polls).await;
        let waiting = inventory.clone();
        let result = tokio::spawn(async move { waiting.wait_for_task(&MoRef::task("task-1")).await });
        result.await.unwrap().unwrap();
        inventory.wait_until_complete().await;
        assert!(here(&inventory, "vm-1") && !here(&inventory, "vm-2"), "{lost}");
        assert_eq!((inventory.generation(), fake.count("CreateFilter")), (2, 2), "{lost}");
        assert_eq!(fake.count("Login"), if lost == "NotAuthenticated" { 2 } else { 1 }, "{lost}");
    }
}

async fn what_is_waited_for_is_found_when_the_stream_shows_it(wire: WireKind) {
    let gone = object("leave", &reference("VirtualMachine", "vm-1"), &[]);
    let polls =
        vec![set("1", false, &[vm("vm-1")]), set("2", false, &[vm("vm-2")]), set("3", false, &[gone])];
    let (_fake, inventory) = following(wire, polls).await;
    let left = |inventory: &Inventory| (inventory.vm(&MoRef::vm("vm-1")) == Presence::Absent).then_some(());
    let second = MoRef::vm("vm-2");
    let both = tokio::join!(
        inventory.wait_for_vm(&second, Duration::from_secs(20)),
        inventory.wait_until(Duration::from_secs(20), left),
    );
    assert_eq!((both.0.unwrap().name.as_str(), both.1), ("vm-2", Some(())));
    let never = |_: &Inventory| None::<()>;
    assert_eq!(inventory.wait_until(Duration::from_millis(1), never).await, None);
    let missing = inventory.wait_for_vm(&MoRef::vm("vm-9"), Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(*missing.kind(), Kind::TimedOut);
}

async fn stopping_ends_who_waits(wire: WireKind) {
    let (_fake, inventory) = following(wire, vec![reply(204, Json::Null)]).await;
    let mut changes = inventory.subscribe();
    inventory.wait_until_complete().await;
    let waiting = inventory.clone();
    let result = tokio::spawn(async move { waiting.wait_for_task(&MoRef::task("task-1")).await });
    tokio::task::yield_now().await;
    inventory.stop().await;
    assert!(result.await.unwrap().is_err());
    while changes.next().await.is_some() {}
}

async fn logging_out_stops_the_inventory(wire: WireKind) {
    let (_fake, inventory) = following(wire, vec![reply(204, Json::Null)]).await;
    let mut changes = inventory.subscribe();
    inventory.wait_until_complete().await;
    inventory.client().logout().await;
    while changes.next().await.is_some() {}
    assert!(!inventory.complete());
    assert!(inventory.wait_for_task(&MoRef::task("task-1")).await.is_err());
}

on_both_wires!(
    the_cache_is_complete_after_the_last_page_only,
    an_empty_folder_is_complete_at_once,
    a_lost_answer_is_asked_for_again,
    an_unknown_version_is_sent_from_the_beginning,
    a_lost_session_rebuilds_everything_and_keeps_who_waits,
    what_is_waited_for_is_found_when_the_stream_shows_it,
    stopping_ends_who_waits,
    logging_out_stops_the_inventory,
);
