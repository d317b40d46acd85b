//! Compares a hostile API server's responses through the proxy and without the proxy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::capi::Cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use guestproxy::clusters::Clusters;
use guestproxy::credentials::Vault;
use guestproxy::guest::ProxiedClusters;
use guestproxy::limits;
use guestproxy::proxy::ManagerProxy;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use kit::watch::Cache;
use pki::{Authority, Subject, Validity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use support::hostile_server::{HostileAnswer, HostileServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// More bytes than the proxy forwards for any response.
const MUCH: usize = 48 << 20;
const DEADLINE: Duration = Duration::from_mins(1);

/// A cluster whose API server belongs to an attacker, and the proxy in front of it.
struct Scene {
    server: SocketAddr,
    proxy: SocketAddr,
    ca: String,
    admin: (String, String),
    other: (String, String),
    hostile: HostileServer,
    stop: CancellationToken,
}

/// A received response. `ended` is true if the response is complete.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    status: StatusCode,
    bytes: usize,
    text: String,
    ended: bool,
}

async fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

impl Scene {
    async fn with(answers: impl Into<Arc<[HostileAnswer]>>) -> Self {
        Self::with_key(answers, true).await
    }

    async fn with_key(answers: impl Into<Arc<[HostileAnswer]>>, has_key: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = free_address().await;
        let validity = Validity::days_from_now(1);
        let authority = Authority::generate("kubernetes", validity).unwrap();
        let issue = |subject: &Subject| {
            let pair = authority.issue(subject, validity).unwrap();
            (pair.certificate, pair.key.to_string())
        };
        let (certificate, key) = issue(&Subject::server("kube-apiserver", &[server.ip().to_string()]));
        let admin = issue(&Subject::client("kubernetes-admin", &[]));
        let other = issue(&Subject::client("kubelet", &[]));
        let (ca, ca_key) = (authority.certificate().to_owned(), authority.pair().key.to_string());
        let hostile = HostileServer::start(server, certificate.as_bytes(), key.as_bytes(), answers.into())
            .await
            .unwrap();

        let base64 = |text: &str| STANDARD.encode(text);
        let kubeconfig = json!({
            "clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": base64(&ca)}}],
            "users": [{"name": "u", "user": {
                "client-certificate-data": base64(&admin.0), "client-key-data": base64(&admin.1)
            }}],
        });
        let secrets = [
            ("c-ca", json!({"tls.crt": base64(&ca), "tls.key": base64(if has_key { &ca_key } else { "" })})),
            ("c-kubeconfig", json!({"value": base64(&kubeconfig.to_string())})),
        ];
        let (client, _) = support::api_server::server(move |request| {
            let found =
                secrets.iter().find(|(name, _)| request.path.ends_with(&format!("/n/secrets/{name}")));
            match found {
                Some((name, data)) => (
                    200,
                    json!({
                        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "n"}, "data": data
                    }),
                ),
                None => support::api_server::refusal(404, "NotFound"),
            }
        });
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "n", "uid": server.to_string()},
            "spec": {"controlPlaneEndpoint": {"host": server.ip().to_string(), "port": server.port()}},
        }))
        .unwrap();
        let clusters = Clusters::new(Cache::filled([cluster]), Cache::filled([]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(
            ManagerProxy::new(ProxiedClusters::new(clusters), Vault::new(client))
                .serve(listener, stop.clone()),
        );
        Self { server, proxy, ca, admin, other, hostile, stop }
    }

    /// Sends a request as the manager does. If `through` is true, sends it through the proxy.
    async fn get(&self, path: &str, through: bool, certificate: Option<&(String, String)>) -> Received {
        timeout(DEADLINE, self.try_get(path, through, certificate)).await.expect("an end")
    }

    async fn try_get(&self, path: &str, through: bool, certificate: Option<&(String, String)>) -> Received {
        let stream = if through {
            self.connect(&self.server.to_string()).await.unwrap()
        } else {
            TcpStream::connect(self.server).await.unwrap()
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => config
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        let name = ServerName::from(self.server.ip());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        // The client tolerates as much as a manager.
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(256 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", self.server.to_string())
            .header("accept", "application/vnd.kubernetes.protobuf,application/json")
            .body(Empty::<Bytes>::new())
            .unwrap();
        let Ok(answer) = sender.send_request(request).await else {
            return Received { status: StatusCode::IM_A_TEAPOT, bytes: 0, text: String::new(), ended: false };
        };
        let status = answer.status();
        let (mut body, mut bytes, mut text) = (answer.into_body(), 0, Vec::new());
        let ended = loop {
            match body.frame().await {
                None => break true,
                Some(Err(_)) => break false,
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    bytes += data.len();
                    if text.len() < 4096 {
                        text.extend_from_slice(&data);
                    }
                }
            }
            if bytes > MUCH {
                break false;
            }
        };
        Received { status, bytes, text: String::from_utf8_lossy(&text).into_owned(), ended }
    }

    /// Requests a connection from the proxy. The error is the status line of the proxy's refusal.
    async fn connect(&self, authority: &str) -> Result<TcpStream, String> {
        let mut stream = TcpStream::connect(self.proxy).await.unwrap();
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        if head.starts_with("HTTP/1.1 200 ") {
            Ok(stream)
        } else {
            Err(head.lines().next().unwrap().to_owned())
        }
    }

    /// Returns the responses that a manager gets, without the proxy and through it, in this order.
    async fn both(&self, path: &str) -> (Received, Received) {
        (self.get(path, false, Some(&self.admin)).await, self.get(path, true, Some(&self.admin)).await)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn message(received: &Received) -> String {
    let status: Value = serde_json::from_str(&received.text).unwrap();
    status["message"].as_str().unwrap().to_owned()
}

const NODES: &str = "/api/v1/nodes";

#[tokio::test(flavor = "multi_thread")]
async fn a_json_without_an_end_is_broken_off() {
    let items = "{\"metadata\":{\"name\":\"n\"}},".repeat(1000);
    let scene = Scene::with([HostileAnswer::endless_json("{\"items\":[", items.as_bytes())]).await;
    let (direct, passed) = scene.both(NODES).await;
    assert!(direct.bytes > MUCH, "{direct:?}");
    assert!(!passed.ended && passed.bytes < limits::ANSWER, "{passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_empty_objects_is_broken_off_before_it_grows() {
    let scene =
        Scene::with([HostileAnswer::endless_json("{\"items\":[", "{},".repeat(10_000).as_bytes())]).await;
    let (direct, passed) = scene.both(NODES).await;
    assert!(direct.bytes > MUCH, "{direct:?}");
    // Decoded into Go structures, this is less than 20 MiB.
    assert!(!passed.ended && passed.bytes < 60_000, "{passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_answer_is_refused() {
    let scene = Scene::with([HostileAnswer::gzip(64 << 20)]).await;
    let (direct, passed) = scene.both(NODES).await;
    assert_eq!(direct.status, StatusCode::OK);
    assert_eq!(passed.status, StatusCode::BAD_GATEWAY);
    assert!(message(&passed).contains("it is compressed"), "{passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_refused() {
    let scene = Scene::with([HostileAnswer::redirect("https://127.0.0.1:1/")]).await;
    let (direct, passed) = scene.both(NODES).await;
    assert_eq!((direct.status, passed.status), (StatusCode::TEMPORARY_REDIRECT, StatusCode::BAD_GATEWAY));
    assert!(message(&passed).contains("redirect"), "{passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn protobuf_is_refused() {
    let scene = Scene::with([HostileAnswer::whole(
        "content-type: application/vnd.kubernetes.protobuf\r\n",
        b"k8s\0",
    )])
    .await;
    let (direct, passed) = scene.both(NODES).await;
    assert_eq!((direct.status, passed.status), (StatusCode::OK, StatusCode::BAD_GATEWAY));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_without_an_end_are_broken_off() {
    let scene = Scene::with([HostileAnswer::endless_headers()]).await;
    let passed = scene.get(NODES, true, Some(&scene.admin)).await;
    assert_eq!((passed.status, passed.bytes), (StatusCode::IM_A_TEAPOT, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_ever_new_objects_is_ended_and_refused_for_a_while() {
    let mut events = Vec::new();
    for n in 0..50_000 {
        let event = json!({"type": "ADDED", "object": {"metadata": {"name": format!("n{n}"), "annotations": {"a": "x".repeat(1000)}}}});
        writeln!(events, "{event}").unwrap();
    }
    let scene = Scene::with([HostileAnswer::endless_json("", &events)]).await;
    let (direct, passed) = scene.both("/api/v1/nodes?watch=true").await;
    assert!(direct.bytes > MUCH, "{direct:?}");
    assert!(!passed.ended && passed.bytes < limits::MORE_CACHED_OF_A_GUEST + limits::CACHED, "{passed:?}");
    let refused = scene.get("/api/v1/nodes?watch=true", true, Some(&scene.admin)).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_an_end_never_reaches_the_manager() {
    let first = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"n\",\"annotations\":{\"a\":\"";
    let scene = Scene::with([HostileAnswer::endless_json(first, &[b'x'; 1000])]).await;
    let (direct, passed) = scene.both("/api/v1/nodes?watch=true").await;
    assert!(direct.bytes > MUCH && passed.bytes == 0, "{direct:?} {passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_without_an_end_count_as_one_list() {
    let items = "{\"metadata\":{\"name\":\"n\"}},".repeat(2000);
    let page = format!("{{\"metadata\":{{\"continue\":\"more\"}},\"items\":[{items}{{}}]}}");
    let scene = Scene::with([HostileAnswer::json(page.as_bytes())]).await;
    let path = |query: &str| format!("{NODES}?limit=500{query}");
    let first = scene.get(&path(""), true, Some(&scene.admin)).await;
    assert!(first.ended, "{first:?}");
    let mut pages = 1;
    while scene.get(&path("&continue=more"), true, Some(&scene.admin)).await.ended {
        pages += 1;
        assert!(pages < 20, "pages without an end");
    }
    assert!(pages > 4, "{pages}");
    assert!(scene.get(&path(""), true, Some(&scene.admin)).await.ended, "another list");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_answer_and_an_honest_watch_pass_whole() {
    let list = br#"{"kind":"NodeList","items":[{"metadata":{"name":"a"}}]}"#;
    let events = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n\n{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n";
    let scene = Scene::with([HostileAnswer::json(list), HostileAnswer::json(events)]).await;
    let listed = scene.get(NODES, true, Some(&scene.admin)).await;
    assert_eq!((listed.text.as_bytes(), listed.ended), (&list[..], true));
    let watched = scene.get("/api/v1/nodes?watch=1", true, Some(&scene.admin)).await;
    // White space at the end doesn't belong to an event.
    assert_eq!(
        (watched.text.trim_end(), watched.ended),
        (std::str::from_utf8(events).unwrap().trim_end(), true)
    );
    assert_eq!(scene.hostile.answered(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_targets_and_the_certificates_of_others_are_refused() {
    let scene = Scene::with([HostileAnswer::json(b"{}")]).await;
    for other in ["169.254.169.254:80", "127.0.0.1:1", "kubernetes.default:443"] {
        let refusal = scene.connect(other).await.unwrap_err();
        assert_eq!(refusal, format!("HTTP/1.1 403 no Cluster has the control plane endpoint {other}"));
    }
    // The cluster's own authority signed the certificate, but for another user.
    let passed = scene.get(NODES, true, Some(&scene.other)).await;
    assert_eq!((passed.status, scene.hostile.answered()), (StatusCode::IM_A_TEAPOT, 0));
    // Without a certificate, the request depends on the client's own credentials, such as a token.
    let passed = scene.get(NODES, true, None).await;
    assert_eq!((passed.status, scene.hostile.answered()), (StatusCode::OK, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_authority_has_no_key_is_reached_within_bytes() {
    let scene = Scene::with_key([HostileAnswer::json(b"{\"a\":1}")], false).await;
    let passed = scene.get(NODES, true, Some(&scene.admin)).await;
    assert_eq!((passed.status, passed.text.as_str()), (StatusCode::OK, "{\"a\":1}"));
}
