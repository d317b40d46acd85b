//! The Automation API: content libraries, their OVF items, and cluster modules.
//!
//! The calls exist in two forms. `/api` (7.0 and later) uses plain JSON. `/rest` wraps response bodies in `value` and
//! encodes IDs and actions differently. The first call detects which form the server supports.

mod call;
mod capture;
mod library;
mod modules;
mod ovf;
mod upload;

pub(crate) use call::decode_answer;
pub use capture::Capture;
pub use library::{Library, LibraryItem};
pub use modules::ClusterModule;
pub use ovf::{Deploy, OvfProvisioning};
pub use upload::{
    FileStatus, ItemFile, NewFile, NewItem, UpdateFile, UpdateSession, UpdateState, Validation,
};

use std::sync::Arc;
use std::time::Instant;

use bounds::Turn;
use reqwest::Method;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use self::call::{AutomationCall, Call, count, token};
use crate::gate::CallGate;
use crate::http::{Pool, SESSION_HEADER};
use crate::retry::{RetryPolicy, call_until_done};
use crate::style::Form;
use crate::wire::{classify_status, convert_response_error};
use crate::{Client, Error, Kind, Result};

impl Client {
    /// Sends an Automation API call. Errors and metrics report the call as `name`.
    pub(crate) async fn automation<T: DeserializeOwned>(
        &self,
        name: &'static str,
        policy: RetryPolicy,
        call: impl Fn(Form) -> Call + Send + Sync,
    ) -> Result<T> {
        self.automation_at(&self.inner.gate, None, name, policy, call).await
    }

    /// Sends a call that may take hours. The call holds the caller's lane slot instead of a slot in the gate for short
    /// calls.
    pub(crate) async fn long_automation<T: DeserializeOwned>(
        &self,
        _turn: &Turn,
        name: &'static str,
        policy: RetryPolicy,
        call: impl Fn(Form) -> Call + Send + Sync,
    ) -> Result<T> {
        self.automation_at(&self.inner.long_calls, None, name, policy, call).await
    }

    /// Sends a call through `gate`. If `only` is set, the call uses this form even if the server's other calls use the other
    /// form.
    async fn automation_at<T: DeserializeOwned>(
        &self,
        gate: &Arc<CallGate>,
        only: Option<Form>,
        name: &'static str,
        policy: RetryPolicy,
        call: impl Fn(Form) -> Call + Send + Sync,
    ) -> Result<T> {
        let span = tracing::debug_span!("vcenter", method = name);
        let call = AutomationCall { client: self, only, name, policy, request: call };
        let body = call_until_done(gate, &call).instrument(span).await?;
        serde_json::from_value(body).map_err(|error| {
            Error::new(name, Kind::Unexpected { cause: format!("unreadable JSON: {error}") })
        })
    }

    pub(crate) fn reading(&self) -> RetryPolicy {
        RetryPolicy { timeout: self.config().call_timeout, repeatable: true }
    }

    pub(crate) fn once_only(&self) -> RetryPolicy {
        RetryPolicy { timeout: self.config().call_timeout, repeatable: false }
    }

    /// Downloads a file that a download session has prepared. Fails if the file exceeds `longest` bytes.
    ///
    /// The URL itself authorizes the download. It may point to a host other than vCenter, so the session token is
    /// sent only if the URL's origin is vCenter.
    pub(crate) async fn fetch(&self, url: &str, longest: usize) -> Result<Vec<u8>> {
        const NAME: &str = "fetch";
        let http = &self.inner.http;
        let mut request = http.request(Pool::Calls, Method::GET, url);
        if http.is_own(url) {
            let session = self.session().await?;
            let session = self.inner.session.with_automation(&self.transport(), session).await?;
            request = request.header(SESSION_HEADER, &**token(&session));
        } else {
            http.check_scheme(NAME, url)?;
        }
        let started = Instant::now();
        let answer = http.send_within(NAME, request, self.config().call_timeout, longest).await;
        let result = answer.and_then(|answer| match answer.status {
            200 => Ok(answer.body.into()),
            status => Err(convert_response_error(NAME, classify_status(status))),
        });
        count(self, NAME, started, &result);
        result
    }
}
