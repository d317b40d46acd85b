//! A single Automation API call: builds the request in the `/api` or the `/rest` form, sends it, and decodes the response.

use std::sync::Arc;
use std::time::Instant;

use bounds::printable;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value as Json, json};

use crate::fault::MESSAGE;
use crate::http::{Answer, Pool, SESSION_HEADER};
use crate::retry::{RetryPolicy, RetryableCall};
use crate::session::SessionHandle;
use crate::style::Form;
use crate::wire::{classify_status, convert_response_error};
use crate::{Client, Error, Fault, Kind, Result, Value};

/// A request in the form that the server supports (`/api` or `/rest`).
pub(crate) struct Call {
    pub method: Method,
    pub path: String,
    pub body: Option<Json>,
    /// The `Client-Token` header. vCenter executes two calls with the same token only once.
    pub client_token: Option<String>,
}

impl Call {
    pub fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None, client_token: None }
    }

    pub fn post(path: String, body: Json) -> Self {
        Self { method: Method::POST, path, body: Some(body), client_token: None }
    }

    /// Returns a POST request without a body.
    pub fn post_nothing(path: String) -> Self {
        Self { method: Method::POST, path, body: None, client_token: None }
    }

    pub fn delete(path: String) -> Self {
        Self { method: Method::DELETE, path, body: None, client_token: None }
    }
}

/// The characters that percent encoding keeps in a path segment.
const PLAIN: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes an ID as one path segment or query value, so that an ID can't change the path of a request.
///
/// URL parsers resolve `.` and `..` segments even if they are encoded. In an ID that consists only of dots, each dot is therefore
/// replaced by `~`. vCenter doesn't create IDs that consist only of dots or `~`, so the result doesn't name an object.
pub(super) fn part(id: &str) -> String {
    if !id.is_empty() && id.bytes().all(|byte| byte == b'.') {
        return "~".repeat(id.len());
    }
    percent_encoding::utf8_percent_encode(id, PLAIN).to_string()
}

impl Form {
    /// Returns the collection path of a resource kind such as `content/library`.
    pub fn all(self, kind: &str) -> String {
        match self {
            Self::Api => format!("/api/{kind}"),
            Self::Rest => format!("/rest/com/vmware/{kind}"),
        }
    }

    /// Returns the path of the object with this ID.
    pub fn one(self, kind: &str, id: &str) -> String {
        let prefix = if self == Self::Api { "" } else { "id:" };
        format!("{}/{prefix}{}", self.all(kind), part(id))
    }

    /// Returns the URL of an action on the object at `path`.
    pub fn action(self, path: &str, action: &str) -> String {
        let parameter = if self == Self::Api { "action" } else { "~action" };
        format!("{path}?{parameter}={action}")
    }

    /// Returns the body for a single parameter. In the `/rest` form, the body is an object with the parameter as its
    /// member `name`.
    pub fn body(self, name: &str, parameter: Json) -> Json {
        match self {
            Self::Api => parameter,
            Self::Rest => json!({ name: parameter }),
        }
    }
}

/// A call that is sent in the form that the server supports, and retried according to `policy`.
pub(super) struct AutomationCall<'a, F> {
    pub client: &'a Client,
    /// The form to use even if the server's other calls use the other form. If `None`, the form is detected.
    pub only: Option<Form>,
    /// The call's name in errors and metrics.
    pub name: &'static str,
    pub policy: RetryPolicy,
    pub request: F,
}

impl<F: Fn(Form) -> Call + Send + Sync> RetryableCall for AutomationCall<'_, F> {
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
            // The first response may show that the server supports only the other form.
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

/// Returns the session's Automation API token, which is the VIM session ID if both APIs share one session.
pub(super) fn token(session: &SessionHandle) -> &Arc<str> {
    session.ticket.automation.as_ref().unwrap_or(&session.ticket.session)
}

/// Sends a request once, without retries.
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
    // Only `Config::longest_answer` limits the response size.
    http.send_within(name, request, policy.timeout, usize::MAX).await
}

/// Records a call's outcome and duration in the metrics.
pub(super) fn count<T>(client: &Client, name: &'static str, started: Instant, result: &Result<T>) {
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    client.config().metrics.count(name, outcome, started.elapsed());
}

/// Decodes the response to a request for `path`. The path determines the form.
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
        // At this point, the server is known to support the form, so a 404 means that the object is missing, not the
        // path.
        None if answer.status == 404 => Err(Error::new(name, Kind::NotFound { missing: None })),
        None => Err(convert_response_error(name, classify_status(answer.status))),
    }
}

/// Reads the fault from an error body. Both `NOT_FOUND` and `com.vmware.vapi.std.errors.not_found` become `NotFound`.
/// Returns `None` if the body doesn't name an error type.
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
