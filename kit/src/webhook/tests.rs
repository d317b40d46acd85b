//! Tests that a client which reaches the port can't harm a webhook server.

use axum::Json;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use futures::future::join_all;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::gate::{LIMITS, ReviewLimits};
use super::review::{LARGEST_REVIEW, Review};
use super::*;
use crate::serve::Readiness;
use crate::server::peer::Peer;
use crate::webhook::conversion::Conversion;

mod over_tls;

/// The setting for an API server that has a client certificate for admission requests, but can't prove its identity in
/// conversion requests.
const ADMISSIONS: Verified = Verified { admissions: true, conversions: false };
const DEADLINE: Duration = Duration::from_secs(30);

async fn allow(review: Review) -> Json<Value> {
    match review.objects::<ConfigMap>() {
        (Some(_), _) => review.allow(&[]),
        _ => review.deny("no ConfigMap"),
    }
}

fn routes(gate: ReviewGate) -> Router {
    let convert = |review: Conversion| async move {
        conversion::answer(&review, |object, _| Ok::<_, &str>(object.clone()))
    };
    Router::new().route("/", post(allow)).route("/convert", post(convert)).layer(Extension(Arc::new(gate)))
}

async fn start(limits: ReviewLimits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = routes(ReviewGate::new(limits, Verified::default()));
    server::spawn(listener, None, router, server::LIMITS, CancellationToken::new());
    address
}

fn post_of(body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Sends the request from the address `from`, or as much as the server accepts, and reads the response.
async fn send(from: [u8; 4], address: SocketAddr, request: &[u8]) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let (mut reading, mut writing) = socket.connect(address).await.unwrap().into_split();
    let mut answer = Vec::new();
    let sent = async {
        let _ = writing.write_all(request).await;
    };
    let read = async {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = reading.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..count]);
        }
    };
    timeout(DEADLINE, async { tokio::join!(sent, read) }).await.expect("an answer in time");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the peak memory use of this process in MiB.
fn peak_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
}

const REAL: &str = r#"{"request": {"uid": "u", "object": {"kind": "ConfigMap", "data": {"a": "b"}}}}"#;

/// Returns a review that probes how much a server accepts: its object is a list of zeros with about this many bytes.
fn zeros(bytes: usize) -> String {
    let mut body = String::from(r#"{"request":{"object":["#);
    body.push_str(&"0,".repeat(bytes / 2));
    body.push_str("0]}}");
    body
}

/// Runs in its own process, because it measures the memory of the whole process.
#[test]
fn a_flood_of_huge_reviews_is_refused_costs_little_and_keeps_no_real_one_waiting() {
    const ALONE: &str = "KIT_FLOOD_ALONE";
    const NAME: &str =
        "webhook::tests::a_flood_of_huge_reviews_is_refused_costs_little_and_keeps_no_real_one_waiting";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.unwrap().block_on(withstand_a_flood());
    }
    let own = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(ALONE, "1")
        // With a memory pool per thread, the peak would depend on which threads serve the requests.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let shown = [own.stdout, own.stderr].concat();
    let shown = String::from_utf8_lossy(&shown);
    assert!(own.status.success() && shown.contains("1 passed"), "{shown}");
}

