//! Tests for the check codes, and for the connection of other commands.

use std::collections::BTreeSet;

use api::vmop::PROVIDER_CONFIGURATION;
use axum::http::StatusCode;
use axum::routing::any;
use axum::{Json, Router};
use kube::Client;
use serde_json::{Value, json};
use vsphere::Recorder;

use super::checks::ALL;
use super::{Options, connect_to_site};

#[test]
fn codes_are_unique_and_in_order() {
    let codes: BTreeSet<_> = ALL.iter().map(|check| check.code).collect();
    assert_eq!(codes.len(), ALL.len());
    assert!(ALL.is_sorted_by_key(|check| check.code));
}

/// Tries to connect with an API server that responds to every request with `answer`.
async fn connection_error(status: StatusCode, answer: Value) -> Option<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(any(async move || (status, Json(answer))));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let options = Options { namespace: "ns".into(), ca: None, recorder: Recorder::default() };
    let connected = connect_to_site(&client, &options).await;
    serving.abort();
    connected.map(|site| assert!(site.is_none())).err()
}

#[tokio::test]
async fn only_a_missing_configuration_means_that_there_is_no_site() {
    let config = json!({"metadata": {"name": PROVIDER_CONFIGURATION}, "data": {"VcPort": "443"}});
    let invalid = connection_error(StatusCode::OK, config).await.unwrap();
    assert!(invalid.starts_with("LC") && invalid.contains("VcCredsSecretName"), "{invalid}");
    let status = |code: u16, reason: &str| json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "refused"});
    let unreadable = connection_error(StatusCode::FORBIDDEN, status(403, "Forbidden")).await.unwrap();
    assert!(unreadable.contains("cannot be read"), "{unreadable}");
    assert_eq!(connection_error(StatusCode::NOT_FOUND, status(404, "NotFound")).await, None);
}
