//! Inventory tests with stream failures.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::fake::{Fake, Reply, Seen, fault, json as reply, moref};
use crate::inventory::{Options, Presence};
use crate::{Config, Inventory, Kind, MoRef, WireKind};

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

/// Starts an inventory on a server that responds to polls with `polls` in order, and doesn't respond to further polls.
async fn following(wire: WireKind, polls: Vec<Option<Reply>>) -> (Fake, Inventory) {
    let mut polls = VecDeque::from(polls);
    let answer = move |_: &Seen| polls.pop_front().unwrap_or(Some(Reply::Never));
    following_within(wire, usize::MAX, answer, |_| None).await
}

/// Starts an inventory with scripted polls and reads, and with a response size limit in bytes.
async fn following_within(
    wire: WireKind,
    longest_answer: usize,
    mut poll: impl FnMut(&Seen) -> Option<Reply> + Send + 'static,
    mut retrieve: impl FnMut(&Seen) -> Option<Reply> + Send + 'static,
) -> (Fake, Inventory) {
    let fake = Fake::start(wire, move |seen| match seen.call() {
        "WaitForUpdatesEx" => poll(seen),
        "RetrievePropertiesEx" => retrieve(seen),
        "CreateContainerView" => moref("ContainerView", "session[1]2"),
        "CreateListView" => moref("ListView", "session[1]3"),
        "CreateFilter" => moref("PropertyFilter", "session[1]4"),
        _ => None,
    })
    .await;
    let options = Options { burst: 100, pace: Duration::ZERO, ..Options::default() };
    let client = fake.connect(Config { longest_answer, ..fake.config() }).await.unwrap();
    let inventory = Inventory::start(client, vec![MoRef::folder("group-v3")], options);
    (fake, inventory)
}

/// Returns the number at a JSON pointer in a request body.
fn number(seen: &Seen, pointer: &str) -> usize {
    let body: Json = serde_json::from_str(&seen.body).unwrap();
    body.pointer(pointer).unwrap().to_string().trim_matches('"').parse().unwrap()
}

/// Returns an update for a VM whose guest has written `bytes` bytes into a guestinfo key.
fn talkative(id: &str, bytes: usize) -> Json {
    let mut update = vm(id);
    let options = json!({ "_typeName": "ArrayOfOptionValue", "_value": [{
        "_typeName": "OptionValue", "key": "guestinfo.x", "value": { "_typeName": "string", "_value": "x".repeat(bytes) } }] });
    let change = json!({ "_typeName": "PropertyChange", "name": "config.extraConfig", "op": "assign", "val": options });
    update["changeSet"].as_array_mut().unwrap().push(change);
    update
}

/// Returns the beginning of a large response about one VM. As in vCenter's responses, the version and the object come
/// first.
fn written(wire: WireKind, version: &str, id: &str) -> Reply {
    let text = "x".repeat(200_000);
    Reply::Raw(match wire {
        WireKind::ViJson => format!(
            r#"{{"_typeName":"UpdateSet","version":"{version}","filterSet":[{{"_typeName":"PropertyFilterUpdate","filter":{{"_typeName":"ManagedObjectReference","type":"PropertyFilter","value":"f"}},"objectSet":[{{"_typeName":"ObjectUpdate","kind":"enter","obj":{{"_typeName":"ManagedObjectReference","type":"VirtualMachine","value":"{id}"}},"changeSet":[{{"name":"config.extraConfig","val":"{text}"#
        ),
        WireKind::Soap => format!(
            r#"<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><WaitForUpdatesExResponse xmlns="urn:vim25"><returnval><version>{version}</version><filterSet><filter type="PropertyFilter">f</filter><objectSet><kind>enter</kind><obj type="VirtualMachine">{id}</obj><changeSet><val>{text}"#
        ),
    })
}

async fn answers_that_are_too_large_are_asked_for_in_smaller_ones(wire: WireKind) {
    // Like vCenter, return the requested number of objects, starting after the requested version.
    let poll = |seen: &Seen| {
        let from: usize = version(seen).parse().unwrap_or(0);
        if from >= 40 {
            return Some(Reply::Never);
        }
        let to = (from + number(seen, "/options/maxObjectUpdates")).min(40);
        let objects: Vec<Json> = (from..to).map(|at| talkative(&format!("vm-{at}"), 10_000)).collect();
        set(&to.to_string(), to < 40, &objects)
    };
    let (fake, inventory) = following_within(wire, 128 << 10, poll, |_| None).await;
    inventory.wait_until_complete().await;
    assert!((0..40).all(|at| here(&inventory, &format!("vm-{at}"))));
    let pages: Vec<usize> = fake
        .seen()
        .iter()
        .filter(|seen| seen.call() == "WaitForUpdatesEx")
        .map(|seen| number(seen, "/options/maxObjectUpdates"))
        .collect();
    assert_eq!(pages[..6], [250, 125, 62, 31, 15, 7], "{pages:?}");
    assert!(pages[6..].iter().all(|page| *page == 7), "{pages:?}");
    assert_eq!(
        (inventory.last_error().map(|error| error.to_string()), fake.count("CreateFilter")),
        (None, 1)
    );
}

