//! Tests clients that use TLS, and HTTP/2 on top of it, in arbitrary ways.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::get as get_route;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::sign::SingleCertAndKey;
use time::OffsetDateTime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::server::tls::build_acceptor;
use crate::webhook::bundle::CertBundle;

const DEADLINE: Duration = Duration::from_secs(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The type of a DATA frame.
const DATA: u8 = 0;
/// The type of a HEADERS frame.
const HEADERS: u8 = 1;
/// The type of an RST_STREAM frame.
const RESET: u8 = 3;
/// The type of a SETTINGS frame.
const SETTINGS: u8 = 4;
/// The HEADERS flag that says that the frame contains all headers.
const END_HEADERS: u8 = 4;
/// The HEADERS flag that says that the request doesn't have a body.
const END_STREAM: u8 = 1;
/// The identifier of the setting for the maximum number of concurrent streams.
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// The identifier of the setting for the maximum header size.
const MAX_HEADER_LIST_SIZE: u16 = 6;
/// The error code for a stream that the client may retry.
const REFUSED_STREAM: u32 = 7;

/// Starts a server with TLS. Returns its address, and a connector that trusts its certificate.
async fn start_tls(limits: ServerLimits, router: Router) -> (SocketAddr, TlsConnector) {
    let own = CertBundle::generate(&["localhost".to_owned()], OffsetDateTime::now_utc()).unwrap();
    let certificate = Arc::new(SingleCertAndKey::from(own.certified().unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = build_acceptor(certificate, None).unwrap();
    spawn(listener, Some(tls), router, limits, CancellationToken::new());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(own.authorities.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (address, TlsConnector::from(Arc::new(config)))
}

async fn connect(address: SocketAddr, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, TcpStream::connect(address).await?).await
}

fn frame(type_: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[type_, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Returns the frame for `GET https://x/` with a header `a` whose value has `header` bytes (at least 127).
fn get(stream: u32, header: usize) -> Vec<u8> {
    // HPACK: three indexed fields and two literal ones. A length that doesn't fit into seven bits continues in the next bytes.
    let mut block = vec![0x82, 0x87, 0x84, 0x41, 1, b'x', 0, 1, b'a', 0x7f];
    let mut rest = header.checked_sub(127).unwrap();
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
    block.extend(std::iter::repeat_n(b'b', header));
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// Reads the next frame: type, flags, stream and payload.
async fn next(stream: &mut TlsStream<TcpStream>) -> (u8, u8, u32, Vec<u8>) {
    let read = async {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload)
    };
    timeout(DEADLINE, read).await.expect("a frame in time")
}

/// Starts an HTTP/2 connection, and returns it with the server's settings (identifier and value).
async fn begin(address: SocketAddr, connector: &TlsConnector) -> (TlsStream<TcpStream>, Vec<(u16, u32)>) {
    let mut stream = connect(address, connector).await.unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    loop {
        let (type_, flags, _, payload) = next(&mut stream).await;
        if type_ == SETTINGS && flags == 0 {
            let settings = payload.chunks(6).map(|bytes| {
                let value = u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
                (u16::from_be_bytes([bytes[0], bytes[1]]), value)
            });
            return (stream, settings.collect());
        }
    }
}

#[tokio::test]
async fn a_client_that_never_completes_its_tls_handshake_is_disconnected_and_frees_its_place() {
    let limits = ServerLimits { connections: 1, per_address: 1, handshake: SHORT, ..LIMITS };
    let (address, connector) = start_tls(limits, Router::new()).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(rest(&mut silent).await, "", "nobody waits for it");
    let mut begun = TcpStream::connect(address).await.unwrap();
    // The start of a 512-byte TLS greeting that never arrives completely.
    begun.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    assert_eq!(rest(&mut begun).await, "");
    // The connection slot is freed a moment after the connection is closed.
    let served = async {
        while connect(address, &connector).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, served).await.expect("its place is free");
}

#[tokio::test]
async fn concurrent_requests_of_an_http2_connection_are_limited() {
    let router = Router::new().route("/", get_route(std::future::pending::<&str>));
    let (address, connector) = start_tls(LIMITS, router).await;
    let (mut stream, settings) = begin(address, &connector).await;
    assert!(settings.contains(&(MAX_CONCURRENT_STREAMS, STREAMS)), "{settings:?}");
    let one_more = STREAMS * 2 + 1;
    let all: Vec<u8> = (1..=one_more).step_by(2).flat_map(|id| get(id, 200)).collect();
    stream.write_all(&all).await.unwrap();
    loop {
        let (type_, _, id, payload) = next(&mut stream).await;
        if type_ == RESET {
            assert_eq!((id, payload), (one_more, REFUSED_STREAM.to_be_bytes().to_vec()));
            return;
        }
        assert!(type_ != HEADERS && type_ != DATA, "request {id} is answered");
    }
}

#[tokio::test]
async fn requests_with_headers_that_are_too_long_do_not_reach_the_handler() {
    let (router, seen) = counting();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn(listener, None, router, LIMITS, CancellationToken::new());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let header = "b".repeat(HEADER_BYTES.into());
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\na: {header}\r\n\r\n");
    let (mut reading, mut writing) = stream.split();
    let mut answer = Vec::new();
    let (_sent, _read) = timeout(DEADLINE, async {
        tokio::join!(writing.write_all(request.as_bytes()), reading.read_to_end(&mut answer))
    })
    .await
    .expect("an end in time");
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    assert_eq!(seen.load(Ordering::SeqCst), 0);

    let (router, seen) = counting();
    let (address, connector) = start_tls(LIMITS, router).await;
    let (mut stream, settings) = begin(address, &connector).await;
    assert!(settings.contains(&(MAX_HEADER_LIST_SIZE, STREAM_HEADER_BYTES)), "{settings:?}");
    let longest = usize::try_from(STREAM_HEADER_BYTES).unwrap();
    stream.write_all(&[get(1, longest), get(3, longest / 2)].concat()).await.unwrap();
    // Both requests end, the first one without a body.
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let (type_, flags, id, _) = next(&mut stream).await;
        assert!(id != 1 || type_ != DATA, "it is answered");
        if type_ == RESET || (id != 0 && flags & END_STREAM != 0) {
            ended.push(id);
        }
    }
    assert_eq!(seen.load(Ordering::SeqCst), 1, "the shorter one");
}

/// Returns a router and the number of requests that its handler has received.
fn counting() -> (Router, Arc<AtomicUsize>) {
    let seen = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&seen);
    let handler = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready("ok")
    };
    (Router::new().route("/", get_route(handler)), seen)
}
