//! The login and logout calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use tracing::Instrument;

use super::ticket::SessionTokens;
use crate::config::Credentials;
use crate::error::unexpected;
use crate::http::{Answer, Http, Pool, SESSION_HEADER, SHORT_ANSWER};
use crate::style::lacks_api;
use crate::wire::{Codec, classify_status, convert_response_error};
use crate::{CallMetrics, Error, Kind, MoRef, Object, Result};

/// The path for Automation API sessions.
const SESSION: &str = "/api/session";
/// The path for Automation API sessions on servers before 7.0 U2.
const OLD_SESSION: &str = "/rest/com/vmware/cis/session";

/// The connection that logins and logouts use.
pub(crate) struct LoginConnection<'a> {
    pub http: &'a Http,
    pub codec: &'a dyn Codec,
    pub timeout: Duration,
    pub metrics: &'a CallMetrics,
}

impl LoginConnection<'_> {
    /// Opens a VIM API session and returns it in the codec's format.
    pub(super) async fn log_in(&self, manager: &MoRef, credentials: &Credentials) -> Result<Arc<str>> {
        let opened = async {
            let args = Object::new("LoginRequestType")
                .with("userName", &credentials.username)
                .with("password", credentials.password.expose());
            let out = self.codec.encode(manager, "Login", Some(&args), None);
            let answer = self.send("Login", self.http.outgoing(Pool::Calls, out)).await?;
            let decoded = self.codec.decode(answer.status, &answer.body);
            decoded.map_err(|refusal| match convert_response_error("Login", refusal) {
                // A login can't lose a session, so the credentials were rejected.
                error if *error.kind() == Kind::NotAuthenticated => Error::new("Login", Kind::InvalidLogin),
                error => error,
            })?;
            let opened = self.codec.opened(&answer.headers);
            opened.ok_or_else(|| unexpected("Login", "no session in the answer"))
        };
        self.counted("Login", opened).await.map_err(|error| error.on(&credentials.username))
    }

    /// Opens an Automation API session and returns its token.
    pub(super) async fn log_in_to_automation(&self, credentials: &Credentials) -> Result<Arc<str>> {
        let attempt = async |path: &'static str| {
            let request = self.http.request(Pool::Calls, Method::POST, path);
            let request = request.basic_auth(&credentials.username, Some(credentials.password.expose()));
            self.send("session create", request).await
        };
        let opened = async {
            let answer = attempt(SESSION).await?;
            if lacks_api(&answer) {
                return read_token(&attempt(OLD_SESSION).await?, "value");
            }
            read_token(&answer, "")
        };
        self.counted("session create", opened).await.map_err(|error| error.on(&credentials.username))
    }

    /// Ends a session and, if the Automation API uses a separate session, that session first. Failures are ignored,
    /// because unused sessions expire.
    pub(super) async fn log_out(&self, manager: &MoRef, ticket: SessionTokens) {
        if ticket.apart
            && let Some(token) = &ticket.automation
        {
            let end = async |path| {
                let request = self.http.request(Pool::Calls, Method::DELETE, path);
                self.send("session delete", request.header(SESSION_HEADER, token.as_ref())).await
            };
            let ended = async {
                let answer = end(SESSION).await?;
                if lacks_api(&answer) { end(OLD_SESSION).await } else { Ok(answer) }
            };
            drop(self.counted("session delete", ended).await);
        }
        let out = self.codec.encode(manager, "Logout", None, Some(&ticket.session));
        let ended = self.send("Logout", self.http.outgoing(Pool::Calls, out));
        drop(self.counted("Logout", ended).await);
    }

    async fn send(&self, method: &'static str, request: RequestBuilder) -> Result<Answer> {
        self.http.send_within(method, request, self.timeout, SHORT_ANSWER).await
    }

    async fn counted<T>(&self, method: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let started = Instant::now();
        let result = call.instrument(tracing::debug_span!("vcenter", method)).await;
        let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
        self.metrics.count(method, outcome, started.elapsed());
        result
    }
}

fn read_token(answer: &Answer, field: &str) -> Result<Arc<str>> {
    match answer.status {
        200 | 201 => {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let token = if field.is_empty() { &body } else { &body[field] };
            token.as_str().map(Arc::from).ok_or_else(|| unexpected("Login", "no token in the answer"))
        }
        401 => Err(Error::new("Login", Kind::InvalidLogin)),
        status => Err(convert_response_error("Login", classify_status(status))),
    }
}
