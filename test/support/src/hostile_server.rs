//! An HTTPS server that gives hostile answers, regardless of the request.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::serve::Listener;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::tls::server_config;

/// The maximum size, in bytes, of a request head.
const MAX_HEAD: usize = 64 << 10;

/// A hostile answer to a request.
#[derive(Clone, Debug)]
pub enum HostileAnswer {
    /// A complete answer. The connection stays open.
    Whole(Vec<u8>),
    /// The beginning of an answer, and a part that is repeated for as long as the client reads.
    Endless(Vec<u8>, Vec<u8>),
}

impl HostileAnswer {
    /// Returns an answer with a JSON body.
    pub fn json(body: &[u8]) -> Self {
        Self::whole("content-type: application/json\r\n", body)
    }

    /// Returns an answer with more headers, each of which ends with CRLF.
    pub fn whole(headers: &str, body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n", body.len());
        Self::Whole([head.as_bytes(), body].concat())
    }

    /// Returns an endless answer with a JSON body: `first`, then `then` repeatedly.
    pub fn endless_json(first: &str, then: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{first}");
        Self::Endless(head.into_bytes(), then.to_vec())
    }

    /// Returns a gzip-compressed JSON body that expands to at least this size. It consists of spaces, which gzip compresses to a
    /// thousandth.
    pub fn gzip(bytes: usize) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let chunk = vec![b' '; 1 << 20];
        for _ in 0..bytes.div_ceil(chunk.len()) {
            encoder.write_all(&chunk).unwrap();
        }
        encoder.write_all(b"{}").unwrap();
        let body = encoder.finish().unwrap();
        Self::whole("content-type: application/json\r\ncontent-encoding: gzip\r\n", &body)
    }

    /// Returns an answer with endless headers.
    pub fn endless_headers() -> Self {
        let line = format!("x-filler: {}\r\n", "x".repeat(1000));
        Self::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), line.into_bytes())
    }

    /// Returns a redirect to this URL.
    pub fn redirect(url: &str) -> Self {
        let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n");
        Self::Whole(head.into_bytes())
    }
}

/// An HTTPS server that gives these answers in turn. It stops on drop.
pub struct HostileServer {
    answered: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl HostileServer {
    /// Starts the server at `address`, with this certificate and key (in PEM).
    ///
    /// # Errors
    /// Returns an error if the address is in use.
    ///
    /// # Panics
    /// Panics if `answers` is empty.
    pub async fn start(
        address: SocketAddr,
        certificate: &[u8],
        key: &[u8],
        answers: Arc<[HostileAnswer]>,
    ) -> io::Result<Self> {
        assert!(!answers.is_empty(), "no answers");
        let mut listener = TcpListener::bind(address).await?;
        let acceptor = TlsAcceptor::from(Arc::new(server_config(certificate, key)));
        let answered = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&answered);
        let serving = tokio::spawn(async move {
            // Dropping the set ends endless answers, which would outlive the server otherwise.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = Listener::accept(&mut listener).await;
                while connections.try_join_next().is_some() {}
                let (acceptor, answers, count) = (acceptor.clone(), Arc::clone(&answers), Arc::clone(&count));
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // Errors of clients that disconnect are ignored.
                        let _ = answer_all(stream, &answers, &count).await;
                    }
                });
            }
        });
        Ok(Self { answered, serving })
    }

    /// Returns the number of requests so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer_all(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: &[HostileAnswer],
    count: &AtomicUsize,
) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut read).await? == 0 || read.len() > MAX_HEAD {
                return Ok(());
            }
        }
        // A request body is read together with the next head, and ignored.
        read.clear();
        let number = count.fetch_add(1, Ordering::Relaxed);
        match &answers[number % answers.len()] {
            HostileAnswer::Whole(answer) => stream.write_all(answer).await?,
            HostileAnswer::Endless(first, then) => {
                stream.write_all(first).await?;
                loop {
                    stream.write_all(then).await?;
                }
            }
        }
        stream.flush().await?;
    }
}
