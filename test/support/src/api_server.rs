//! A fake API server that calls a closure, and records requests.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method, such as `GET` or `PATCH`.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The JSON body, or null.
    pub body: Value,
}

impl Request {
    /// Returns method and path, without the query.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path.split('?').next().unwrap_or_default())
    }
}

/// Returns a client for a server that answers with the status and document from `reply`, and the recorded requests.
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

/// Returns the API server's error response with this code and reason.
pub fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code
    });
    (code, status)
}
