//! Creates Kubernetes clients that use HTTP/2 if the API server supports it, so that all requests share one connection.
//!
//! kube's own client uses HTTP/1.1, which needs a separate connection, with a handshake and buffers, for each concurrent request.

use std::error::Error;
use std::time::Duration;

use axum::http::{Request, Response};
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder, service_fn};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::tenure::Tenure;

/// The idle time after which an HTTP/2 connection is pinged, as in client-go.
const ASKED_AFTER: Duration = Duration::from_secs(30);
/// The HTTP/2 window sizes in bytes (per stream, per connection) for untrusted API servers. Unread data is kept in memory. The
/// default would be up to 2 MiB per stream.
const WINDOWS: (u32, u32) = (64 << 10, 256 << 10);
/// The maximum size in bytes of the response headers from untrusted API servers.
const HEADERS: u32 = 16 << 10;
/// The HTTP/1.1 buffer size in bytes for untrusted API servers.
const BUFFER: usize = 64 << 10;
/// The time without a ping response after which the connection is closed.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

/// Creates a client for the API server in `config`. Doesn't send a request.
///
/// # Errors
/// Fails if the credentials or certificates can't be used, or if `config` has a proxy, which isn't supported.
pub fn client(config: Config) -> Result<Client, Box<dyn Error + Send + Sync>> {
    bounded(config, usize::MAX)
}

/// Same as [`client`], for a replica that may become the leader. Once the replica's lease is too old, requests that change
/// something fail without being sent.
pub(crate) fn of_leader(config: Config, tenure: Tenure) -> Result<Client, Box<dyn Error + Send + Sync>> {
    build(config, usize::MAX, Some(tenure))
}

/// Same as [`client`], for an untrusted API server. A response or watch with more than `bytes` bytes ends with
/// an error. Unread data is kept in small buffers. Compressed responses are neither requested nor decompressed.
///
/// # Errors
/// Same as [`client`].
pub fn bounded(config: Config, bytes: usize) -> Result<Client, Box<dyn Error + Send + Sync>> {
    build(config, bytes, None)
}

fn build(
    config: Config,
    bytes: usize,
    tenure: Option<Tenure>,
) -> Result<Client, Box<dyn Error + Send + Sync>> {
    if config.proxy_url.is_some() {
        // kube's own client returns the error for this.
        return Ok(Client::try_from(config)?);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut tls =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?));
    }
    let mut bounded = TimeoutConnector::new(tls.enable_all_versions().wrap_connector(tcp));
    bounded.set_connect_timeout(config.connect_timeout);
    bounded.set_read_timeout(config.read_timeout);
    bounded.set_write_timeout(config.write_timeout);
    bounded.set_reset_reader_on_write(config.reset_reader_on_write);
    let mut http = legacy::Client::builder(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .http2_keep_alive_interval(ASKED_AFTER)
        .http2_keep_alive_timeout(ANSWERED_WITHIN)
        .http2_keep_alive_while_idle(true);
    if bytes < usize::MAX {
        http.http2_initial_stream_window_size(WINDOWS.0)
            .http2_initial_connection_window_size(WINDOWS.1)
            .http2_max_header_list_size(HEADERS)
            .http1_max_buf_size(BUFFER);
    }
    let http = http.build::<_, Body>(bounded);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_response(move |answer: Response<Incoming>| answer.map(|body| Limited::new(body, bytes)))
        .service(service_fn(move |request: Request<Body>| {
            // kube's own client creates the same span.
            let span = tracing::debug_span!(
                "HTTP", http.method = %request.method(), http.url = %request.uri(), http.status_code = Empty,
            );
            // The check comes last, so that the request can't be delayed after it.
            let may = tenure.as_ref().map_or(Ok(()), |tenure| tenure.check_request(request.method()));
            let sent = may.map(|()| http.request(request));
            let answered = async move {
                let answer = sent?.await.map_err(BoxError::from)?;
                Span::current().record("http.status_code", answer.status().as_u16());
                Ok(answer)
            };
            answered.instrument(span)
        }));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::Body;
    use axum::http::Method;
    use axum::routing::get;
    use axum::{Json, Router};
    use futures::future::join_all;
    use futures::stream::repeat_with;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use rustls::sign::SingleCertAndKey;
    use serde_json::json;
    use time::OffsetDateTime;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;
    use x509_parser::pem::Pem;

    use super::*;
    use crate::server::tls::build_acceptor;
    use crate::server::{self, LIMITS, ServerLimits};
    use crate::tenure;
    use crate::webhook::bundle::CertBundle;

    #[tokio::test]
    async fn an_answer_without_end_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endless = async || Body::from_stream(repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1024))));
        let router = Router::new().route("/api/v1/namespaces/default/configmaps/a", get(endless));
        tokio::spawn(axum::serve(listener, router).into_future());
        let maps: Api<ConfigMap> =
            Api::default_namespaced(bounded(Config::new(url.parse().unwrap()), 1 << 20).unwrap());
        assert!(maps.get("a").await.is_err());
    }

    #[tokio::test]
    async fn requests_share_one_connection() {
        let server = CertBundle::generate(&["localhost".to_owned()], OffsetDateTime::now_utc()).unwrap();
        let certificate = Arc::new(SingleCertAndKey::from(server.certified().unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let map = Json(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
        let router = Router::new()
            .route("/api/v1/namespaces/default/configmaps/a", get(move || std::future::ready(map.clone())));
        // The server would refuse a second connection.
        let one = ServerLimits { connections: 1, ..LIMITS };
        server::spawn(listener, Some(build_acceptor(certificate, None).unwrap()), router, one, stop.clone());

        let mut config = Config::new(url.parse().unwrap());
        let authority = Pem::iter_from_buffer(server.authorities.as_bytes()).next().unwrap().unwrap();
        config.root_cert = Some(vec![authority.contents]);
        config.tls_server_name = Some("localhost".to_owned());
        let maps: Api<ConfigMap> = Api::default_namespaced(client(config).unwrap());
        // The protocol is negotiated on the first connection.
        maps.get("a").await.unwrap();
        join_all((0..50).map(|_| maps.get("a"))).await.into_iter().for_each(|map| drop(map.unwrap()));
        stop.cancel();
    }

    #[tokio::test]
    async fn nothing_is_changed_by_a_leader_that_was_suspended_for_longer_than_its_lease() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let changes = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&changes);
        let map = Json(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
        let router = Router::new().fallback(move |method: Method| {
            counted.fetch_add(usize::from(method != Method::GET), Ordering::SeqCst);
            std::future::ready(map.clone())
        });
        tokio::spawn(axum::serve(listener, router).into_future());
        let (clock, millis) = tenure::tests::stopped();
        let tenure = Tenure::new(clock.clone());
        let maps: Api<ConfigMap> =
            Api::default_namespaced(of_leader(Config::new(url.parse().unwrap()), tenure.clone()).unwrap());
        tenure.renewed(clock.now());
        maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap();
        assert_eq!(changes.load(Ordering::SeqCst), 1);

        millis.fetch_add(60_000, Ordering::SeqCst);
        let patch = Patch::Merge(json!({"data": {"a": "b"}}));
        let refusals = [
            maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err(),
            maps.patch("a", &PatchParams::default(), &patch).await.unwrap_err(),
            maps.delete("a", &DeleteParams::default()).await.unwrap_err(),
        ];
        assert!(refusals.iter().all(|error| format!("{error:?}").contains("Expired")), "{refusals:?}");
        assert_eq!(changes.load(Ordering::SeqCst), 1);
        maps.get("a").await.unwrap();
    }
}
