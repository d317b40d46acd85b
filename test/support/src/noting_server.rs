//! An HTTPS server that records the head of each request, and answers with 503.

use std::io;
use std::sync::Arc;

use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::tls::new_server_config;

/// The maximum size, in bytes, of a request head.
const MAX_HEAD: usize = 64 << 10;
const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// An HTTPS server whose CA no client trusts. It stops on drop.
pub struct NotingServer {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl NotingServer {
    /// Starts the server on a free loopback port.
    ///
    /// # Errors
    /// Returns an error if all ports are in use.
    pub async fn start() -> io::Result<Self> {
        let mut listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        drop(rustls::crypto::ring::default_provider().install_default());
        let (_, config) = new_server_config(&["127.0.0.1"]);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&heads);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = Listener::accept(&mut listener).await;
                let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
                tokio::spawn(async move {
                    match acceptor.accept(stream).await {
                        Ok(stream) => drop(note(stream, &noted).await),
                        Err(error) => noted.lock().push(error.to_string()),
                    }
                });
            }
        });
        Ok(Self { port, heads, serving })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns all request heads so far, and the errors of failed TLS handshakes.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().clone()
    }
}

impl Drop for NotingServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn note(mut stream: impl AsyncRead + AsyncWrite + Unpin, heads: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_HEAD {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    heads.lock().push(String::from_utf8_lossy(&head).into_owned());
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}