async fn of_a_vm_that_is_too_large_nothing_is_certain_and_the_others_are_known(wire: WireKind) {
    let poll = move |seen: &Seen| match version(seen).as_str() {
        "" if number(seen, "/options/maxObjectUpdates") > 1 => {
            set("3", false, &[vm("vm-1"), talkative("vm-2", 200_000), vm("vm-3")])
        }
        "" => set("1", true, &[vm("vm-1")]),
        "1" => Some(written(wire, "2", "vm-2")),
        "2" => set("3", false, &[vm("vm-3")]),
        _ => Some(Reply::Never),
    };
    let (_fake, inventory) = following_within(wire, 128 << 10, poll, |_| None).await;
    inventory.wait_until_complete().await;
    assert!(here(&inventory, "vm-1") && here(&inventory, "vm-3"));
    let large = inventory.vm(&MoRef::vm("vm-2"));
    assert!(matches!(large, Presence::Unavailable(_)), "{large:?}");
    assert_eq!(inventory.unidentified().len(), 1);
}

async fn a_vm_that_was_too_large_is_read_whole_when_it_changes(wire: WireKind) {
    let poll = move |seen: &Seen| match version(seen).as_str() {
        "" => Some(written(wire, "1", "vm-1")),
        "1" => {
            let off = json!({ "_typeName": "VirtualMachinePowerState", "_value": "poweredOff" });
            set(
                "2",
                false,
                &[object("modify", &reference("VirtualMachine", "vm-1"), &[("runtime.powerState", off)])],
            )
        }
        _ => Some(Reply::Never),
    };
    let retrieve = |_: &Seen| {
        let properties = vm("vm-1")["changeSet"].as_array().unwrap().clone();
        let properties: Vec<Json> = properties
            .into_iter()
            .map(|change| json!({ "_typeName": "DynamicProperty", "name": change["name"], "val": change["val"] }))
            .collect();
        let content = json!({ "_typeName": "ObjectContent", "obj": reference("VirtualMachine", "vm-1"), "propSet": properties });
        reply(200, json!({ "_typeName": "RetrieveResult", "objects": [content] }))
    };
    let (_fake, inventory) = following_within(wire, 128 << 10, poll, retrieve).await;
    let vm = inventory.wait_for_vm(&MoRef::vm("vm-1"), Duration::from_secs(20)).await.unwrap();
    assert_eq!(vm.name, "vm-1");
}

async fn a_reading_that_is_too_large_begins_anew_with_fewer_objects(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match seen.call() {
        "RetrievePropertiesEx" => {
            let objects = number(seen, "/options/maxObjects").min(8);
            let content: Vec<Json> = (0..objects)
                .map(|at| {
                    let name = json!({ "_typeName": "string", "_value": "x".repeat(10_000) });
                    let name = json!({ "_typeName": "DynamicProperty", "name": "name", "val": name });
                    json!({ "_typeName": "ObjectContent", "obj": reference("VirtualMachine", &format!("vm-{at}")), "propSet": [name] })
                })
                .collect();
            reply(200, json!({ "_typeName": "RetrieveResult", "objects": content }))
        }
        _ => None,
    })
    .await;
    let client = fake.connect(Config { longest_answer: 64 << 10, ..fake.config() }).await.unwrap();
    let read = client.retrieve(&[MoRef::vm("vm-1")], &["name"]).await.unwrap();
    assert!(!read.is_empty() && read.len() < 8, "{}", read.len());
    let client = fake.connect(Config { longest_answer: 8 << 10, ..fake.config() }).await.unwrap();
    let error = client.retrieve(&[MoRef::vm("vm-1")], &["name"]).await.unwrap_err();
    assert_eq!(error.kind(), &Kind::TooLarge { limit: 8 << 10 });
    assert!(error.to_string().ends_with("the answer is longer than 8192 bytes"), "{error}");
}

/// Returns the version from which a poll continues.
fn version(seen: &Seen) -> String {
    serde_json::from_str::<Json>(&seen.body).unwrap()["version"].as_str().unwrap().to_owned()
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
    answers_that_are_too_large_are_asked_for_in_smaller_ones,
    of_a_vm_that_is_too_large_nothing_is_certain_and_the_others_are_known,
    a_vm_that_was_too_large_is_read_whole_when_it_changes,
    a_reading_that_is_too_large_begins_anew_with_fewer_objects,
    the_cache_is_complete_after_the_last_page_only,
    an_empty_folder_is_complete_at_once,
    a_lost_answer_is_asked_for_again,
    an_unknown_version_is_sent_from_the_beginning,
    a_lost_session_rebuilds_everything_and_keeps_who_waits,
    what_is_waited_for_is_found_when_the_stream_shows_it,
    stopping_ends_who_waits,
    logging_out_stops_the_inventory,
);
