//! Tests for the shared login, its renewal, and safe retries.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::join_all;
use futures::stream;

use super::fake::{Fake, Reply, Seen, fault, json, moref};
use crate::{ChangeGuard, Config, Credentials, Kind, MoRef, WireKind};

fn other() -> Credentials {
    Credentials { username: "user".into(), password: "other".into() }
}

async fn a_lost_session_is_renewed_once_for_all(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match seen.session.as_str() {
        "token-1" => fault("NotAuthenticated"),
        "token-2" => moref("Task", "task-1"),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    let vm = MoRef::vm("vm-1");
    let tasks = join_all((0..10).map(|_| client.power_on(&vm))).await;
    assert!(tasks.iter().all(Result::is_ok), "{tasks:?}");
    assert_eq!(fake.count("Login"), 2);
    assert_eq!(fake.count("PowerOnVM_Task"), 20);
}

async fn a_session_that_does_not_last_is_an_error_and_no_loop(wire: WireKind) {
    let fake =
        Fake::start(wire, |seen| if seen.session.is_empty() { None } else { fault("NotAuthenticated") })
            .await;
    let error = fake.client().await.power_on(&MoRef::vm("vm-1")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::NotAuthenticated);
    assert_eq!(fake.count("PowerOnVM_Task"), 2);
}

async fn a_refused_password_is_not_tried_again_but_a_new_one_is(wire: WireKind) {
    let logins = Arc::new(AtomicUsize::new(0));
    let counted = logins.clone();
    let fake = Fake::start(wire, move |seen| match (seen.call(), seen.session.as_str()) {
        ("Login", _) => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Some(Reply::Session("token-1".into())),
            1 => fault("InvalidLogin"),
            _ => Some(Reply::Session("token-2".into())),
        },
        (_, "token-1") => fault("NotAuthenticated"),
        (_, "token-2") => moref("Task", "task-1"),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    let vm = MoRef::vm("vm-1");
    for _ in 0..3 {
        let error = client.power_on(&vm).await.unwrap_err();
        assert_eq!(*error.kind(), Kind::InvalidLogin);
        assert!(!format!("{error:?} {error}").contains("hunter2"));
    }
    assert_eq!(logins.load(Ordering::SeqCst), 2);
    client.set_credentials(other()).await.unwrap();
    client.power_on(&vm).await.unwrap();
}

async fn a_lost_answer_of_a_clone_is_reported_and_not_repeated(wire: WireKind) {
    for reply in [Reply::Abort, Reply::Body(503, "<html>upstream connect error</html>".into())] {
        let fake =
            Fake::start(wire, move |seen| (seen.call() == "CloneVM_Task").then(|| reply.clone())).await;
        let client = fake.client().await;
        let (source, folder) = (MoRef::vm("vm-0"), MoRef::folder("group-v3"));
        let error = client.clone_vm(&source, &folder, "cp-0", crate::CloneSpec::default()).await.unwrap_err();
        assert!(error.outcome_unknown() && error.retryable(), "{error:?}");
        assert_eq!(error.object(), Some("cp-0"));
        assert_eq!(fake.count("CloneVM_Task"), 1);
    }
}

async fn reading_is_repeated(wire: WireKind) {
    let mut times = 0;
    let fake = Fake::start(wire, move |seen| {
        if seen.call() != "FindByUuid" {
            return None;
        }
        times += 1;
        match times {
            1 => Some(Reply::Body(503, "<html>".into())),
            2 => Some(Reply::Abort),
            _ => moref("VirtualMachine", "vm-7"),
        }
    })
    .await;
    let found = fake.client().await.find_by_uuid(uuid::Uuid::nil(), true).await.unwrap();
    assert_eq!(found, Some(MoRef::vm("vm-7")));
}

async fn logging_out_ends_the_session_for_good(wire: WireKind) {
    let fake = Fake::start(wire, |_| None).await;
    let client = fake.client().await;
    client.logout().await;
    let last = fake.seen().pop().unwrap();
    assert_eq!((last.call(), last.session.as_str()), ("Logout", "token-1"));
    let error = client.power_on(&MoRef::vm("vm-1")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Canceled);
    assert_eq!(fake.count("PowerOnVM_Task"), 0);
}

async fn nothing_is_changed_once_the_guard_says_no(wire: WireKind) {
    let fake = Fake::start(wire, |_| None).await;
    let may = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&may);
    let guard = ChangeGuard::new(move || asked.load(Ordering::SeqCst));
    let client = fake.connect(Config { guard, ..fake.config() }).await.unwrap();
    let error = client.power_on(&MoRef::vm("vm-1")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Canceled);
    let _ = client.delete_library_item("item").await.unwrap_err();
    let bytes = stream::iter([io::Result::Ok(Bytes::from_static(b"disk"))]);
    let error = client.upload(&format!("{}/disk", fake.base()), 4, bytes, &Arc::default()).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Canceled);
    assert!(fake.seen().iter().all(|seen| {
        seen.call() != "PowerOnVM_Task" && !["DELETE", "PUT"].contains(&seen.method.as_str())
    }));
    let _ = client.find_by_uuid(uuid::Uuid::nil(), true).await;
    assert!(fake.count("FindByUuid") > 0, "reading goes on");
    may.store(true, Ordering::SeqCst);
    let _ = client.power_on(&MoRef::vm("vm-1")).await;
    assert_eq!(fake.count("PowerOnVM_Task"), 1);
}

