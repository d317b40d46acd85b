use std::convert::Infallible;

use axum::http::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::watch::Event;
use super::*;

#[derive(Clone, Debug, PartialEq)]
struct NoKeys;

impl Keys for NoKeys {
    const KEYS: &'static [&'static str] = &[];
}

const DEADLINE: Duration = Duration::from_secs(10);

fn get(path: &str) -> MadeRequest {
    Request::get(path).body(Vec::new()).map_err(core::request::Error::BuildRequest)
}

/// Creates a guest that responds to every request with the result of `reply`, which gets the path and the query.
fn guest(name: &str, reply: impl Fn(&str) -> (u16, String) + Clone + Send + 'static) -> GuestClient {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (status, text) = reply(&request.uri().to_string());
        let response = Response::builder().status(status).body(Body::from(text.into_bytes()));
        std::future::ready(Ok::<_, Infallible>(response.unwrap()))
    });
    GuestClient::with_client(Client::new(service, "default"), "tests", name, DEADLINE)
}

#[tokio::test]
async fn a_guest_that_hangs_is_waited_for_so_long_and_no_longer() {
    let service =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let client = Client::new(service, "default");
    let hangs = GuestClient::with_client(client, "tests", "hangs", Duration::from_millis(1));
    let late = GuestError::Unreachable("no answer within 0 s".into());
    assert_eq!(hangs.read::<Value>(get("/a"), 10).await.unwrap_err(), late);
    assert_eq!(hangs.send(get("/a")).await.unwrap_err(), late);
}

#[tokio::test]
async fn a_refusal_is_another_error_than_no_answer() {
    let answered = async |code: u16| {
        let guest = guest("refuses", move |_| (code, json!({"message": "a\nb"}).to_string()));
        guest.read_if_there::<Value>(get("/a"), 10).await
    };
    for code in [403, 409, 422, 500] {
        let refusal = ApiRejection { code, message: "a b".into(), is_immutable: false };
        assert_eq!(answered(code).await, Err(refusal.into()), "{code}");
    }
    assert_eq!(answered(404).await, Ok(None));
    assert_eq!(answered(401).await, Err(GuestError::Unreachable("a b".into())));
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit() {
    let guest = guest("answers", |_| (200, json!({"a": "b"}).to_string()));
    assert_eq!(guest.read::<Value>(get("/a"), 9).await, Ok(json!({"a": "b"})));
    let error = guest.read::<Value>(get("/a"), 8).await.unwrap_err();
    assert_eq!(error.to_string(), "its answer has more than 8 bytes");
    assert_eq!(guest.send(get("/a")).await, Ok(()));
    let error = guest.read::<MetadataPage>(get("/a"), 9).await.unwrap_err();
    assert_eq!(error.to_string(), "its answer does not have the expected form");
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct MetadataPage {
    #[serde(rename = "items")]
    _items: Few<Value, 1>,
}

fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version}})
}

#[tokio::test]
async fn a_list_is_read_page_by_page_and_a_large_one_in_small_pages() {
    let large = "x".repeat(300 << 10);
    let guest = guest("lists", move |path| {
        let number = |key: &str| {
            let part = path.split(['?', '&']).find_map(|part| part.strip_prefix(key));
            part.and_then(|value| value.parse::<usize>().ok())
        };
        let (limit, from) = (number("limit=").unwrap(), number("continue=").unwrap_or(0));
        let item = |n: usize| {
            let mut object = object(&format!("o{n}"), "1");
            object["metadata"]["managedFields"] = json!(large);
            object
        };
        let items: Vec<_> = (from..(from + limit).min(60)).map(item).collect();
        let next = if from + limit < 60 { (from + limit).to_string() } else { String::new() };
        (200, json!({"metadata": {"resourceVersion": "7", "continue": next}, "items": items}).to_string())
    });
    let listed: Vec<Metadata<NoKeys>> = guest.list("/api/v1/configmaps", "a=b").await.unwrap();
    assert_eq!(listed.len(), 60);
    assert_eq!(listed[59].name.as_deref(), Some("o59"));
}

