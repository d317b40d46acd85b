//! Tests which callers are recognized as the API server, and that other clients can't disrupt its calls.

use std::net::Ipv4Addr;

use pki::{Authority, Pair, Subject, Validity};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::SingleCertAndKey;
use time::OffsetDateTime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::server::callers::{Callers, Key};
use crate::webhook::bundle::CertBundle;

const KEY: &str = "0123456789abcdef0123456789abcdef";
const CONVERSION: &str = r#"{"request": {"uid": "u", "desiredAPIVersion": "a/v1", "objects": [{}]}}"#;

fn authority(name: &str) -> Authority {
    Authority::generate(name, Validity::days_from_now(1)).unwrap()
}

fn signed(authority: &Authority) -> Pair {
    authority.issue(&Subject::client("api", &[]), Validity::days_from_now(1)).unwrap()
}

/// A webhook server, and the certificate authorities that its clients trust.
struct Tls {
    address: SocketAddr,
    roots: RootCertStore,
}

impl Tls {
    async fn start(authority: &str, key: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let callers = Callers {
            authorities: Some(read_authorities(&write("ca.crt", authority)).unwrap()),
            key: key.map(|key| Key::read(&write("key", key)).unwrap()),
        };
        let own = CertBundle::generate(&["localhost".to_owned()], OffsetDateTime::now_utc()).unwrap();
        let certificate = Arc::new(SingleCertAndKey::from(own.certified().unwrap()));
        let tls = build_acceptor(certificate, callers.authorities.clone()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            routes(ReviewGate::new(LIMITS, Verified { admissions: true, conversions: key.is_some() }));
        server::spawn_for(callers, listener, Some(tls), router, server::LIMITS, CancellationToken::new());
        let roots = read_authorities(&write("server.crt", &own.authorities)).unwrap();
        Self { address, roots }
    }

    /// Sends a request with this certificate from a loopback address.
    async fn send(
        &self,
        from: Ipv4Addr,
        shown: Option<&Pair>,
        request: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_root_certificates(self.roots.clone());
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    /// Returns the start of the status line, or the error if there is no response.
    async fn status(&self, shown: Option<&Pair>, request: &str) -> std::io::Result<String> {
        let mut line = [0; 12];
        let answer =
            async { self.send(Ipv4Addr::LOCALHOST, shown, request).await?.read_exact(&mut line).await };
        timeout(DEADLINE, answer).await.expect("an answer in time")?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

fn post_to(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn a_client_certificate_of_the_authority_is_the_api_servers() {
    let (known, unknown) = (authority("known"), authority("unknown"));
    let server = Tls::start(known.certificate(), None).await;
    let review = post_of(REAL);
    assert_eq!(server.status(Some(&signed(&known)), &review).await.unwrap(), "HTTP/1.1 200");
    assert_eq!(server.status(None, &review).await.unwrap(), "HTTP/1.1 401");
    assert!(server.status(Some(&signed(&unknown)), &review).await.is_err());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, "").unwrap();
    assert!(read_authorities(&file).unwrap_err().to_string().contains("it has no certificates"));
}

#[tokio::test]
async fn a_conversion_needs_the_key_where_there_is_one() {
    let known = authority("known");
    let server = Tls::start(known.certificate(), Some(KEY)).await;
    let status = async |path: &str| server.status(None, &post_to(path, CONVERSION)).await.unwrap();
    assert_eq!(status("/convert").await, "HTTP/1.1 401");
    assert_eq!(status("/convert/0123456789abcdef0123456789abcdee").await, "HTTP/1.1 404");
    assert_eq!(status(&format!("/convert/{KEY}")).await, "HTTP/1.1 200");
    assert_eq!(server.status(Some(&signed(&known)), &post_of(REAL)).await.unwrap(), "HTTP/1.1 200");
}

/// A local user can use every address in 127.0.0.0/8, including the API server's own.
#[tokio::test]
async fn strangers_of_many_addresses_take_nothing_of_the_api_server() {
    let known = authority("known");
    let server = Tls::start(known.certificate(), Some(KEY)).await;
    let shown = signed(&known);
    let endless = ["/", "/convert"]
        .map(|path| format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000\r\n\r\n{{"));
    let mut held = Vec::new();
    for index in 0..150_u8 {
        let from = Ipv4Addr::new(127, 0, 0, 1 + index % 12);
        // Connections without a slot are closed. Most requests are answered and their connections stay open.
        held.push(server.send(from, None, &endless[usize::from(index % 2)]).await);
    }
    let mut silent = Vec::new();
    for index in 0..150_u8 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1 + index % 12], 0).into()).unwrap();
        silent.push(socket.connect(server.address).await.unwrap());
    }
    let conversion = post_to(&format!("/convert/{KEY}"), CONVERSION);
    for _ in 0..20 {
        assert_eq!(server.status(Some(&shown), &post_of(REAL)).await.unwrap(), "HTTP/1.1 200");
        assert_eq!(server.status(None, &conversion).await.unwrap(), "HTTP/1.1 200");
    }
    drop((held, silent));
}
