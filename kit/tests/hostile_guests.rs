//! Tests how much memory a guest's API server can make a controller use. The test has its own
//! process, because it reads the peak memory use at the end.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode, Uri};
use futures::future::join_all;
use futures::{StreamExt, stream};
use kit::client::bounded;
use kit::guest::watch::Event;
use kit::guest::{Few, GuestClient, GuestError, Keys, Metadata};
use kube::Config;
use kube::core::Request;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

const PIECE: &str = "0,";
/// The size of a large response in bytes, which is four million numbers.
const LARGE: usize = 8 << 20;
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq)]
struct NoKeys;

impl Keys for NoKeys {
    const KEYS: &'static [&'static str] = &[];
}

#[derive(Debug, Deserialize)]
struct Numbers {
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Few<u8, 8>,
}

fn repeated(piece: &str) -> Bytes {
    Bytes::from(piece.repeat((64 << 10) / piece.len()))
}

/// Returns a response body with a valid beginning, followed by `piece` repeated up to `bytes` bytes. If `hangs` is true, the body
/// never ends.
fn endless(beginning: &'static str, piece: &str, bytes: usize, hangs: bool) -> Body {
    let piece = repeated(piece);
    let count = bytes / piece.len();
    let first = stream::once(std::future::ready(Bytes::from_static(beginning.as_bytes())));
    let pieces = first.chain(stream::repeat(piece).take(count));
    let end = if hangs { stream::pending().left_stream() } else { stream::empty().right_stream() };
    Body::from_stream(pieces.chain(end).map(Ok::<_, std::io::Error>))
}

async fn server(router: Router) -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, router).into_future());
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    config
}

fn guest(config: &Config, namespace: &str, name: &str) -> GuestClient {
    let client = bounded(config.clone(), LARGE * 2).unwrap();
    GuestClient::with_client(client, namespace, name, DEADLINE)
}

/// Returns the peak memory use of this process in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// Makes every kind of call. The responses have 8 MiB, with an error status if `refuses` is true.
async fn every_call(guest: &GuestClient, refuses: bool) {
    let request = || Request::new("/large").get("a", &kube::api::GetParams::default());
    let read = guest.read::<Numbers>(request(), 3 << 20).await;
    assert!(matches!(read, Err(GuestError::Refused(_))), "{read:?}");
    assert!(guest.served("large", "v1", "A").await.is_err());
    assert!(guest.served_anyhow("large", "A").await.is_err());
    assert!(guest.list::<NoKeys>("/large", "a=b").await.is_err());
    assert_eq!(guest.send(request()).await.is_err(), refuses);
    let (sender, events) = mpsc::channel::<Event<NoKeys>>(1);
    let watching = guest.clone().watch("/watched".into(), "a=b".into(), sender, |event| vec![event]);
    assert!(timeout(Duration::from_millis(300), watching).await.is_err(), "it goes on");
    drop(events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_answers_take_little_memory_and_keep_no_other_guest_waiting() {
    let large = |status: StatusCode| {
        Router::new().fallback(move |uri: Uri| async move {
            let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
            let body = match uri.path() {
                "/watched" if is_watch => endless("{\"type\":\"ADDED\",\"object\":[", PIECE, LARGE, false),
                "/watched" => return Response::new(Body::from("{\"items\":[]}")),
                _ => endless("{\"data\":[", PIECE, LARGE, false),
            };
            Response::builder().status(status).body(body).unwrap()
        })
    };
    let small = server(Router::new().fallback(async || "{\"status\":{\"conditions\":[1]}}")).await;
    let many =
        server(Router::new().fallback(async || endless("{\"items\":[", "{},", 2_000_000, false))).await;
    let hangs = server(Router::new().fallback(async || endless("{\"data\":[", PIECE, 2 << 20, true))).await;
    let good = [guest(&small, "good", "good"), guest(&small, "bad", "good")];
    let read = async |guest: &GuestClient| {
        let request = Request::new("/a").get("a", &kube::api::GetParams::default());
        guest.read::<Numbers>(request, 1 << 10).await
    };
    for guest in &good {
        read(guest).await.unwrap();
    }
    let before = peak();

    // One guest uses as much memory as it can, and its responses never end.
    let bad = guest(&hangs, "bad", "hangs");
    let request = || Request::new("/large").get("a", &kube::api::GetParams::default());
    let held: Vec<_> = (0..20)
        .map(|_| {
            let bad = bad.clone();
            tokio::spawn(async move { bad.read::<Numbers>(request(), 3 << 20).await.is_err() })
        })
        .collect();

    let (answers, refuses) = (server(large(StatusCode::OK)).await, server(large(StatusCode::CONFLICT)).await);
    let hostile: Vec<_> = (0..8)
        .map(|n| {
            (guest(if n % 2 == 0 { &answers } else { &refuses }, &format!("hostile-{n}"), "c"), n % 2 == 1)
        })
        .collect();
    let working = join_all(hostile.iter().map(|(guest, refuses)| every_call(guest, *refuses)));
    let served = async {
        for _ in 0..20 {
            for guest in &good {
                let answer = timeout(Duration::from_secs(5), read(guest)).await;
                let numbers = answer.unwrap_or_else(|_| panic!("another guest waits")).unwrap();
                assert_eq!(numbers.status.conditions.0, [1]);
            }
        }
    };
    tokio::join!(working, served);
    // The response is below the byte limit, but contains hundreds of thousands of objects.
    let objects: Vec<Metadata<NoKeys>> =
        guest(&many, "many", "c").list("/large", "a=b").await.unwrap_or_default();
    assert!(objects.len() <= 50);
    for task in held {
        task.abort();
    }
    let grown = peak() - before;
    assert!(grown < 64, "it took {grown} MiB");
    println!("at most {grown} MiB");
}
