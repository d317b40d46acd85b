use axum::body::to_bytes;
use axum::http::Request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::api_server::{self, refusal, server};
use tower::ServiceExt as _;

use super::*;

type Requests = Arc<Mutex<Vec<api_server::Request>>>;

/// Serves metrics with an API server that accepts two tokens: `scraper`, who may get the path, and `stranger`, who may not.
fn diagnostics() -> (Router, Requests) {
    let (client, requests) = server(|request| {
        let spec = &request.body["spec"];
        match request.line().as_str() {
            "POST /apis/authentication.k8s.io/v1/tokenreviews" => match spec["token"].as_str() {
                Some("unlucky") => refusal(500, "InternalError"),
                Some(token @ ("scraper" | "stranger")) => {
                    let user = json!({
                        "username": token, "uid": "7", "groups": ["monitoring"], "extra": {"pod": ["p"]}
                    });
                    (201, reviewed(&request.body, &json!({"authenticated": true, "user": user})))
                }
                _ => (201, reviewed(&request.body, &json!({"authenticated": false}))),
            },
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let asked = json!({
                    "user": spec["user"], "uid": "7", "groups": ["monitoring"], "extra": {"pod": ["p"]},
                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                });
                let allowed = *spec == asked && spec["user"] == "scraper";
                (201, reviewed(&request.body, &json!({"allowed": allowed})))
            }
            _ => refusal(404, "NotFound"),
        }
    });
    (router(Served { metrics: Arc::default(), access: AccessReviewer::new(client) }), requests)
}

fn reviewed(review: &Value, status: &Value) -> Value {
    let mut review = review.clone();
    review["status"] = status.clone();
    review
}

async fn get_metrics(router: &Router, authorization: Option<&str>) -> (StatusCode, String) {
    let mut request = Request::get(PATH);
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let request = request.body(axum::body::Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let (status, body) = (answer.status(), to_bytes(answer.into_body(), 1 << 20).await.unwrap());
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn metrics_are_for_who_may_get_them() {
    let (router, requests) = diagnostics();
    for authorization in [None, Some("Basic c2NyYXBlcg=="), Some("Bearer "), Some("scraper")] {
        assert_eq!(
            get_metrics(&router, authorization).await.0,
            StatusCode::UNAUTHORIZED,
            "{authorization:?}"
        );
    }
    assert!(requests.lock().is_empty(), "nobody is asked where there is no token");
    assert_eq!(get_metrics(&router, Some("Bearer invented")).await.0, StatusCode::UNAUTHORIZED);
    let (status, message) = get_metrics(&router, Some("Bearer stranger")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(message.starts_with("stranger may not get /metrics"), "{message}");
    let (status, metrics) = get_metrics(&router, Some("bearer scraper")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(metrics.contains("# TYPE leader gauge"), "{metrics}");
}

#[tokio::test]
async fn an_answer_is_kept_and_no_answer_is_not() {
    let (router, requests) = diagnostics();
    for token in ["Bearer scraper", "Bearer stranger", "Bearer invented"] {
        let first = get_metrics(&router, Some(token)).await;
        let asked_for_the_first = requests.lock().len();
        assert_eq!(get_metrics(&router, Some(token)).await, first);
        assert_eq!(requests.lock().len(), asked_for_the_first, "{token}");
    }
    let before = requests.lock().len();
    for _ in 0..2 {
        assert_eq!(get_metrics(&router, Some("Bearer unlucky")).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert!(requests.lock().len() >= before + 2);
}

#[tokio::test]
async fn invented_tokens_do_not_fill_the_memory_nor_push_out_who_is_known() {
    let (router, requests) = diagnostics();
    get_metrics(&router, Some("Bearer scraper")).await;
    for number in 0..600 {
        get_metrics(&router, Some(&format!("Bearer invented-{number}"))).await;
    }
    let before = requests.lock().len();
    assert_eq!(get_metrics(&router, Some("Bearer scraper")).await.0, StatusCode::OK);
    assert_eq!(requests.lock().len(), before);
}
