//! The HTTP client for the control API.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::Error;

/// The request timeout, so that a hanging simulator doesn't block its caller forever.
const ANSWER: Duration = Duration::from_mins(3);

/// A client for the control API.
#[derive(Clone)]
pub struct ControlApi {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl std::fmt::Debug for ControlApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlApi").field("base", &self.base).finish_non_exhaustive()
    }
}

impl ControlApi {
    /// Creates a client for the control API at `base` (`http://127.0.0.1:PORT`) that authenticates with `token`.
    pub fn new(base: &str, token: &str) -> Self {
        // Fails if a provider is already installed. Any provider works, so ignore that.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(ANSWER).build().unwrap_or_default();
        Self { http, base: base.trim_end_matches('/').to_owned(), token: token.to_owned() }
    }

    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, Error> {
        let call = format!("{method} {path}");
        let answer = self.answer(method, path, body, &call).await?;
        answer.json().await.map_err(|source| Error::Unreachable { call, source: source.without_url() })
    }

    /// Sends a request whose response is an object, and returns the value of its field `member`.
    pub(super) async fn call_for_one<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        member: &str,
    ) -> Result<T, Error> {
        let call = format!("{method} {path}");
        let mut members: BTreeMap<String, T> = self.call(method, path, body).await?;
        members.remove(member).ok_or_else(|| Error::Missing { call, member: member.to_owned() })
    }

    pub(super) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<(), Error> {
        let call = format!("{method} {path}");
        self.answer(method, path, body, &call).await.map(drop)
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        call: &str,
    ) -> Result<reqwest::Response, Error> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let call = call.to_owned();
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(source) => return Err(Error::Unreachable { call, source: source.without_url() }),
        };
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => Err(Error::NotFound { call }),
            status => Err(Error::Refused { call, status, message: answer.text().await.unwrap_or_default() }),
        }
    }
}
