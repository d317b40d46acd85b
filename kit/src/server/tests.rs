use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

mod over_tls;

async fn start(limits: ServerLimits) -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let router = Router::new().route("/", get(|| async { "ok" }));
    spawn(listener, None, router, limits, stop.clone());
    (address, stop)
}

/// Reads until the server closes the connection, with a timeout.
async fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // A connection that is reset counts as closed.
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await.expect("it is closed");
    String::from_utf8_lossy(&all).into_owned()
}

const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_client_that_sends_a_header_now_and_then_is_cut_off() {
    let (address, _stop) = start(ServerLimits { headers: SHORT, ..LIMITS }).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let (mut reading, mut writing) = slow.into_split();
    let drip = async {
        // Ends when the server has closed the connection.
        while writing.write_all(b"a: b\r\n").await.is_ok() {
            sleep(SHORT / 10).await;
        }
    };
    timeout(Duration::from_secs(20), drip).await.expect("it is cut off");
    let mut answer = Vec::new();
    let _ = reading.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 200"));
    assert_eq!(rest(&mut silent).await, "");
}

#[tokio::test]
async fn a_connection_without_requests_is_closed() {
    let (address, _stop) = start(ServerLimits { idle: SHORT, ..LIMITS }).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.ends_with("ok"));
}

#[tokio::test]
async fn one_address_opens_its_share_of_connections_and_no_more() {
    let (address, _stop) = start(ServerLimits { connections: 3, per_address: 2, ..LIMITS }).await;
    let _held = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    let mut third = TcpStream::connect(address).await.unwrap();
    assert_eq!(rest(&mut third).await, "");
}

#[tokio::test]
async fn an_answer_that_is_under_way_at_a_shutdown_is_given() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let router = Router::new().route(
        "/",
        get(move || async move {
            stopping.cancel();
            tokio::task::yield_now().await;
            "ok"
        }),
    );
    spawn(listener, None, router, LIMITS, stop);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.ends_with("ok"));
}
