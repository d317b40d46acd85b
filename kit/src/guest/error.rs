//! Why a call of a guest came to nothing.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bounds::printable;
use serde::Deserialize;

use super::few::Few;

/// The most characters of a text that the guest has a part in.
const MAX_TEXT: usize = 400;
/// The most causes of a refusal that are looked at.
const MAX_CAUSES: usize = 64;

/// In the place of a status: the answer is larger than it may be. No server's status is.
const TOO_LARGE: u16 = 1;

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// Nobody answers, or nobody knows us: nothing else will succeed either.
    #[error("the cluster's API server does not answer: {0}")]
    Unreachable(String),
    /// The API server does not take this one, or its answer is not believed.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What the API server says of a request that it does not carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP; less than 100 where it is not the API server that refuses.
    pub code: u16,
    /// What is wrong: one line, and not long.
    pub message: String,
    /// Whether all that is wrong is a change of what can't be changed.
    pub is_immutable: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Refusal {}

/// What is read of a `Status`.
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

impl Refusal {
    /// A refusal in words of our own, or of others.
    pub fn new(message: &str) -> Self {
        Self { message: bounded(message), ..Self::default() }
    }

    /// An answer that has more bytes than are read.
    pub(super) fn too_large(most: usize) -> Self {
        Self { code: TOO_LARGE, ..Self::new(&format!("its answer has more than {most} bytes")) }
    }

    /// Whether it is the answer that is too large.
    pub(super) fn is_too_large(&self) -> bool {
        self.code == TOO_LARGE
    }

    /// The refusal in an answer of this status.
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

    /// A request that was not answered, by its first cause.
    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        let mut first = error;
        while let Some(cause) = first.source() {
            first = cause;
        }
        Self::Unreachable(bounded(&first.to_string()))
    }
}

/// A text that others had a part in, as messages may hold it: one line, printable, and not long.
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
        let message = Refusal::read(403, json!({ "message": text }).to_string().as_bytes()).message;
        assert!(message.starts_with("a b ") && message.ends_with('…'));
        assert_eq!(message.chars().count(), MAX_TEXT + 1);
        assert!(!message.contains(char::is_control));
        assert_eq!(Refusal::read(500, b"[0,0").message, "it answers with status 500");
    }

    #[test]
    fn only_changes_of_what_cant_be_changed_count_as_such() {
        let causes = |all: &[&str]| {
            let causes: Vec<_> = all.iter().map(|message| json!({ "message": message })).collect();
            json!({"message": "m", "details": {"causes": causes}}).to_string()
        };
        let immutable = causes(&["field is immutable", "updates are forbidden"]);
        assert!(Refusal::read(422, immutable.as_bytes()).is_immutable);
        assert!(!Refusal::read(400, immutable.as_bytes()).is_immutable);
        assert!(!Refusal::read(422, causes(&["is immutable", "is required"]).as_bytes()).is_immutable);
        assert!(!Refusal::read(422, causes(&[]).as_bytes()).is_immutable);
    }
}
