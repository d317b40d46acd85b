//! Sends requests to a program in a guest's Pod, through the guest's API server and the Pod's
//! kubelet, as `kubectl port-forward` does. In this way, each of several API servers can be reached.

use std::sync::Arc;

use axum::http::{Request, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::{Body, ConfigExt};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::task::AbortOnDropHandle;

use super::answer;
use super::error::{ApiRejection, GuestError, bounded};
use super::{GuestClient, MAX_REFUSAL};

/// The maximum size of a port-forward message in bytes.
const MAX_MESSAGE: usize = 256 << 10;
/// The size in bytes of the buffer for each direction.
const BUFFER: usize = 32 << 10;
/// The port-forward channel for data. Each channel begins with the port number.
const DATA: u8 = 0;
/// The port-forward channel for errors.
const ERRORS: u8 = 1;
/// The size in bytes of the port number at the beginning of each channel.
const PORT_BYTES: usize = 2;
const PROTOCOL: &str = "v4.channel.k8s.io";

/// A Pod's port that speaks TLS.
#[derive(Clone, Copy, Debug)]
pub struct PodPort<'a> {
    /// The Pod's namespace.
    pub namespace: &'a str,
    /// The Pod's name.
    pub pod: &'a str,
    /// The port number.
    pub port: u16,
    /// A name in the program's certificate. One of the guest's certificate authorities must have signed the certificate.
    pub server_name: &'static str,
}

impl GuestClient {
    /// Requests a page from a Pod's program, with the guest administrator's client certificate, and
    /// returns the lines that begin with one of the prefixes in `begins`. The page is limited to `most` bytes.
    ///
    /// # Errors
    /// Same as [`GuestClient::read`].
    pub async fn read_lines_of_pod(
        &self,
        at: &PodPort<'_>,
        path: &str,
        most: usize,
        begins: &[&str],
    ) -> Result<Vec<String>, GuestError> {
        self.within(async {
            let config =
                self.config.as_deref().ok_or_else(|| ApiRejection::new("no credentials are known"))?;
            let mut tls =
                config.rustls_client_config().map_err(|error| ApiRejection::new(&error.to_string()))?;
            // Only HTTP/1.1 supports upgrades.
            tls.alpn_protocols.clear();
            let tls = Arc::new(tls);
            let (tunnel, _pump) = forward(config, Arc::clone(&tls), at).await?;
            let name =
                ServerName::try_from(at.server_name).map_err(|_| ApiRejection::new("no name of a server"))?;
            let stream =
                TlsConnector::from(tls).connect(name, tunnel).await.map_err(|error| of_pod(at, &error))?;
            let request = Request::get(path).header(header::HOST, at.server_name);
            let (answer, _connection) = send(stream, request).await?;
            if answer.status() != StatusCode::OK {
                return Err(read_refusal(answer).await);
            }
            let (bytes, _held) = answer::collect(answer.into_body(), most, &self.limits).await?;
            Ok(super::select_lines(&bytes, begins))
        })
        .await
    }
}

fn of_pod(at: &PodPort<'_>, error: &dyn std::error::Error) -> ApiRejection {
    ApiRejection::new(&format!("Pod {} does not answer: {error}", at.pod))
}

/// Opens the port forward. Dropping the returned handle closes the port forward.
async fn forward(
    config: &Config,
    tls: Arc<ClientConfig>,
    at: &PodPort<'_>,
) -> Result<(DuplexStream, AbortOnDropHandle<()>), GuestError> {
    let unreachable = |error: std::io::Error| GuestError::unreachable(&error);
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
    let name = ServerName::try_from(host.clone()).map_err(|_| ApiRejection::new("its server has no name"))?;
    let stream = TlsConnector::from(tls).connect(name, tcp).await.map_err(unreachable)?;
    let path = format!("/api/v1/namespaces/{}/pods/{}/portforward?ports={}", at.namespace, at.pod, at.port);
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, STANDARD.encode(rand::random::<[u8; 16]>()))
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    let (answer, connection) = send(stream, request).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(read_refusal(answer).await);
    }
    let upgraded = hyper::upgrade::on(answer).await.map_err(|error| GuestError::unreachable(&error))?;
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .max_write_buffer_size(MAX_MESSAGE);
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(limits)).await;
    let (near, far) = tokio::io::duplex(BUFFER);
    let pump = tokio::spawn(async move {
        let _connection = connection;
        copy_bytes(socket, far).await;
    });
    Ok((near, AbortOnDropHandle::new(pump)))
}

