//! An HTTPS server that responds through a closure and keeps the request bodies.

use std::io;
use std::sync::{Arc, Mutex};

use support::tls::new_server_config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The server's response to a request.
pub enum Reply {
    /// A body with status 200.
    Body(String),
    /// A body with status 200 and a session cookie.
    Session(String),
    /// The request never completes.
    Never,
}

type Answer = dyn FnMut(&str, &str) -> Reply + Send;

/// The server. It stops when it is dropped.
pub struct Server {
    port: u16,
    certificate: String,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    /// Starts a server. `answer` receives each request's path and body.
    pub async fn start(answer: impl FnMut(&str, &str) -> Reply + Send + 'static) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let (certificate, config) = new_server_config(&["127.0.0.1"]);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (requests.clone(), Arc::new(Mutex::new(Box::new(answer) as Box<Answer>)));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen, answer) = (acceptor.clone(), seen.clone(), answer.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(serve(stream, &seen, &answer).await);
                    }
                });
            }
        });
        Self { port, certificate, requests, serving }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the CA certificate to trust, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the request bodies that contain this element.
    pub fn asked(&self, element: &str) -> Vec<String> {
        let begin = format!("<{element} ");
        self.requests.lock().unwrap().iter().filter(|body| body.contains(&begin)).cloned().collect()
    }
}

async fn serve(
    mut stream: TlsStream<TcpStream>,
    seen: &Mutex<Vec<String>>,
    answer: &Mutex<Box<Answer>>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some((path, body)) = read(&mut stream, &mut buffer).await? {
        seen.lock().unwrap().push(body.clone());
        let reply = (answer.lock().unwrap())(&path, &body);
        let (cookie, body) = match reply {
            Reply::Body(body) => ("", body),
            Reply::Session(body) => ("set-cookie: vmware_soap_session=\"1\"; Path=/\r\n", body),
            Reply::Never => std::future::pending().await,
        };
        let head = format!("HTTP/1.1 200 OK\r\n{cookie}content-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// Reads the next request's path and body. Returns `None` at the end of the stream.
async fn read(
    stream: &mut TlsStream<TcpStream>,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(String, String)>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
            });
            let all = end + 4 + length.unwrap_or_default();
            if buffer.len() >= all {
                let body = String::from_utf8_lossy(&buffer[end + 4..all]).into_owned();
                buffer.drain(..all);
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                return Ok(Some((path, body)));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}
