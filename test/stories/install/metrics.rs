//! A user reads metrics over HTTPS, if the user's token has a role from config/. Others are refused.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::own_server::{OwnServer, assert_no_right_is_missing, render, without_cert_manager};
use crate::harness::story::{SOON, Story, story};

const NAMESPACE: &str = "default";
/// The programs, and the config/ roles for reading their metrics.
const PROGRAMS: [(&str, &str); 3] = [
    ("gcm", "vmware-system-tkg-metrics-reader"),
    ("capw", "vmware-system-capw-metrics-reader"),
    ("vmop", "vmware-system-vmop-metrics-reader"),
];

#[test]
fn metrics_are_for_who_may_get_them() {
    story("metrics", |story| async move {
        let server = OwnServer::start(&story, upstream_definitions()).await;
        server.apply("config/crd", &render("crd"));
        server.wait_until_served();
        let (stranger, collector) = (token(&server, "stranger").await, token(&server, "collector").await);
        for (program, role) in PROGRAMS {
            let documents = without_cert_manager(&render(program));
            server.apply(&format!("config/{program}"), &documents);
            let running = server.run(program, &documents, &[]).await;
            let url = running.metrics();
            assert_eq!(status(&url, None).await, 401, "{program}");
            assert_eq!(status(&url, Some("invented")).await, 401, "{program}");
            assert_eq!(status(&url, Some(&stranger)).await, 403, "{program}");
            bind(&server, role).await;
            await_metrics(&story, &url, &collector).await;
            assert_eq!(status(&url, Some(&stranger)).await, 403, "{program}");
            let plain = url.replace("https://", "http://");
            assert!(client().get(plain).send().await.is_err(), "{program} answers in plain HTTP");
            assert_no_right_is_missing(&running);
            let log = std::fs::read_to_string(running.log()).expect("its log");
            assert!(!log.contains(&stranger) && !log.contains(&collector), "{program} logs tokens");
            running.stop().await;
        }
        server.stop().await;
    });
}

/// A program caches its authorization decisions for some seconds, so wait until the role applies.
async fn await_metrics(story: &Story, url: &str, token: &str) {
    story
        .wait_until(&format!("metrics of {url}"), SOON, async || status(url, Some(token)).await == 200)
        .await;
    let text = client().get(url).bearer_auth(token).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("# TYPE leader gauge"), "{text}");
}

async fn status(url: &str, token: Option<&str>) -> u16 {
    let request = client().get(url);
    let request = token.map_or(request.try_clone().unwrap(), |token| request.bearer_auth(token));
    request.send().await.unwrap_or_else(|error| panic!("{url}: {error:?}")).status().as_u16()
}

/// Returns a client that doesn't verify the certificate, like Prometheus for Cluster API's managers.
fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

async fn token(server: &OwnServer, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token.unwrap()
}

async fn bind(server: &OwnServer, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "collector", "namespace": NAMESPACE}],
    });
    layercake::apply::apply(&server.client(), &binding).await.unwrap();
}

/// Returns Cluster API's CRDs without conversion webhooks. gcm and capw watch these kinds.
pub fn upstream_definitions() -> Vec<Value> {
    let names = plane::tools::managers().map(|manager| manager.name);
    let documents = names.flat_map(|name| components::config::upstream(name).expect("manifests"));
    let mut definitions: Vec<_> =
        documents.filter(|document| document["kind"] == "CustomResourceDefinition").collect();
    for definition in &mut definitions {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    definitions
}
