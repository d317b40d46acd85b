//! The HTTP connections to vCenter, and the classification of their failures.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, Url};

use crate::config::Config;
use crate::tls::{self, SeenThumbprint};
use crate::{Error, Kind, Recorder, Result};

/// The header that carries the session token in requests and responses.
pub(crate) const SESSION_HEADER: &str = "vmware-api-session-id";

/// The maximum size in bytes of a response that only opens a session or confirms an action.
pub(crate) const SHORT_ANSWER: usize = 1 << 20;

/// The connection pool for a request.
#[derive(Clone, Copy)]
pub(crate) enum Pool {
    /// The pool that all calls share.
    Calls,
    /// The long poll's own pool, so that calls don't queue behind it.
    Poll,
}

/// The connections to one vCenter.
pub(crate) struct Http {
    calls: reqwest::Client,
    poll: reqwest::Client,
    base: String,
    shown: SeenThumbprint,
    recorder: Recorder,
    /// The maximum size of a response in bytes.
    pub longest: usize,
}

/// A call as an HTTP request. `Debug` hides headers and body, because they contain sessions and passwords.
pub(crate) struct Outgoing {
    pub method: Method,
    /// The percent-encoded path.
    pub path: String,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Vec<u8>,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({} {}, <{} bytes>)", self.method, self.path, self.body.len())
    }
}

/// An HTTP response with any status.
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Http {
    pub fn new(config: &Config) -> Result<Self> {
        let shown = SeenThumbprint::default();
        let base = config.base_url();
        let refused = |cause: String| Error::new("connect", Kind::Tls { cause, shown: None }).on(&base);
        let tls = tls::client_config(&config.trust, shown.clone()).map_err(refused)?;
        let build = || {
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(Policy::none())
                .no_proxy()
                .connect_timeout(config.connect_timeout)
                .tcp_keepalive(Duration::from_secs(30))
                .pool_idle_timeout(Duration::from_secs(45))
                .user_agent(concat!("layercake/", env!("CARGO_PKG_VERSION")))
                .http1_only()
                .build()
                .map_err(|error| refused(error.to_string()))
        };
        Ok(Self {
            calls: build()?,
            poll: build()?,
            base: base.clone(),
            shown,
            recorder: config.recorder.clone(),
            longest: config.longest_answer,
        })
    }

    /// Creates connections without TLS to a server in the test process.
    #[cfg(test)]
    pub fn plain(base: String, longest: usize) -> Self {
        let client = reqwest::Client::builder().redirect(Policy::none()).no_proxy();
        let client = client.tls_backend_preconfigured(
            tls::client_config(&crate::ServerTrust::Insecure, SeenThumbprint::default()).unwrap(),
        );
        let client = client.build().unwrap();
        let (shown, recorder) = (SeenThumbprint::default(), Recorder::default());
        Self { calls: client.clone(), poll: client, base, shown, recorder, longest }
    }

    /// Builds a request for a path on this vCenter, or for a URL from one of vCenter's responses.
    pub fn request(&self, pool: Pool, method: Method, path: &str) -> RequestBuilder {
        let client = match pool {
            Pool::Calls => &self.calls,
            Pool::Poll => &self.poll,
        };
        if path.starts_with('/') {
            client.request(method, format!("{}{path}", self.base))
        } else {
            client.request(method, path)
        }
    }

    /// Returns true if a request to this path or URL goes to the configured vCenter, with the same scheme, host and
    /// port.
    pub fn is_own(&self, path: &str) -> bool {
        path.starts_with('/') || self.compare(path, |url, own| url.origin() == own.origin())
    }

    /// Fails unless a URL from a response has the configured vCenter's scheme, which is HTTPS.
    pub fn check_scheme(&self, name: &'static str, url: &str) -> Result<()> {
        if self.compare(url, |url, own| url.scheme() == own.scheme()) {
            return Ok(());
        }
        let cause = format!("the endpoint {url} is not https");
        Err(Error::new(name, Kind::Unexpected { cause }))
    }

    fn compare(&self, url: &str, is_same: impl Fn(&Url, &Url) -> bool) -> bool {
        matches!((Url::parse(url), Url::parse(&self.base)), (Ok(url), Ok(own)) if is_same(&url, &own))
    }

    /// Builds the request that a codec has encoded.
    pub fn outgoing(&self, pool: Pool, out: Outgoing) -> RequestBuilder {
        let Outgoing { method, path, headers, body } = out;
        let request = self.request(pool, method, &path);
        let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        if body.is_empty() { request } else { request.body(body) }
    }

    /// Sends a request and reads the whole response. `name` is the call's name in errors.
    ///
    /// Fails with [`Kind::TooLarge`] and stops reading if the response exceeds `longest` bytes or the configured limit.
    /// The future is boxed only while the request is in flight, so that the futures of the many callers that wait at
    /// the gate stay small.
    pub async fn send_within(
        &self,
        name: &'static str,
        request: RequestBuilder,
        timeout: Duration,
        longest: usize,
    ) -> Result<Answer> {
        let longest = longest.min(self.longest);
        let answer = self.try_send(name, request, timeout, longest).await?;
        answer.map_err(|_beginning| Error::new(name, Kind::TooLarge { limit: longest }))
    }

    /// Like [`Http::send_within`], but if the response is too large, the inner error contains the bytes that were read.
    pub async fn try_send(
        &self,
        name: &'static str,
        request: RequestBuilder,
        timeout: Duration,
        longest: usize,
    ) -> Result<Result<Answer, Bytes>> {
        Box::pin(async {
            let asked = self.recorder.is_on().then(|| request.try_clone()?.build().ok()).flatten();
            let mut response = self.open(name, request, timeout).await?;
            let status = response.status().as_u16();
            let headers = std::mem::take(response.headers_mut());
            let body = self.read(name, response, longest).await?;
            if let (Some(asked), Ok(body)) = (&asked, &body) {
                self.recorder.forbid_session(asked.headers(), SESSION_HEADER);
                self.recorder.forbid_session(&headers, SESSION_HEADER);
                self.recorder.keep(asked, status, body);
            }
            Ok(body.map(|body| Answer { status, headers, body }))
        })
        .await
    }

    async fn open(&self, name: &'static str, request: RequestBuilder, timeout: Duration) -> Result<Response> {
        request.timeout(timeout).send().await.map_err(|error| Error::new(name, self.became(&error)))
    }

    /// Reads the body. If the body is too large, stops reading and returns the bytes read so far as the inner error.
    async fn read(
        &self,
        name: &'static str,
        mut response: Response,
        longest: usize,
    ) -> Result<Result<Bytes, Bytes>> {
        let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
        let lost = |error: reqwest::Error| Error::new(name, self.became(&error));
        let Some(first) = response.chunk().await.map_err(lost)? else { return Ok(Ok(Bytes::new())) };
        if first.len() > longest || announced.is_some_and(|length| length > longest) {
            return Ok(Err(first));
        }
        // Most responses consist of one chunk, which is returned without a copy.
        let Some(second) = response.chunk().await.map_err(lost)? else { return Ok(Ok(first)) };
        let mut body = BytesMut::with_capacity(announced.unwrap_or_default().max(first.len() + second.len()));
        body.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(chunk) = next {
            body.extend_from_slice(&chunk);
            if body.len() > longest {
                return Ok(Err(body.freeze()));
            }
            next = response.chunk().await.map_err(lost)?;
        }
        Ok(Ok(body.freeze()))
    }

    /// Classifies a failure. Distinguishes a request that was never sent from a request whose response was lost.
    fn became(&self, error: &reqwest::Error) -> Kind {
        if error.is_builder() {
            return Kind::Unexpected { cause: root_cause(error) };
        }
        if let Some(tls) = tls_error(error) {
            let shown = *self.shown.lock();
            return match tls {
                rustls::Error::InvalidCertificate(why) => {
                    Kind::Tls { cause: find_certificate_cause(why), shown }
                }
                other if error.is_connect() => Kind::Tls { cause: other.to_string(), shown: None },
                other => Kind::AnswerLost { cause: other.to_string() },
            };
        }
        if error.is_connect() {
            Kind::Unreachable { cause: root_cause(error) }
        } else if error.is_timeout() {
            Kind::TimedOut
        } else {
            Kind::AnswerLost { cause: root_cause(error) }
        }
    }
}