/// Sends a request over a new connection. Dropping the returned handle closes the connection.
async fn send<S>(
    stream: S,
    request: axum::http::request::Builder,
) -> Result<(axum::http::Response<Incoming>, AbortOnDropHandle<()>), GuestError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = request.body(Body::empty()).map_err(|error| ApiRejection::new(&error.to_string()))?;
    let handshake = http1::Builder::new().max_buf_size(MAX_REFUSAL).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| GuestError::unreachable(&error))?;
    let connection = tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let connection = AbortOnDropHandle::new(connection);
    let answer = sender.send_request(request).await.map_err(|error| GuestError::unreachable(&error))?;
    Ok((answer, connection))
}

/// Reads the refusal from an error response, up to [`MAX_REFUSAL`] bytes.
async fn read_refusal(answer: axum::http::Response<Incoming>) -> GuestError {
    let code = answer.status().as_u16();
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = http_body_util::BodyExt::frame(&mut body).await {
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_REFUSAL {
            break;
        }
        bytes.extend_from_slice(&data);
    }
    ApiRejection::read(code, &bytes).into()
}

/// Copies bytes between the port forward's `socket` and `far`, until either side ends or the kubelet reports an error.
async fn copy_bytes<S>(mut socket: WebSocketStream<S>, mut far: DuplexStream)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut begun = [0; 2];
    let mut buffer = vec![0; BUFFER];
    loop {
        tokio::select! {
            read = far.read(&mut buffer) => {
                let Ok(read @ 1..) = read else { return };
                let mut message = Vec::with_capacity(read + 1);
                message.push(DATA);
                message.extend_from_slice(&buffer[..read]);
                if socket.send(Message::Binary(message.into())).await.is_err() {
                    return;
                }
            }
            message = socket.next() => {
                let Some(Ok(message)) = message else { return };
                let Message::Binary(message) = message else { continue };
                let Some((channel @ (&DATA | &ERRORS), content)) = message.split_first() else { continue };
                let begun = &mut begun[usize::from(*channel)];
                let skipped = content.len().min(PORT_BYTES - *begun);
                *begun += skipped;
                let content = &content[skipped..];
                if *channel == ERRORS && !content.is_empty() {
                    tracing::debug!(error = bounded(&String::from_utf8_lossy(content)), "a port of a Pod is not forwarded");
                    return;
                }
                if far.write_all(content).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_forward_carries_bytes_and_ends_with_an_error_of_the_kubelet() {
        let (one, other) = tokio::io::duplex(BUFFER);
        let client = WebSocketStream::from_raw_socket(one, Role::Client, None).await;
        let mut kubelet = WebSocketStream::from_raw_socket(other, Role::Server, None).await;
        let (mut near, far) = tokio::io::duplex(BUFFER);
        let pumping = tokio::spawn(copy_bytes(client, far));
        // The port number, in two messages on the first channel.
        for message in [&[DATA, 43][..], &[ERRORS, 43, 25], &[DATA, 25, b'h'], &[7, b'x'], &[DATA, b'i']] {
            kubelet.send(Message::Binary(message.to_vec().into())).await.unwrap();
        }
        let mut read = [0; 2];
        near.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hi");
        near.write_all(b"ping").await.unwrap();
        let sent = kubelet.next().await.unwrap().unwrap().into_data();
        assert_eq!(&sent[..], b"\0ping");
        kubelet.send(Message::Binary(vec![ERRORS, b'x'].into())).await.unwrap();
        pumping.await.unwrap();
        assert_eq!(near.read(&mut read).await.unwrap(), 0);
    }
}
