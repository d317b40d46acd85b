//! One login, renewed once, and calls that are repeated only where that does no harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use super::fake::{Fake, Reply, fault, json, moref};
use crate::{Credentials, Kind, MoRef};

#[tokio::test]
async fn a_lost_session_is_renewed_once_for_all() {
    let fake = Fake::start(|seen| match seen.session.as_str() {
        "token-1" => fault("NotAuthenticated"),
        "token-2" => moref("Task", "task-1"),
        _ => None,
    })
    .await;
    let client = fake.client().await;
    let vm = MoRef::vm("vm-1");
    let tasks = join_all((0..10).map(|_| client.power_on(&vm))).await;
    assert!(tasks.iter().all(Result::is_ok), "{tasks:?}");
    assert_eq!(fake.count("session"), 2);
    assert_eq!(fake.count("PowerOnVM_Task"), 20);
}

#[tokio::test]
async fn a_session_that_does_not_last_is_an_error_and_no_loop() {
    let fake =
        Fake::start(|seen| if seen.session.is_empty() { None } else { fault("NotAuthenticated") }).await;
    let error = fake.client().await.power_on(&MoRef::vm("vm-1")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::NotAuthenticated);
    assert_eq!(fake.count("PowerOnVM_Task"), 2);
}

#[tokio::test]
async fn a_refused_password_is_not_tried_again_but_a_new_one_is() {
    let logins = Arc::new(AtomicUsize::new(0));
    let counted = logins.clone();
    let fake = Fake::start(move |seen| match (seen.call(), seen.session.as_str()) {
        ("session", _) => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => json(201, "token-1".into()),
            1 => json(401, serde_json::json!({ "error_type": "UNAUTHENTICATED", "messages": [] })),
            _ => json(201, "token-2".into()),
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
    client.set_credentials(Credentials { username: "user".into(), password: "other".into() });
    client.power_on(&vm).await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_of_a_clone_is_told_and_not_repeated() {
    for reply in [Reply::Abort, Reply::Body(503, "<html>upstream connect error</html>".into())] {
        let fake = Fake::start(move |seen| (seen.call() == "CloneVM_Task").then(|| reply.clone())).await;
        let client = fake.client().await;
        let (source, folder) = (MoRef::vm("vm-0"), MoRef::folder("group-v3"));
        let error = client.clone_vm(&source, &folder, "cp-0", crate::CloneSpec::default()).await.unwrap_err();
        assert!(error.outcome_unknown() && error.retryable(), "{error:?}");
        assert_eq!(error.object(), Some("cp-0"));
        assert_eq!(fake.count("CloneVM_Task"), 1);
    }
}

#[tokio::test]
async fn reading_is_repeated() {
    let mut times = 0;
    let fake = Fake::start(move |seen| {
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

#[tokio::test]
async fn logging_out_ends_the_session_for_good() {
    let fake = Fake::start(|_| None).await;
    let client = fake.client().await;
    client.logout().await;
    let last = fake.seen().pop().unwrap();
    assert_eq!(
        (last.method.as_str(), last.path.as_str(), last.session.as_str()),
        ("DELETE", "/api/session", "token-1")
    );
    let error = client.power_on(&MoRef::vm("vm-1")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Canceled);
    assert_eq!(fake.count("PowerOnVM_Task"), 0);
}

#[tokio::test]
async fn before_8_0_u3_the_automation_api_has_a_session_of_its_own() {
    let fake = Fake::start(|seen| match seen.call() {
        "system" => json(200, serde_json::json!({ "api_release": "8.0.2.0" })),
        "Login" => fault("InvalidLogin"),
        _ => None,
    })
    .await;
    let http = crate::http::Http::plain(fake.base().to_owned());
    let refused = crate::Client::over(http, crate::Config::new("fake", "user", "hunter2")).await;
    assert_eq!(*refused.err().unwrap().kind(), Kind::InvalidLogin);
    let login = fake.seen().pop().unwrap();
    assert_eq!(login.path, "/sdk/vim25/8.0.2.0/SessionManager/SessionManager/Login");
    assert_eq!(login.body, r#"{"_typeName":"LoginRequestType","userName":"user","password":"hunter2"}"#);
}
