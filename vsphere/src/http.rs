//! Bytes to vCenter and back, and what became of them when they are lost.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder};

use crate::config::Config;
use crate::tls::{self, SeenThumbprint};
use crate::{Error, Kind, Result};

/// The token of a session travels in this header, both ways.
pub(crate) const SESSION_HEADER: &str = "vmware-api-session-id";

/// Which connections carry a request.
#[derive(Clone, Copy)]
pub(crate) enum Pool {
    /// Shared by all calls.
    Calls,
    /// The long poll's own, so that no call waits behind it.
    Poll,
}

/// The connections to one vCenter.
pub(crate) struct Http {
    calls: reqwest::Client,
    poll: reqwest::Client,
    base: String,
    shown: SeenThumbprint,
}

/// One call as an HTTP request.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub method: Method,
    /// Path, escaped.
    pub path: String,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Vec<u8>,
}

/// An answer, whatever its status.
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
        Ok(Self { calls: build()?, poll: build()?, base: base.clone(), shown })
    }

    /// Connections without TLS, to a server of this process.
    #[cfg(test)]
    pub fn plain(base: String) -> Self {
        let client = reqwest::Client::builder().redirect(Policy::none()).no_proxy();
        let client = client.tls_backend_preconfigured(
            tls::client_config(&crate::Trust::Insecure, SeenThumbprint::default()).unwrap(),
        );
        let client = client.build().unwrap();
        Self { calls: client.clone(), poll: client, base, shown: SeenThumbprint::default() }
    }

    /// A request to a path of this vCenter, or to a URL that vCenter gave.
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

    /// A request as a codec made it.
    pub fn outgoing(&self, pool: Pool, out: Outgoing) -> RequestBuilder {
        let Outgoing { method, path, headers, body } = out;
        let request = self.request(pool, method, &path);
        let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        if body.is_empty() { request } else { request.body(body) }
    }

    /// Sends it and reads the whole answer. `name` is the call's name in errors.
    ///
    /// What this takes is on the heap while it is sent, and not before: many wait for their turn.
    pub async fn send(
        &self,
        name: &'static str,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Answer> {
        Box::pin(self.answered(name, request, timeout)).await
    }

    async fn answered(
        &self,
        name: &'static str,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Answer> {
        let lost = |error: &reqwest::Error| Error::new(name, self.became(error));
        let mut response = request.timeout(timeout).send().await.map_err(|error| lost(&error))?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let body = response.bytes().await.map_err(|error| lost(&error))?;
        Ok(Answer { status, headers, body })
    }

    /// Distinguishes a request that never left from one whose answer was lost.
    fn became(&self, error: &reqwest::Error) -> Kind {
        if error.is_builder() {
            return Kind::Unexpected { cause: root_cause(error) };
        }
        if let Some(tls) = tls_error(error) {
            let shown = *self.shown.lock();
            return match tls {
                rustls::Error::InvalidCertificate(why) => Kind::Tls { cause: certificate_cause(why), shown },
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

fn certificate_cause(why: &rustls::CertificateError) -> String {
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

/// Every cause below an error.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(error.source(), |cause| below(*cause))
}

/// The source of an I/O error is its content's source, so its content is taken first.
fn below(cause: Cause<'_>) -> Option<Cause<'_>> {
    match cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(content) => Some(content),
        None => cause.source(),
    }
}

/// The innermost cause: the outer ones only repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
