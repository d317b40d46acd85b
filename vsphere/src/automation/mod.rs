//! The Automation API: content libraries and the OVF items in them, cluster modules, tags.
//!
//! The same calls have two forms. `/api` (7.0 and later) speaks plain JSON; `/rest` wraps answers in
//! `value` and writes ids and actions differently. The first call finds out which one the server has.

mod capture;
mod library;
mod modules;
mod ovf;
mod style;
mod tags;

pub use capture::Capture;
pub use library::{Library, LibraryItem};
pub use modules::ClusterModule;
pub use ovf::{Deploy, Provisioning};
pub(crate) use style::{Form, Style};
pub use tags::{Category, Tag};

use std::time::{Duration, Instant};

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tracing::Instrument;

use crate::client::{again, pause};
use crate::http::{Answer, Pool, SESSION_HEADER};
use crate::session::refused;
use crate::wire::status_refusal;
use crate::{Client, Error, Fault, Kind, Result, Value};

/// One call in the form that the server has.
pub(crate) struct Call {
    pub method: Method,
    pub path: String,
    pub body: Option<Json>,
}

impl Call {
    pub fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None }
    }

    pub fn post(path: String, body: Json) -> Self {
        Self { method: Method::POST, path, body: Some(body) }
    }

    pub fn delete(path: String) -> Self {
        Self { method: Method::DELETE, path, body: None }
    }
}

/// How patient a call is and whether it may be repeated.
#[derive(Clone, Copy)]
pub(crate) struct RetryPolicy {
    pub timeout: Duration,
    pub repeatable: bool,
}

impl Client {
    /// Makes a call of the Automation API; `name` is its name in errors and metrics.
    pub(crate) async fn automation<T: DeserializeOwned>(
        &self,
        name: &'static str,
        manner: RetryPolicy,
        call: impl Fn(Form) -> Call,
    ) -> Result<T> {
        self.automation_in(None, name, manner, call).await
    }