async fn withstand_a_flood() {
    let address = start(LIMITS).await;
    let announced = post_of(&zeros(16 << 20));
    // These are sent in chunks, so their length isn't announced. The last one is within the limit.
    let chunked =
        ["POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n", ""];
    let chunked: Vec<String> = [16 << 20, LARGEST_REVIEW - 100]
        .map(|bytes| {
            let body = zeros(bytes);
            format!("{}{:x}\r\n{body}\r\n0\r\n\r\n", chunked[0], body.len())
        })
        .into();
    let before = peak_mib();
    let floods = [&announced, &announced, &chunked[0], &chunked[1], &chunked[1], &chunked[1]];
    let flood = join_all(floods.map(|request| send([127, 0, 0, 1], address, request.as_bytes())));
    let real = async {
        let mut refused = 0;
        for _ in 0..20 {
            let answer = send([127, 0, 0, 2], address, post_of(REAL).as_bytes()).await;
            refused += usize::from(!answer.contains(r#""allowed":true"#));
        }
        refused
    };
    let (answers, refused) = tokio::join!(flood, real);
    for answer in answers {
        // A server that rejects a request before it has received everything may reset the connection.
        let known = ["HTTP/1.1 413", "HTTP/1.1 503", "HTTP/1.1 408"];
        assert!(answer.is_empty() || known.iter().any(|line| answer.starts_with(line)), "{answer}");
    }
    assert_eq!(refused, 0, "the real ones were answered");
    let grown = peak_mib().saturating_sub(before);
    assert!(grown < 40, "{grown} MiB");
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_cut_off() {
    let address = start(ReviewLimits { body: Duration::from_millis(100), ..LIMITS }).await;
    let (mut reading, mut writing) = TcpStream::connect(address).await.unwrap().into_split();
    writing.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
    let drip = async {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let mut answer = [0; 12];
    let read = reading.read_exact(&mut answer);
    tokio::select! {
        read = timeout(DEADLINE, read) => drop(read.expect("in time").unwrap()),
        () = drip => {}
    }
    assert_eq!(&answer, b"HTTP/1.1 408");
}

/// Creates a request in the form in which the server forwards it.
fn request(path: &str, peer: Peer, body: Body) -> Request<Body> {
    let mut request = Request::post(path).body(body).unwrap();
    request.extensions_mut().insert(peer);
    request
}

fn peer(last: u8) -> Peer {
    Peer { address: [10, 0, 0, last].into(), verified: false }
}

#[tokio::test]
async fn bodies_that_one_address_holds_back_make_room_for_another() {
    let limits = ReviewLimits { bytes: 1000, bytes_per_address: 1000, ..LIMITS };
    let router = routes(ReviewGate::new(limits, Verified::default()));
    let stalled = futures::stream::iter([Ok::<_, std::io::Error>(vec![b' '; 1000])]);
    let stalled = futures::StreamExt::chain(stalled, futures::stream::pending());
    let held = router.clone().oneshot(request("/", peer(1), Body::from_stream(stalled)));
    let mut held = std::pin::pin!(held);
    assert!(futures::poll!(held.as_mut()).is_pending());
    let answer = router.oneshot(request("/", peer(2), REAL.into())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(held.await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn reviews_of_strangers_are_refused_where_the_api_server_has_a_certificate() {
    let router = routes(ReviewGate::new(LIMITS, ADMISSIONS));
    let status = async |path, peer| {
        let body = match path {
            "/" => REAL,
            _ => r#"{"request": {"uid": "u", "desiredAPIVersion": "a/v1", "objects": [{}]}}"#,
        };
        router.clone().oneshot(request(path, peer, body.into())).await.unwrap().status()
    };
    assert_eq!(status("/", peer(1)).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status("/", Peer { verified: true, ..peer(1) }).await, StatusCode::OK);
    assert_eq!(status("/convert", peer(1)).await, StatusCode::OK, "there it has none to show");
}

/// client-go retries a status that contains a delay. Conversions don't need facts.
#[tokio::test]
async fn a_review_is_put_off_until_the_facts_are_read() {
    let ready = Readiness::default();
    let (read, complete) = tokio::sync::oneshot::channel::<()>();
    let facts = Facts::read_by(async { complete.await.unwrap() }, ready.require("caches"));
    let router = |wait| {
        let facts = Facts { wait, ..facts.clone() };
        routes(ReviewGate::new(LIMITS, Verified::default())).layer(Extension(facts))
    };
    let (hasty, patient) = (router(Duration::ZERO), router(DEADLINE));
    let ask = async |router: &Router, path, body: &'static str| {
        let answer = router.clone().oneshot(request(path, peer(1), body.into())).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()["response"].take()
    };
    let put_off = ask(&hasty, "/", REAL).await;
    assert_eq!((&put_off["allowed"], &put_off["uid"]), (&Value::from(false), &Value::from("u")));
    assert_eq!(put_off["status"]["code"], 503, "{put_off}");
    assert_eq!(put_off["status"]["details"]["retryAfterSeconds"], 1, "{put_off}");
    assert_eq!(ready.missing(), ["caches"]);
    let conversion = r#"{"request": {"uid": "u", "desiredAPIVersion": "a/v1", "objects": [{}]}}"#;
    assert_eq!(ask(&hasty, "/convert", conversion).await["result"]["status"], "Success");
    let waiting = ask(&patient, "/", REAL);
    read.send(()).unwrap();
    assert_eq!(waiting.await["allowed"], true, "it waits for a while");
    assert!(ready.missing().is_empty());
}

#[tokio::test]
async fn objects_of_a_conversion_are_bounded_and_answered_in_their_order() {
    let router = routes(ReviewGate::new(LIMITS, Verified::default()));
    let ask = async |objects: String| {
        let body =
            format!(r#"{{"request": {{"uid": "u", "desiredAPIVersion": "a/v1", "objects": {objects}}}}}"#);
        let answer = router.clone().oneshot(request("/convert", peer(1), body.into())).await.unwrap();
        let status = answer.status();
        (status, answer.into_body().collect().await.unwrap().to_bytes())
    };
    let (_, answer) = ask(r#"[{"a": 1}, {"a": 2}]"#.to_owned()).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["convertedObjects"][1]["a"], 2);
    let (status, _) = ask(format!("[{}0]", "0,".repeat(1 << 20))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}