/// Responds like a server whose Automation API accepts only the token `takes`. Returns `None` for other requests.
fn library(seen: &Seen, takes: &str) -> Option<Reply> {
    if seen.path == "/api/session" && seen.method == "POST" {
        return json(201, "token-a".into());
    }
    if !seen.path.starts_with("/api/content/library/") {
        return None;
    }
    if seen.session == takes {
        json(200, serde_json::json!({ "id": "lib-1", "name": "images" }))
    } else {
        json(401, serde_json::json!({ "error_type": "UNAUTHENTICATED", "messages": [] }))
    }
}

async fn one_token_opens_the_automation_api_too(wire: WireKind) {
    let fake = Fake::start(wire, |seen| library(seen, "token-1")).await;
    let client = fake.client().await;
    client.library("lib-1").await.unwrap();
    client.logout().await;
    assert_eq!((fake.count("Login"), fake.count("Logout"), fake.count("session")), (1, 1, 0));
}

async fn an_automation_api_that_takes_no_other_token_gets_a_login_of_its_own(wire: WireKind) {
    let fake = Fake::start(wire, |seen| library(seen, "token-a")).await;
    let client = fake.client().await;
    for _ in 0..2 {
        client.library("lib-1").await.unwrap();
    }
    assert_eq!((fake.count("Login"), fake.count("session")), (1, 1));
    client.logout().await;
    assert_eq!((fake.count("Logout"), fake.count("session")), (1, 2), "both sessions end");
}

async fn an_old_vcenter_gets_a_second_login_when_the_automation_api_is_needed(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match seen.call() {
        "system" => json(200, serde_json::json!({ "api_release": "8.0.2.0" })),
        "vimServiceVersions.xml" => Some(Reply::Body(200, super::soap::versions("7.0.3.0"))),
        _ => library(seen, "token-a"),
    })
    .await;
    let client = fake.client().await;
    assert_eq!((fake.count("Login"), fake.count("session")), (1, 0), "not before it is needed");
    client.library("lib-1").await.unwrap();
    assert_eq!((fake.count("library"), fake.count("lib-1"), fake.count("session")), (0, 1, 1));
}

