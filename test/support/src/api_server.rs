//! An API server of one closure, for tests of what is sent.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `PATCH` and the like.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// The document that came with it, or null.
    pub body: Value,
}

impl Request {
    /// Method and path without query.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path.split('?').next().unwrap_or_default())
    }
}

/// A client of a server that answers with `reply`'s status and document, and the requests it got.
pub fn server(
    reply: impl Fn(&Request) -> (u16, Value) + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<Request>>>) {
    let requests = Arc::<Mutex<Vec<Request>>>::default();
    let (got, reply) = (Arc::clone(&requests), Arc::new(reply));
    let service = tower::service_fn(move |request: axum::http::Request<Body>| {
        let (got, reply) = (Arc::clone(&got), Arc::clone(&reply));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let request = Request {
                method: head.method.to_string(),
                path: head.uri.to_string(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            let (status, document) = reply(&request);
            got.lock().push(request);
            let response = axum::http::Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Body::from(document.to_string().into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

/// The API server's refusal with this code and reason.
pub fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code
    });
    (code, status)
}