#[tokio::test]
async fn a_list_that_never_ends_ends() {
    let endless = guest("endless", |_| {
        let items = vec![object("o", "1"); 50];
        (200, json!({"metadata": {"continue": "more"}, "items": items}).to_string())
    });
    let listed: Vec<Metadata<NoKeys>> = endless.list("/api/v1/configmaps", "a=b").await.unwrap();
    assert_eq!(listed.len(), watch::MAX_OBJECTS);
    let empty = guest("empty", |_| (200, json!({"metadata": {"continue": "more"}, "items": []}).to_string()));
    assert_eq!(empty.list::<NoKeys>("/api/v1/configmaps", "a=b").await.unwrap(), []);
}

#[tokio::test]
async fn a_watch_reports_what_is_there_and_what_becomes_of_it() {
    let guest = guest("watches", |path| {
        if !path.contains("watch=true") {
            let items = [object("a", "1")];
            return (200, json!({"metadata": {"resourceVersion": "5"}, "items": items}).to_string());
        }
        assert!(path.contains("resourceVersion=5") && path.contains("labelSelector=a"), "{path}");
        let lines = [
            json!({"type": "ADDED", "object": object("b", "6")}),
            json!({"type": "BOOKMARK", "object": object("", "7")}),
            json!({"type": "DELETED", "object": object("a", "8")}),
        ];
        (200, lines.map(|line| line.to_string() + "\n").concat())
    });
    let (sender, mut events) = mpsc::channel(1);
    let translate = |event: Event<NoKeys>| {
        let name = |meta: Metadata<NoKeys>| meta.name.unwrap_or_default();
        match event {
            Event::Listed(all) => vec![format!("listed {}", all.len())],
            Event::Changed(object) => vec![format!("changed {}", name(object))],
            Event::Gone(object) => vec![format!("gone {}", name(object))],
        }
    };
    let watching = tokio::spawn(guest.watch("/api/v1/configmaps".into(), "a".into(), sender, translate));
    for expected in ["listed 1", "changed b", "gone a"] {
        assert_eq!(events.recv().await.as_deref(), Some(expected));
    }
    drop(events);
    watching.await.unwrap();
}

#[tokio::test]
async fn kinds_are_found_in_the_version_that_has_them() {
    let guest = guest("serves", |path| {
        let resources = |all: Value| (200, json!({ "resources": all }).to_string());
        match path {
            "/api/v1" => resources(json!([
                {"name": "pods/status", "kind": "Pod", "namespaced": true},
                {"name": "pods", "kind": "Pod", "namespaced": true},
                {"name": "../x", "kind": "Evil"},
            ])),
            "/apis/g" => {
                let versions = json!([{"version": "v2"}, {"version": "v1"}]);
                (200, json!({"versions": versions, "preferredVersion": {"version": "v2"}}).to_string())
            }
            "/apis/g/v1" => resources(json!([{"name": "as", "kind": "A"}])),
            "/apis/g/v2" => resources(json!([])),
            _ => (404, "404 page not found".to_owned()),
        }
    });
    let pods = guest.served("", "v1", "Pod").await.unwrap().unwrap();
    assert_eq!(pods.path(None), "/api/v1/namespaces/default/pods");
    assert_eq!(pods.path_of_all(), "/api/v1/pods");
    assert_eq!(guest.served("", "v1", "Evil").await, Ok(None));
    assert_eq!(guest.served("other", "v1", "A").await, Ok(None));
    let of_group = guest.served_anyhow("g", "A").await.unwrap().unwrap();
    assert_eq!(of_group.path(Some("n")), "/apis/g/v1/as");
    assert_eq!(guest.served_anyhow("other", "A").await, Ok(None));
}