    /// Makes a call that has one form only, whatever the server's others have.
    pub(crate) async fn automation_in<T: DeserializeOwned>(
        &self,
        only: Option<Form>,
        name: &'static str,
        manner: RetryPolicy,
        call: impl Fn(Form) -> Call,
    ) -> Result<T> {
        let span = tracing::debug_span!("vcenter", method = name);
        let body = self.automate(only, name, manner, call).instrument(span).await?;
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

    async fn automate(
        &self,
        only: Option<Form>,
        name: &'static str,
        manner: RetryPolicy,
        call: impl Fn(Form) -> Call,
    ) -> Result<Json> {
        let mut attempt = 0;
        let mut renewed = false;
        loop {
            let live = self.live().await?;
            let live = self.inner.session.with_automation(&self.line(), live).await?;
            let token = live.ticket.automation.clone().unwrap_or_else(|| live.ticket.session.clone());
            let form = only.unwrap_or_else(|| self.inner.style.form());
            let permit = self.inner.gate.enter().await;
            let started = Instant::now();
            let answer = self.automate_once(name, manner, call(form), &token).await;
            if let Ok(answer) = &answer
                && self.inner.style.learn(form, answer)
            {
                continue;
            }
            let result = answer.and_then(|answer| read(name, form, &answer));
            self.counted(name, started, &result);
            let error = match result {
                Ok(body) => {
                    permit.succeeded();
                    self.inner.session.automation_works();
                    return Ok(body);
                }
                Err(error) if *error.kind() == Kind::Overloaded => {
                    permit.overloaded(Instant::now());
                    error
                }
                Err(error) => {
                    drop(permit);
                    error
                }
            };
            if *error.kind() == Kind::NotAuthenticated && !renewed {
                renewed = true;
                if !self.inner.session.forget_automation(&token) {
                    self.renew(live.epoch).await?;
                }
                continue;
            }
            attempt += 1;
            if attempt >= 5 || !again(&error, manner.repeatable) {
                return Err(error);
            }
            tokio::time::sleep(pause(attempt)).await;
        }
    }

    async fn automate_once(
        &self,
        name: &'static str,
        manner: RetryPolicy,
        call: Call,
        token: &str,
    ) -> Result<Answer> {
        let request =
            self.inner.http.request(Pool::Calls, call.method, &call.path).header(SESSION_HEADER, token);
        let request = match &call.body {
            Some(body) => request.json(body),
            None => request,
        };
        self.inner.http.send(name, request, manner.timeout).await
    }

    fn counted<T>(&self, name: &'static str, started: Instant, result: &Result<T>) {
        let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
        self.config().metrics.count(name, outcome, started.elapsed());
    }

    /// Fetches a file that a download session has prepared.
    pub(crate) async fn fetch(&self, url: &str) -> Result<Vec<u8>> {
        let live = self.live().await?;
        let live = self.inner.session.with_automation(&self.line(), live).await?;
        let token = live.ticket.automation.unwrap_or(live.ticket.session);
        let started = Instant::now();
        let answer = self.automate_once("fetch", self.reading(), Call::get(url.to_owned()), &token).await;
        let result = answer.and_then(|answer| match answer.status {
            200 => Ok(answer.body.to_vec()),
            status => Err(refused("fetch", status_refusal(status))),
        });
        self.counted("fetch", started, &result);
        result
    }
}

fn read(name: &'static str, form: Form, answer: &Answer) -> Result<Json> {
    if (200..300).contains(&answer.status) {
        if answer.body.is_empty() {
            return Ok(Json::Null);
        }
        let mut body: Json =
            serde_json::from_slice(&answer.body).map_err(|_| Error::new(name, Kind::Overloaded))?;
        return Ok(match form {
            Form::Api => body,
            Form::Rest => body.get_mut("value").map(Json::take).unwrap_or_default(),
        });
    }
    match serde_json::from_slice::<Json>(&answer.body).ok().as_ref().and_then(fault) {
        Some(fault) if answer.status == 401 || fault.type_name == "Unauthenticated" => {
            Err(Error::from_fault(name, Fault { type_name: "NotAuthenticated".into(), ..fault }))
        }
        Some(fault) => Err(Error::from_fault(name, fault)),
        // The form is known by now, so it is the thing that is missing and not the path.
        None if answer.status == 404 => Err(Error::new(name, Kind::NotFound { missing: None })),
        None => Err(refused(name, status_refusal(answer.status))),
    }
}

/// `NOT_FOUND` and `com.vmware.vapi.std.errors.not_found` are both read as `NotFound`.
fn fault(body: &Json) -> Option<Fault> {
    let name = body["error_type"].as_str().or_else(|| body["type"].as_str()?.rsplit('.').next())?;
    let type_name = name
        .split('_')
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map_or_else(String::new, |first| {
                first.to_uppercase().chain(letters.flat_map(char::to_lowercase)).collect()
            })
        })
        .collect();
    let messages = body.get("messages").or_else(|| body["value"].get("messages"));
    let message = messages.and_then(|messages| messages[0]["default_message"].as_str()).unwrap_or_default();
    Some(Fault { type_name, message: message.to_owned(), detail: Value::Null })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_both_forms_are_the_same() {
        let message = json!([{ "id": "x", "default_message": "no such item", "args": [] }]);
        let api = json!({ "error_type": "NOT_FOUND", "messages": message });
        let rest =
            json!({ "type": "com.vmware.vapi.std.errors.not_found", "value": { "messages": message } });
        for body in [api, rest] {
            let answer = Answer {
                status: 404,
                headers: reqwest::header::HeaderMap::new(),
                body: body.to_string().into(),
            };
            let error = read("item", Form::Api, &answer).unwrap_err();
            assert_eq!(error.to_string(), "item: no such item (NotFound)");
            assert!(error.is_not_found());
        }
    }
}
