//! An HTTPS server that answers every request with one body, whatever it is asked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The most bytes of a request's head that are read.
const MAX_HEAD: usize = 64 << 10;

/// An HTTPS server that answers every request with one body. It ends when it is dropped.
pub struct HostileServer {
    answered: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl HostileServer {
    /// Serves at `address`, with this certificate and key (in PEM).
    ///
    /// # Errors
    /// The address is in use.
    pub async fn start(
        address: SocketAddr,
        certificate: &[u8],
        key: &[u8],
        body: Vec<u8>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let acceptor = TlsAcceptor::from(Arc::new(server_config(certificate, key)));
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let answer: Arc<[u8]> = [head.into_bytes(), body].concat().into();
        let answered = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&answered);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer, count) = (acceptor.clone(), Arc::clone(&answer), Arc::clone(&count));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A client that hangs up has seen enough.
                        let _ = answer_all(stream, &answer, &count).await;
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
    answer: &[u8],
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
        count.fetch_add(1, Ordering::Relaxed);
        stream.write_all(answer).await?;
        stream.flush().await?;
    }
}

fn server_config(certificate: &[u8], key: &[u8]) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(certificate).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
}
