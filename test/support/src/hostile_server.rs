//! An HTTPS server that answers every request as an attacker chose, whatever it is asked.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// The most bytes of a request's head that are read.
const MAX_HEAD: usize = 64 << 10;

/// An answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These bytes, with a complete head. The connection stays open.
    Whole(Vec<u8>),
    /// The first bytes, with the beginning of a head, and then the others again and again, for as long as the client reads.
    Endless(Vec<u8>, Vec<u8>),
}

impl Answer {
    /// A body of JSON.
    pub fn json(body: &[u8]) -> Self {
        Self::whole("content-type: application/json\r\n", body)
    }

    /// A body with further headers, each of which ends with CRLF.
    pub fn whole(headers: &str, body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n", body.len());
        Self::Whole([head.as_bytes(), body].concat())
    }

    /// A body of JSON without an end: the first bytes, and then the others again and again.
    pub fn endless_json(first: &str, then: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{first}");
        Self::Endless(head.into_bytes(), then.to_vec())
    }

    /// So many bytes of JSON, mostly spaces, which gzip makes a thousandth of.
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

    /// Headers without an end.
    pub fn endless_headers() -> Self {
        let line = format!("x-filler: {}\r\n", "x".repeat(1000));
        Self::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), line.into_bytes())
    }

    /// A redirect to this URL.
    pub fn redirect(url: &str) -> Self {
        let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n");
        Self::Whole(head.into_bytes())
    }
}

/// An HTTPS server that answers requests with these answers in turn. It ends when it is dropped.
pub struct HostileServer {
    answered: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl HostileServer {
    /// Serves at `address`, with this certificate and key (in PEM).
    ///
    /// # Errors
    /// The address is in use.
    ///
    /// # Panics
    /// There are no answers.
    pub async fn start(
        address: SocketAddr,
        certificate: &[u8],
        key: &[u8],
        answers: Arc<[Answer]>,
    ) -> io::Result<Self> {
        assert!(!answers.is_empty(), "no answers");
        let listener = TcpListener::bind(address).await?;
        let acceptor = TlsAcceptor::from(Arc::new(server_config(certificate, key)));
        let answered = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&answered);
        let serving = tokio::spawn(async move {
            // Dropped with the server: answers without an end would outlive it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (acceptor, answers, count) = (acceptor.clone(), Arc::clone(&answers), Arc::clone(&count));
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A client that hangs up has seen enough.
                        let _ = answer_all(stream, &answers, &count).await;
                    }
                });
            }
        });
        Ok(Self { answered, serving })
    }

    /// How many requests came so far.
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
    answers: &[Answer],
    count: &AtomicUsize,
) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut read).await? == 0 || read.len() > MAX_HEAD {
                return Ok(());
            }
        }
        // A body that follows is read with the next head, and thrown away.
        read.clear();
        let number = count.fetch_add(1, Ordering::Relaxed);
        match &answers[number % answers.len()] {
            Answer::Whole(answer) => stream.write_all(answer).await?,
            Answer::Endless(first, then) => {
                stream.write_all(first).await?;
                loop {
                    stream.write_all(then).await?;
                }
            }
        }
        stream.flush().await?;
    }
}

fn server_config(certificate: &[u8], key: &[u8]) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(certificate).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
}