fn find_certificate_cause(why: &rustls::CertificateError) -> String {
    match why {
        rustls::CertificateError::ApplicationVerificationFailure => {
            "its thumbprint is not the expected one".into()
        }
        rustls::CertificateError::UnknownIssuer => "no trusted CA signed it".into(),
        rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => {
            "it has expired".into()
        }
        other => rustls::Error::InvalidCertificate(other.clone()).to_string(),
    }
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())
}

type Cause<'a> = &'a (dyn std::error::Error + 'static);

/// Returns all causes below an error, outermost first.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(error.source(), |cause| find_next_cause(*cause))
}

/// Returns the next cause. `source` on an I/O error skips the wrapped error, so the wrapped error is returned first.
fn find_next_cause(cause: Cause<'_>) -> Option<Cause<'_>> {
    match cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(content) => Some(content),
        None => cause.source(),
    }
}

/// Returns the innermost cause. The outer causes only repeat the URL.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Codec, Soap, ViJson};
    use crate::{MoRef, Object};

    #[test]
    fn debug_output_of_a_request_omits_password_and_session() {
        let login = Object::new("LoginRequestType").with("userName", "u").with("password", "hunter2");
        let manager = MoRef::new("SessionManager", "SessionManager");
        let (soap, vi_json) = (Soap { version: "8.0.3.0".into() }, ViJson { release: "8.0.3.0".into() });
        let codecs: [&dyn Codec; 2] = [&soap, &vi_json];
        for codec in codecs {
            let request = codec.encode(&manager, "Login", Some(&login), Some("session-1"));
            let (text, bytes) = (format!("{request:?}"), format!("{:?}", request.body));
            assert!(text.contains("Outgoing(POST /") && !text.contains("session-1"), "{text}");
            assert!(!text.contains("hunter2") && !text.contains(&bytes), "{text}");
        }
    }

    #[test]
    fn only_the_configured_server_is_our_own() {
        let http = Http::plain("https://vc.example:443".into(), 1);
        for own in ["/api/x", "https://vc.example/x", "https://VC.example:443/x"] {
            assert!(http.is_own(own), "{own}");
        }
        for foreign in [
            "https://vc.example:8443/x",
            "http://vc.example:443/x",
            "https://vc.example@esx.example/x",
            "https://vc.example.esx.example/x",
            "https://esx.example/https://vc.example",
            "x",
        ] {
            assert!(!http.is_own(foreign), "{foreign}");
        }
        assert!(http.check_scheme("fetch", "https://esx.example/x").is_ok());
        assert!(http.check_scheme("fetch", "http://esx.example/x").is_err());
    }
}
