//! One call of the Automation API: its two forms, how it is sent, how its answer is read.

use std::sync::Arc;
use std::time::Instant;

use bounds::printable;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value as Json, json};

use crate::fault::MESSAGE;
use crate::http::{Answer, Pool, SESSION_HEADER};
use crate::retry::{Attempt, RetryPolicy};
use crate::session::SessionHandle;
use crate::style::Form;
use crate::wire::{refused, status_refusal};
use crate::{Client, Error, Fault, Kind, Result, Value};

/// A request in the form that the server has.
pub(crate) struct Call {
    pub method: Method,
    pub path: String,
    pub body: Option<Json>,
    /// The header `Client-Token`: vCenter carries out two calls with the same one once.
    pub client_token: Option<String>,
}

impl Call {
    pub fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None, client_token: None }
    }

    pub fn post(path: String, body: Json) -> Self {
        Self { method: Method::POST, path, body: Some(body), client_token: None }
    }

    /// A call without parameters.
    pub fn post_nothing(path: String) -> Self {
        Self { method: Method::POST, path, body: None, client_token: None }
    }

    pub fn delete(path: String) -> Self {
        Self { method: Method::DELETE, path, body: None, client_token: None }
    }
}

/// What stays as it is in a part of a path.
const PLAIN: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// An id as one part of a path or as a value of a query: whatever it holds, it leads nowhere else.
///
/// A URL folds parts of dots alone, however they are written. vCenter has no such ids; what is sent names nothing.
pub(super) fn part(id: &str) -> String {
    if !id.is_empty() && id.bytes().all(|byte| byte == b'.') {
        return "~".repeat(id.len());
    }
    percent_encoding::utf8_percent_encode(id, PLAIN).to_string()
}

impl Form {
    /// The path of all things of a kind.
    pub fn all(self, kind: &str) -> String {
        match self {
            Self::Api => format!("/api/{kind}"),
            Self::Rest => format!("/rest/com/vmware/{kind}"),
        }
    }

    /// The path of one thing.
    pub fn one(self, kind: &str, id: &str) -> String {
        let prefix = if self == Self::Api { "" } else { "id:" };
        format!("{}/{prefix}{}", self.all(kind), part(id))
    }

    /// The path of an action on the thing at `path`.
    pub fn action(self, path: &str, action: &str) -> String {
        let parameter = if self == Self::Api { "action" } else { "~action" };
        format!("{path}?{parameter}={action}")
    }

    /// The body that holds one parameter; the old form wraps it in a member of that name.
    pub fn body(self, name: &str, parameter: Json) -> Json {
        match self {
            Self::Api => parameter,
            Self::Rest => json!({ name: parameter }),
        }
    }
}

/// A call that is made in the form that the server has, until it is done.
pub(super) struct AutomationCall<'a, F> {
    pub client: &'a Client,
    /// The one form that it has, whatever the server's other calls have.
    pub only: Option<Form>,
    /// Its name in errors and metrics.
    pub name: &'static str,
    pub policy: RetryPolicy,
    pub request: F,
}

impl<F: Fn(Form) -> Call + Send + Sync> Attempt for AutomationCall<'_, F> {
    type Answer = Json;

    fn repeatable(&self) -> bool {
        self.policy.repeatable
    }

    async fn open_session(&self) -> Result<SessionHandle> {
        let session = self.client.session().await?;
        self.client.inner.session.with_automation(&self.client.transport(), session).await
    }

    async fn send(&self, session: &SessionHandle) -> Result<Json> {
        let style = &self.client.inner.style;
        loop {
            let form = self.only.unwrap_or_else(|| style.form());
            let started = Instant::now();
            let call = (self.request)(form);
            let answer = send_once(self.client, self.name, self.policy, call, session).await;
            // The first answer may show that the server has the other form.
            if answer.as_ref().is_ok_and(|answer| style.learn(form, answer)) {
                continue;
            }
            let result = answer.and_then(|answer| read(self.name, form, &answer));
            count(self.client, self.name, started, &result);
            if result.is_ok() {
                self.client.inner.session.automation_works();
            }
            return result;
        }
    }

    async fn renew_session(&self, session: SessionHandle) -> Result<()> {
        if self.client.inner.session.forget_automation(token(&session)) {
            return Ok(());
        }
        self.client.renew_session(session.epoch).await.map(drop)
    }
}

/// The token that opens the Automation API.
pub(super) fn token(session: &SessionHandle) -> &Arc<str> {
    session.ticket.automation.as_ref().unwrap_or(&session.ticket.session)
}

/// Sends a request once, whatever form it has.
async fn send_once(
    client: &Client,
    name: &'static str,
    policy: RetryPolicy,
    call: Call,
    session: &SessionHandle,
) -> Result<Answer> {
    if call.method != Method::GET {
        client.config().guard.check(name)?;
    }
    let http = &client.inner.http;
    let request =
        http.request(Pool::Calls, call.method, &call.path).header(SESSION_HEADER, &**token(session));
    let request = match &call.client_token {
        Some(token) => request.header("Client-Token", token),
        None => request,
    };
    let request = match &call.body {
        Some(body) => request.json(body),
        None => request,
    };
    // No limit of its own: only that of `Config::longest_answer` applies.
    http.send_within(name, request, policy.timeout, usize::MAX).await
}

/// Counts a call and how long it took.
pub(super) fn count<T>(client: &Client, name: &'static str, started: Instant, result: &Result<T>) {
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    client.config().metrics.count(name, outcome, started.elapsed());
}

/// Decodes an answer to a request of that path.
pub(crate) fn decode_answer(path: &str, status: u16, body: &[u8]) -> Result<Json> {
    let form = if path.starts_with("/rest/") { Form::Rest } else { Form::Api };
    let answer = Answer { status, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body) };
    read("answer", form, &answer)
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
    Some(Fault { type_name, message: printable(message, MESSAGE), detail: Value::Null })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_part_of_a_path() {
        for (id, sent) in [
            ("0ae3c5a6-8c2b-4d6e-9f00-aa55aa55aa55", "0ae3c5a6-8c2b-4d6e-9f00-aa55aa55aa55"),
            ("../../session", "..%2F..%2Fsession"),
            ("x?action=sync#", "x%3Faction%3Dsync%23"),
            ("..", "~~"),
            ("a&library_id=b", "a%26library_id%3Db"),
        ] {
            assert_eq!(part(id), sent);
        }
    }

    #[test]
    fn errors_of_both_forms_are_the_same() {
        let message = json!([{ "id": "x", "default_message": "no such item", "args": [] }]);
        let api = json!({ "error_type": "NOT_FOUND", "messages": message });
        let rest =
            json!({ "type": "com.vmware.vapi.std.errors.not_found", "value": { "messages": message } });
        for body in [api, rest] {
            let answer = Answer { status: 404, headers: HeaderMap::new(), body: body.to_string().into() };
            let error = read("item", Form::Api, &answer).unwrap_err();
            assert_eq!(error.to_string(), "item: no such item (NotFound)");
            assert!(error.is_not_found());
        }
    }
}