async fn a_session_of_the_old_automation_api_ends_too(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match (seen.method.as_str(), seen.path.as_str()) {
        (_, "/api/session" | "/api/content/library/lib-1") => {
            Some(Reply::Body(404, "404 page not found".into()))
        }
        ("POST", "/rest/com/vmware/cis/session") => json(200, serde_json::json!({ "value": "token-a" })),
        (_, "/rest/com/vmware/content/library/id:lib-1") if seen.session == "token-a" => {
            json(200, serde_json::json!({ "value": { "id": "lib-1", "name": "images" } }))
        }
        (_, "/rest/com/vmware/content/library/id:lib-1") => json(
            401,
            serde_json::json!({
                "type": "com.vmware.vapi.std.errors.unauthenticated", "value": { "messages": [] }
            }),
        ),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    client.library("lib-1").await.unwrap();
    client.logout().await;
    let ended = |seen: &Seen| seen.method == "DELETE" && seen.path == "/rest/com/vmware/cis/session";
    let ended: Vec<_> = fake.seen().into_iter().filter(ended).map(|seen| seen.session).collect();
    assert_eq!(ended, ["token-a"]);
}

async fn a_lost_answer_to_the_deletion_of_a_module_is_no_failure(wire: WireKind) {
    let mut times = 0;
    let fake = Fake::start(wire, move |seen| {
        if seen.method != "DELETE" || seen.path != "/rest/vcenter/cluster/modules/module-1" {
            return None;
        }
        times += 1;
        let missing = serde_json::json!({
            "type": "com.vmware.vapi.std.errors.not_found", "value": { "messages": [] }
        });
        if times == 1 { Some(Reply::Abort) } else { json(404, missing) }
    })
    .await;
    fake.client().await.delete_cluster_module("module-1").await.unwrap();
    assert_eq!(fake.count("module-1"), 2);
}

async fn other_credentials_take_over_without_a_gap(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match (seen.call(), seen.session.as_str()) {
        ("SuspendVM_Task", "token-1") => Some(Reply::Never),
        ("PowerOnVM_Task", _) => moref("Task", "task-1"),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    let vm = MoRef::vm("vm-1");
    let (slow, slow_vm) = (client.clone(), vm.clone());
    let slow = tokio::spawn(async move { slow.suspend(&slow_vm).await });
    fake.until("SuspendVM_Task", 1).await;
    client.set_credentials(other()).await.unwrap();
    client.power_on(&vm).await.unwrap();
    let used = |call: &str| {
        let sessions = fake.seen().into_iter().filter(|seen| seen.call() == call).map(|seen| seen.session);
        sessions.collect::<Vec<_>>()
    };
    assert_eq!(used("PowerOnVM_Task"), ["token-2"]);
    assert!(used("Logout").is_empty(), "a call is still on its way in the old session");
    slow.abort();
    fake.until("Logout", 1).await;
    assert_eq!(used("Logout"), ["token-1"]);
    client.logout().await;
    assert_eq!(used("Logout"), ["token-1", "token-2"]);
}

async fn refused_credentials_leave_everything_as_it_is(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match seen.call() {
        "Login" if seen.body.contains("other") => fault("InvalidLogin"),
        "PowerOnVM_Task" => moref("Task", "task-1"),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    for _ in 0..2 {
        let refused = client.set_credentials(other()).await.unwrap_err();
        assert_eq!(*refused.kind(), Kind::InvalidLogin);
    }
    client.power_on(&MoRef::vm("vm-1")).await.unwrap();
    assert_eq!(fake.seen().pop().unwrap().session, "token-1");
    assert_eq!((fake.count("Login"), fake.count("Logout")), (2, 0), "a refused password is not tried twice");
}

async fn a_login_that_is_refused_with_401_is_no_lost_session(wire: WireKind) {
    let fake = Fake::start(wire, |seen| match seen.call() {
        "Login" if seen.body.contains("other") => Some(Reply::Body(401, String::new())),
        _ => None,
    })
    .await;
    let refused = fake.client().await.set_credentials(other()).await.unwrap_err();
    assert_eq!(*refused.kind(), Kind::InvalidLogin);
}

on_both_wires!(
    a_lost_session_is_renewed_once_for_all,
    a_session_that_does_not_last_is_an_error_and_no_loop,
    a_refused_password_is_not_tried_again_but_a_new_one_is,
    a_lost_answer_of_a_clone_is_reported_and_not_repeated,
    reading_is_repeated,
    logging_out_ends_the_session_for_good,
    nothing_is_changed_once_the_guard_says_no,
    one_token_opens_the_automation_api_too,
    an_automation_api_that_takes_no_other_token_gets_a_login_of_its_own,
    an_old_vcenter_gets_a_second_login_when_the_automation_api_is_needed,
    a_session_of_the_old_automation_api_ends_too,
    a_lost_answer_to_the_deletion_of_a_module_is_no_failure,
    other_credentials_take_over_without_a_gap,
    refused_credentials_leave_everything_as_it_is,
    a_login_that_is_refused_with_401_is_no_lost_session,
);
