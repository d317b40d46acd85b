//! A registry with one image behind a proxy with a password. The registry's certificate comes from a private authority.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::serve::Listener;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::tls::new_server_config;

/// The registry's hostname. Only the proxy can resolve it.
pub const HOST: &str = "registry.internal";
/// The image reference.
pub const IMAGE: &str = "registry.internal/team/empty:1";
/// The proxy's user and password. It contains characters that must be escaped in URLs and systemd units.
const USER: &str = "nodes:p%4\"ss";
/// User and password, escaped for a URL.
const USER_IN_URL: &str = "nodes:p%254%22ss";
/// The maximum size, in bytes, of a request head.
const MAX_HEAD: usize = 64 << 10;
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The proxy and the registry. They stop on drop.
pub struct ProxiedRegistry {
    address: SocketAddr,
    authority: String,
    connections: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl ProxiedRegistry {
    /// Starts the proxy at this host address, on a free port.
    ///
    /// # Errors
    /// Returns an error if the host doesn't have the address.
    pub async fn start(address: IpAddr) -> io::Result<Self> {
        let mut listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let (authority, config) = new_server_config(&[HOST]);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let connections = Arc::<Mutex<Vec<String>>>::default();
        let (seen, image) = (Arc::clone(&connections), Arc::new(Image::empty()));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = Listener::accept(&mut listener).await;
                let (seen, acceptor, image) = (Arc::clone(&seen), acceptor.clone(), Arc::clone(&image));
                // Errors of clients that disconnect are ignored.
                tokio::spawn(async move { drop(forward(stream, &seen, &acceptor, &image).await) });
            }
        });
        Ok(Self { address, authority, connections, serving })
    }

    /// Returns the proxy URL, with the password.
    pub fn proxy(&self) -> String {
        format!("http://{USER_IN_URL}@{}", self.address)
    }

    /// Returns the registry's CA certificate, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the targets of authorized connections, as `HOST:PORT`.
    pub fn connections(&self) -> Vec<String> {
        self.connections.lock().clone()
    }
}

impl Drop for ProxiedRegistry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves one proxy client.
async fn forward(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    acceptor: &TlsAcceptor,
    image: &Image,
) -> io::Result<()> {
    let Some(head) = read_head(&mut stream).await? else { return Ok(()) };
    let password = format!("Basic {}", STANDARD.encode(USER));
    let authorized = head.lines().filter_map(|line| line.split_once(": "));
    if !authorized
        .into_iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("proxy-authorization") && value == password)
    {
        return stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n").await;
    }
    let target = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let is_ours = head.starts_with("CONNECT ") && target.starts_with(HOST);
    seen.lock().push(target);
    if !is_ours {
        return stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    }
    stream.write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n").await?;
    let mut stream = acceptor.accept(stream).await?;
    while let Some(head) = read_head(&mut stream).await? {
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        stream.write_all(&image.answer(method == "HEAD", path)).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// Reads the head of the next request. The clients here don't send bodies.
async fn read_head(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Option<String>> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        let byte = match stream.read_u8().await {
            Ok(byte) => byte,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        read.push(byte);
        if read.len() > MAX_HEAD {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&read).into_owned()))
}

/// An image with one empty layer.
struct Image {
    manifest: Vec<u8>,
    blobs: [Vec<u8>; 2],
}

impl Image {
    fn empty() -> Self {
        // An empty tar archive.
        let layer = vec![0; 1024];
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/nothing"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        let config = config.to_string().into_bytes();
        let part =
            |kind: &str, blob: &[u8]| json!({"mediaType": kind, "digest": digest(blob), "size": blob.len()});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
            "config": part("application/vnd.oci.image.config.v1+json", &config),
            "layers": [part("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        Self { manifest: manifest.to_string().into_bytes(), blobs: [config, layer] }
    }

    fn answer(&self, head_only: bool, path: &str) -> Vec<u8> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let found = if path.contains("/manifests/") {
            Some((MANIFEST_TYPE, &self.manifest))
        } else {
            let blob = self.blobs.iter().find(|blob| digest(blob) == name);
            blob.map(|blob| ("application/octet-stream", blob))
        };
        let (status, kind, body): (_, _, &[u8]) = match found {
            Some((kind, body)) => ("200 OK", kind, body),
            None if path == "/v2/" => ("200 OK", "application/json", b"{}"),
            None => ("404 Not Found", "application/json", b"{}"),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ndocker-content-digest: {}\r\n\r\n",
            body.len(),
            digest(body)
        );
        [head.as_bytes(), if head_only { &[] } else { body }].concat()
    }
}

fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}
