//! The client of the control API, and how it calls.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::Error;

/// The time for an answer. A simulator that hangs shall not keep its caller waiting for ever.
const ANSWER: Duration = Duration::from_mins(3);

/// A client of the control API.
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
    /// A client for the control API at `base` (`http://127.0.0.1:PORT`).
    pub fn new(base: &str, token: &str) -> Self {
        // Somebody else's provider serves as well.
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

    /// Calls what answers with one member, which is called `member`, and returns its value.
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
