use serde_json::json;
use support::api_server::{Request, refusal, server};

use super::*;

fn config_map(namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}})
}

fn crd_object(kind: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "g.io/v1", "kind": kind, "metadata": {"name": "a"}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// Answers discovery for group `g.io`, which has the namespaced kind Mouse with plural `mice`, and the cluster-scoped kind Host.
/// Answers writes to them with the object.
fn answer(request: &Request) -> (u16, Value) {
    let resource = |kind: &str, plural: &str, namespaced: bool| json!({"kind": kind, "name": plural, "singularName": "", "namespaced": namespaced, "verbs": ["patch"]});
    let resources = [resource("Mouse", "mice", true), resource("Host", "hosts", false)];
    let version = json!({"groupVersion": "g.io/v1", "version": "v1"});
    let group = json!({"name": "g.io", "versions": [version], "preferredVersion": version});
    match request.line().as_str() {
        "GET /apis" => (200, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})),
        "GET /apis/g.io/v1" => {
            (200, json!({"kind": "APIResourceList", "groupVersion": "g.io/v1", "resources": resources}))
        }
        line if line.ends_with("/mice/a")
            || line.ends_with("/v1/hosts/a")
            || line.ends_with("configmaps/a") =>
        {
            (200, request.body.clone())
        }
        _ => refusal(404, "NotFound"),
    }
}

fn lines(requests: &[Request]) -> Vec<String> {
    requests.iter().map(Request::line).collect()
}

#[tokio::test]
async fn an_object_with_a_namespace_needs_one_request() {
    let (client, requests) = server(answer);
    let objects = Objects::new(&client).managed_by("kubeadm");
    objects.apply(&config_map("n")).await.unwrap();
    objects.apply(&crd_object("Host", None)).await.unwrap();
    objects.of_user("dev").dry_run(true).take_over(false).apply(&config_map("n")).await.unwrap();
    let requests = requests.lock();
    let line = "PATCH /api/v1/namespaces/n/configmaps/a";
    assert_eq!(lines(&requests), [line, "PATCH /apis/g.io/v1/hosts/a", line]);
    let query = |index: usize| requests[index].path.split_once('?').unwrap().1;
    assert_eq!(query(0), "&force=true&fieldManager=kubeadm");
    assert_eq!(query(2), "&dryRun=All&fieldManager=kubeadm&fieldValidation=Strict");
    assert_eq!(requests[0].body, config_map("n"));
}

#[tokio::test]
async fn a_users_object_gets_the_scope_and_plural_of_its_kind() {
    let (client, requests) = server(answer);
    let objects = Objects::new(&client).of_user("dev");
    for (object, place) in [
        (crd_object("Mouse", None), "/apis/g.io/v1/namespaces/dev/mice/a"),
        (crd_object("Mouse", Some("n")), "/apis/g.io/v1/namespaces/n/mice/a"),
        (crd_object("Host", None), "/apis/g.io/v1/hosts/a"),
        (crd_object("Host", Some("n")), "/apis/g.io/v1/hosts/a"),
    ] {
        objects.apply(&object).await.unwrap();
        assert_eq!(requests.lock().last().unwrap().line(), format!("PATCH {place}"));
    }
}

#[tokio::test]
async fn errors_name_the_object_and_the_reason() {
    let (client, requests) = server(|request| match request.line().as_str() {
        "PATCH /api/v1/namespaces/n/configmaps/a" => {
            refusal(403, "admission webhook \"x\" denied the request: too many")
        }
        "POST /api/v1/namespaces/n/configmaps" => refusal(422, "invalid"),
        _ => answer(request),
    });
    let objects = Objects::new(&client);
    let text = |error: Error| error.to_string();
    assert_eq!(
        text(objects.apply(&config_map("n")).await.unwrap_err()),
        "cannot apply ConfigMap n/a: too many"
    );
    let created = objects.create_if_missing(&config_map("n")).await;
    assert_eq!(text(created.unwrap_err()), "cannot create ConfigMap n/a: invalid");
    assert_eq!(requests.lock().len(), 2, "refusals are not retried");
    let user = objects.clone().of_user("dev");
    let unknown = user.apply(&crd_object("Cat", Some("n"))).await.unwrap_err();
    assert_eq!(
        text(unknown),
        "the API server does not serve kind Cat of g.io/v1. Correct kind; `kubectl api-resources` lists what is served"
    );
    let version =
        json!({"apiVersion": "g.io/v2", "kind": "Mouse", "metadata": {"name": "a", "namespace": "n"}});
    assert_eq!(
        text(user.apply(&version).await.unwrap_err()),
        "the API server does not serve kind Mouse of g.io/v2. Correct apiVersion: g.io has v1"
    );
    let kindless = json!({"apiVersion": "v1", "metadata": {"name": "a"}});
    assert_eq!(text(user.apply(&kindless).await.unwrap_err()), "manifest a: no apiVersion and kind");
}

#[tokio::test]
async fn transient_errors_are_retried_for_a_while() {
    let (client, requests) = server(|_| refusal(404, "namespaces \"n\" not found"));
    let limit = Duration::from_millis(150);
    let error = Objects::new(&client).retry_for(limit).apply(&config_map("n")).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot apply ConfigMap n/a: namespaces \"n\" not found");
    assert!(requests.lock().len() >= 2);
    requests.lock().clear();
    Objects::new(&client).retry_for(Duration::ZERO).apply(&config_map("n")).await.unwrap_err();
    assert_eq!(requests.lock().len(), 1);
}

#[tokio::test]
async fn what_exists_is_not_created_and_what_is_gone_is_not_deleted() {
    let (client, requests) = server(|request| match request.method.as_str() {
        "POST" => refusal(409, "AlreadyExists"),
        _ => refusal(404, "NotFound"),
    });
    let objects = Objects::new(&client);
    objects.create_if_missing(&config_map("n")).await.unwrap();
    objects.delete_all([&config_map("n"), &crd_object("Host", None)]).await.unwrap();
    assert!(objects.read(&config_map("n")).await.unwrap().is_none());
    assert_eq!(requests.lock().len(), 4);
}

#[tokio::test]
async fn every_served_version_of_a_definition_is_waited_for() {
    let (client, _) = server(answer);
    let definition = |plural: &str, versions: Value| json!({"spec": {"group": "g.io", "names": {"plural": plural}, "versions": versions}});
    let (v1, old) = (json!({"name": "v1", "served": true}), json!({"name": "v0", "served": false}));
    let objects = Objects::new(&client);
    let limit = Duration::ZERO;
    objects.wait_until_served(&[definition("mice", json!([v1, old]))], limit).await.unwrap();
    let error = objects.wait_until_served(&[definition("cats", json!([v1]))], limit).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the API server does not serve the custom resource definitions yet within 0 s: cats in g.io/v1 missing"
    );
}
