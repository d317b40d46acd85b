//! Serves one request through the proxy.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http::header::{HOST, HeaderName, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use serde_json::json;

use super::call::{ApiCall, Verb};
use super::chaos::ApiFault;
use super::events::{Cut, relay_watch};
use super::injections::{CaseKey, NextPark, ParkPoint, Side};
use super::shared::ProxyShared;

/// The maximum request body size.
const LARGEST: usize = 64 << 20;

/// Responds to a request, or cuts its connection.
pub async fn serve_request(
    shared: Arc<ProxyShared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(Body::new(body), LARGEST).await.map_err(|_| Cut)?;
    let call = ApiCall::from_request(&parts, &body);
    match call.verb {
        Verb::Watch => serve_watch(shared, parts, &call).await,
        Verb::Other => forward_request(&shared, parts, body).await,
        _ => {
            let busy = shared.busy();
            let answer = carry_out(&shared, parts, body, &call).await;
            drop(busy);
            answer
        }
    }
}

/// Forwards a call that isn't a watch, with its injected faults.
async fn carry_out(
    shared: &ProxyShared,
    parts: Parts,
    body: Bytes,
    call: &ApiCall,
) -> Result<Response<Body>, Cut> {
    let (key, fault) = {
        let mut injections = shared.injections.lock();
        let key = call.is_write().then(|| {
            injections.writes.count(Side::Api, format!("{} {}", call.verb, call.resource), call.name.clone())
        });
        let fault = injections.chaos.as_mut().and_then(|chaos| chaos.draw_api_fault(call));
        match fault {
            Some(ApiFault::Refused(kind, ..)) => injections.count_injected(kind),
            Some(ApiFault::Late(_)) => injections.count_injected("apiTimeout"),
            Some(ApiFault::Lost) => injections.count_injected("apiLostAnswer"),
            Some(ApiFault::Cut) => injections.count_injected("apiCut"),
            None => {}
        }
        (key, fault)
    };
    wait_if_parked(shared, key.as_ref(), ParkPoint::Before).await;
    match fault {
        Some(ApiFault::Refused(_, status, reason)) => return Ok(refusal(status, reason)),
        Some(ApiFault::Cut) => return Err(Cut),
        Some(ApiFault::Late(late)) => {
            tokio::time::sleep(late).await;
            return Ok(refusal(504, "Timeout"));
        }
        Some(ApiFault::Lost) | None => {}
    }
    let parts = if call.verb == Verb::List { rewind_list(shared, parts) } else { parts };
    let answer = forward_request(shared, parts, body).await?;
    wait_if_parked(shared, key.as_ref(), ParkPoint::After).await;
    if fault == Some(ApiFault::Lost) { Err(Cut) } else { Ok(answer) }
}

/// Waits forever if the call is to be parked. The caller is killed meanwhile.
async fn wait_if_parked(shared: &ProxyShared, key: Option<&CaseKey>, point: ParkPoint) {
    let reached = {
        let injections = shared.injections.lock();
        let park = injections.park.as_ref().filter(|park| Some(&park.key) == key && park.point == point);
        let is_next = |next: &&NextPark| key.is_some_and(|key| key.what == next.what) && next.point == point;
        let next = injections.next.as_ref().filter(is_next).map(|next| next.reached.clone());
        park.map(|park| park.reached.clone()).or(next)
    };
    if let Some(reached) = reached {
        reached.send_replace(true);
        std::future::pending::<()>().await;
    }
}

/// Makes a list request read an old resource version, if the caller should see an old view.
fn rewind_list(shared: &ProxyShared, mut parts: Parts) -> Parts {
    let Some((version, _)) = shared.injections.lock().travel.clone() else { return parts };
    let query = parts.uri.query().unwrap_or_default();
    if query.contains("continue=") {
        return parts;
    }
    let kept = query.split('&').filter(|one| !one.is_empty() && !one.starts_with("resourceVersion"));
    let mut query: Vec<_> = kept.map(str::to_owned).collect();
    query.extend([format!("resourceVersion={version}"), "resourceVersionMatch=Exact".to_owned()]);
    let uri = format!("{}?{}", parts.uri.path(), query.join("&"));
    if let Ok(uri) = uri.parse() {
        parts.uri = uri;
    }
    parts
}

async fn serve_watch(shared: Arc<ProxyShared>, parts: Parts, call: &ApiCall) -> Result<Response<Body>, Cut> {
    let travel = shared.injections.lock().travel.clone();
    if let Some((_, mut released)) = travel {
        // A dropped sender releases the watch, too.
        let _ = released.wait_for(|released| *released).await;
    }
    let answer = forward_request(&shared, parts, Bytes::new()).await?;
    shared.injections.lock().watched.insert(call.resource.clone());
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head, relay_watch(shared, &call.resource, body)))
}

/// Forwards the request to the API server, impersonating the account.
async fn forward_request(shared: &ProxyShared, parts: Parts, body: Bytes) -> Result<Response<Body>, Cut> {
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut request = Request::new(kube::client::Body::from(body.to_vec()));
    *request.method_mut() = parts.method;
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| Cut)?;
    let dropped = |name: &HeaderName| {
        *name == HOST
            || matches!(name.as_str(), "authorization" | "connection" | "content-length" | "accept-encoding")
    };
    let kept = parts.headers.iter().filter(|(name, _)| !dropped(name));
    request.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    let account = HeaderValue::from_str(&shared.account).map_err(|_| Cut)?;
    request.headers_mut().insert("impersonate-user", account);
    let answer = shared.upstream.send(request).await.map_err(|_| Cut)?;
    let (mut head, body) = answer.into_parts();
    head.headers.remove("transfer-encoding");
    head.headers.remove("content-length");
    head.version = http::Version::HTTP_11;
    Ok(Response::from_parts(head, Body::new(body)))
}

/// Returns an error response in the API server's format.
fn refusal(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": format!("{reason}, by order"),
    });
    let mut answer = Response::new(Body::from(status.to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    if code == 429 {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

#[tokio::test]
async fn an_injected_refusal_is_a_failure_for_clients() {
    let body = axum::body::to_bytes(refusal(409, "Conflict").into_body(), 1 << 20).await.unwrap();
    let status: kube::core::Status = serde_json::from_slice(&body).unwrap();
    assert_eq!((status.status, status.code), (Some(kube::core::response::StatusSummary::Failure), 409));
}
