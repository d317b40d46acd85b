//! A scripted server that records its requests and supports both wire protocols.
//!
//! Test scripts use VI/JSON. For SOAP, the server translates requests before it records them, and responses before it
//! sends them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::soap;
use crate::http::Http;
use crate::{Client, Config, WireChoice, WireKind};

/// The server's reaction to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Sends a status and a body.
    Body(u16, String),
    /// Sends a body as it is, without a translation for the wire protocol.
    Raw(String),
    /// Responds to a login with this session ID.
    Session(String),
    /// Closes the connection without a response.
    Abort,
    /// Keeps the connection open without a response.
    Never,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub session: String,
    call: String,
    /// The body as JSON, for either wire protocol.
    pub body: String,
    /// The received body, not decoded.
    pub raw: String,
    /// The request line and the headers.
    pub head: String,
}

impl Seen {
    /// Returns the last path segment without the query, or the method in the SOAP envelope.
    pub fn call(&self) -> &str {
        &self.call
    }

    fn named(mut self) -> Self {
        if self.path == "/sdk" {
            (self.call, self.body) = soap::question(&self.body);
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default().clone_into(&mut self.call);
        }
        self
    }
}

fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

type Answer = dyn FnMut(&Seen) -> Option<Reply> + Send;

/// The server. It calls the test's `answer` function first. If the function returns `None`, the server sends the default
/// response, which every session needs.
#[derive(Clone)]
pub struct Fake {
    base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    changed: Arc<watch::Sender<usize>>,
    answer: Arc<Mutex<Box<Answer>>>,
    logins: Arc<Mutex<u32>>,
    wire: WireKind,
}

/// Returns a JSON reply. The result is never `None`; it is an `Option` because request handlers return one.
#[allow(clippy::unnecessary_wraps, clippy::needless_pass_by_value)]
pub fn json(status: u16, body: serde_json::Value) -> Option<Reply> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Some(Reply::Body(status, text))
}

pub fn fault(type_name: &str) -> Option<Reply> {
    json(500, serde_json::json!({ "_typeName": type_name, "faultstring": "as instructed" }))
}

pub fn moref(kind: &str, id: &str) -> Option<Reply> {
    json(200, serde_json::json!({ "_typeName": "ManagedObjectReference", "type": kind, "value": id }))
}

impl Fake {
    /// Starts a server for one wire protocol.
    pub async fn start(wire: WireKind, answer: impl FnMut(&Seen) -> Option<Reply> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            base: format!("http://{}", listener.local_addr().unwrap()),
            seen: Arc::default(),
            changed: Arc::new(watch::Sender::new(0)),
            answer: Arc::new(Mutex::new(Box::new(answer))),
            logins: Arc::default(),
            wire,
        };
        let server = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        fake
    }

    /// Returns the server's URL without a path.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub async fn client(&self) -> Client {
        self.connect(self.config()).await.unwrap()
    }

    /// Returns a configuration with the server's wire protocol, so that the client doesn't negotiate it.
    pub fn config(&self) -> Config {
        let wire = match self.wire {
            WireKind::ViJson => WireChoice::ViJson,
            WireKind::Soap => WireChoice::Soap,
        };
        Config { wire, ..Config::new("fake", "user", "hunter2") }
    }

    pub async fn connect(&self, config: Config) -> crate::Result<Client> {
        Client::over(Http::plain(self.base.clone(), config.longest_answer), config).await
    }

    /// Returns all requests so far, including the connection setup.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub fn count(&self, call: &str) -> usize {
        self.seen.lock().iter().filter(|seen| seen.call() == call).count()
    }

    /// Waits until a method was called at least `times` times.
    pub async fn until(&self, call: &str, times: usize) {
        let mut changed = self.changed.subscribe();
        let reached = changed.wait_for(|_| self.count(call) >= times);
        let reached = tokio::time::timeout(std::time::Duration::from_secs(20), reached).await;
        let calls: Vec<String> = self.seen().iter().map(|seen| seen.call().to_owned()).collect();
        assert!(reached.is_ok(), "{call} was not called {times} times: {calls:?}");
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(seen) = read(&mut stream, &mut buffer).await {
            self.seen.lock().push(seen.clone());
            let scripted = (self.answer.lock())(&seen);
            let reply = scripted.unwrap_or_else(|| self.usual(&seen));
            self.changed.send_modify(|count| *count += 1);
            let answer = match (reply, self.wire) {
                (Reply::Abort, _) => return,
                (Reply::Never, _) => std::future::pending().await,
                (Reply::Body(status, body), WireKind::Soap) if seen.path == "/sdk" => {
                    let status = if status == 204 { 200 } else { status };
                    response(status, "", &soap::answer(seen.call(), &body))
                }
                (Reply::Body(status, body), _) => response(status, "", &body),
                (Reply::Raw(body), _) => response(200, "", &body),
                (Reply::Session(token), WireKind::ViJson) => {
                    response(200, &format!("vmware-api-session-id: {token}\r\n"), "")
                }
                (Reply::Session(token), WireKind::Soap) => {
                    let cookie = format!("set-cookie: vmware_soap_session=\"{token}\"; Path=/; Secure\r\n");
                    response(200, &cookie, &soap::answer("Login", ""))
                }
            };
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn usual(&self, seen: &Seen) -> Reply {
        let reply = match seen.call() {
            "system" => json(200, serde_json::json!({ "api_release": "8.0.3.0" })),
            "vimServiceVersions.xml" => Some(Reply::Body(200, soap::versions("8.0.3.0"))),
            "content" | "RetrieveServiceContent" => {
                let service = |name: &str| serde_json::json!({ "_typeName": "ManagedObjectReference", "type": name, "value": name });
                let content = serde_json::json!({
                    "_typeName": "ServiceContent",
                    "about": { "_typeName": "AboutInfo", "version": "8.0.3", "instanceUuid": "uuid-1" },
                    "propertyCollector": service("PropertyCollector"),
                    "viewManager": service("ViewManager"),
                    "sessionManager": service("SessionManager"),
                    "searchIndex": service("SearchIndex"),
                });
                json(200, content)
            }
            "Login" => {
                let mut logins = self.logins.lock();
                *logins += 1;
                Some(Reply::Session(format!("token-{logins}")))
            }
            _ => json(204, serde_json::Value::Null),
        };
        reply.unwrap_or(Reply::Abort)
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let header = |name: &str| {
                head.lines().find_map(|line| {
                    let (key, value) = line.split_once(": ")?;
                    key.eq_ignore_ascii_case(name).then(|| value.to_owned())
                })
            };
            let length = header("content-length").map_or(0, |length| length.parse().unwrap());
            if buffer.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&buffer[end + 4..end + 4 + length]).into_owned();
                buffer.drain(..end + 4 + length);
                let mut words = head.split(' ');
                let method = words.next()?.to_owned();
                let path = words.next()?.to_owned();
                let session = header("vmware-api-session-id")
                    .or_else(|| header("cookie").map(|cookie| soap::session(&cookie)));
                let seen = Seen {
                    method,
                    path,
                    session: session.unwrap_or_default(),
                    call: String::new(),
                    raw: body.clone(),
                    body,
                    head: head.clone(),
                };
                return Some(seen.named());
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
