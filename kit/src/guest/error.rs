//! The errors that calls to a guest return.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bounds::printable;
use serde::Deserialize;

use super::few::Few;

/// The maximum length, in characters, of text that the guest can influence.
const MAX_TEXT: usize = 400;
/// The maximum number of causes that are read from a refusal's `Status`.
const MAX_CAUSES: usize = 64;

/// The code for a response that is too large. Servers don't use this code as a status.
const TOO_LARGE: u16 = 1;

/// The reasons why a call fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// The API server doesn't respond or doesn't accept the credentials, so other calls will fail too.
    #[error("the cluster's API server does not answer: {0}")]
    Unreachable(String),
    /// The API server refuses this request, or its response is too large or invalid.
    #[error(transparent)]
    Refused(#[from] ApiRejection),
}

/// The reason why the API server doesn't carry out a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiRejection {
    /// The HTTP status. It is less than 100 if the refusal doesn't come from the API server.
    pub code: u16,
    /// The message: one line, with a limited length.
    pub message: String,
    /// True if the causes in the response indicate that the request fails only because it changes immutable fields.
    pub is_immutable: bool,
}

impl fmt::Display for ApiRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ApiRejection {}

/// The fields that are read from a `Status`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusAnswer {
    message: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Few<Cause, MAX_CAUSES>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    message: String,
}

impl ApiRejection {
    /// Creates a refusal with this message and without an HTTP status.
    pub fn new(message: &str) -> Self {
        Self { message: bounded(message), ..Self::default() }
    }

    /// Creates the refusal for a response with more than `most` bytes.
    pub(super) fn too_large(most: usize) -> Self {
        Self { code: TOO_LARGE, ..Self::new(&format!("its answer has more than {most} bytes")) }
    }

    /// Returns true if the response was too large.
    pub(super) fn is_too_large(&self) -> bool {
        self.code == TOO_LARGE
    }

    /// Reads the refusal from an error response with the status `code`. `answer` is the body.
    pub(super) fn read(code: u16, answer: &[u8]) -> Self {
        let status: StatusAnswer = serde_json::from_slice(answer).unwrap_or_default();
        let message = match status.message.trim() {
            "" => format!("it answers with status {code}"),
            message => bounded(message),
        };
        let causes = status.details.map(|details| details.causes.0).unwrap_or_default();
        let of_change = |cause: &Cause| ["immutable", "forbidden"].iter().any(|w| cause.message.contains(w));
        let is_immutable = code == 422 && !causes.is_empty() && causes.iter().all(of_change);
        Self { code, message, is_immutable }
    }
}

impl GuestError {
    pub(super) fn late(deadline: Duration) -> Self {
        Self::Unreachable(format!("no answer within {} s", deadline.as_secs()))
    }

    /// Creates the error for a request without a response. The message is the root cause in `error`.
    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        let mut first = error;
        while let Some(cause) = first.source() {
            first = cause;
        }
        Self::Unreachable(bounded(&first.to_string()))
    }
}

/// Returns untrusted text in a form that is safe in messages: one printable line with a limited length.
pub fn bounded(text: &str) -> String {
    printable(text, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_guests_words_are_short_and_on_one_line() {
        let text = format!("a\nb\u{1b}[31m{}", "é".repeat(10_000));
        let message = ApiRejection::read(403, json!({ "message": text }).to_string().as_bytes()).message;
        assert!(message.starts_with("a b ") && message.ends_with('…'));
        assert_eq!(message.chars().count(), MAX_TEXT + 1);
        assert!(!message.contains(char::is_control));
        assert_eq!(ApiRejection::read(500, b"[0,0").message, "it answers with status 500");
    }

    #[test]
    fn only_changes_of_what_cant_be_changed_count_as_such() {
        let causes = |all: &[&str]| {
            let causes: Vec<_> = all.iter().map(|message| json!({ "message": message })).collect();
            json!({"message": "m", "details": {"causes": causes}}).to_string()
        };
        let immutable = causes(&["field is immutable", "updates are forbidden"]);
        assert!(ApiRejection::read(422, immutable.as_bytes()).is_immutable);
        assert!(!ApiRejection::read(400, immutable.as_bytes()).is_immutable);
        assert!(!ApiRejection::read(422, causes(&["is immutable", "is required"]).as_bytes()).is_immutable);
        assert!(!ApiRejection::read(422, causes(&[]).as_bytes()).is_immutable);
    }
}
