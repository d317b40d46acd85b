//! Detects the Automation API form that the server supports: `/api` or `/rest`.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::config::PathStyle;
use crate::http::Answer;

/// The Automation API form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Api,
    Rest,
}

/// The server's Automation API form, as far as it is known.
pub(crate) struct Style(AtomicU8);

const UNKNOWN: u8 = 0;
const API: u8 = 1;
const REST: u8 = 2;

impl Style {
    pub fn new(style: PathStyle) -> Self {
        Self(AtomicU8::new(match style {
            PathStyle::Auto => UNKNOWN,
            PathStyle::Api => API,
            PathStyle::Rest => REST,
        }))
    }

    pub fn form(&self) -> Form {
        if self.0.load(Ordering::Relaxed) == REST { Form::Rest } else { Form::Api }
    }

    /// Learns the form from a response. Returns true if the call must be repeated in the `/rest` form.
    pub fn learn(&self, form: Form, answer: &Answer) -> bool {
        if form == Form::Rest || self.0.load(Ordering::Relaxed) == API {
            return false;
        }
        let missing = lacks_api(answer);
        if missing {
            self.0.store(REST, Ordering::Relaxed);
        } else if answer.status < 300 {
            self.0.store(API, Ordering::Relaxed);
        }
        missing
    }
}

/// Returns true if the response to an `/api` request shows that the server supports only `/rest`.
///
/// Only the API itself sends an `error_type`: a redirect, a 404 or a 405 without it means that `/api` doesn't exist.
pub(crate) fn lacks_api(answer: &Answer) -> bool {
    matches!(answer.status, 301 | 302 | 307 | 308 | 404 | 405)
        && !answer.body.windows(10).any(|window| window == b"error_type")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> Answer {
        Answer { status, headers: reqwest::header::HeaderMap::new(), body: body.into() }
    }

    #[test]
    fn a_server_without_api_is_asked_the_old_way() {
        let style = Style::new(PathStyle::Auto);
        assert!(!style.learn(Form::Api, &answer(503, "")));
        assert!(style.learn(Form::Api, &answer(404, "404 page not found")));
        assert_eq!(style.form(), Form::Rest);
        assert!(!style.learn(Form::Rest, &answer(404, "")));
    }

    #[test]
    fn what_does_not_exist_is_no_reason_to_change() {
        let style = Style::new(PathStyle::Auto);
        assert!(!style.learn(Form::Api, &answer(404, r#"{"error_type":"NOT_FOUND"}"#)));
        assert!(!style.learn(Form::Api, &answer(200, "[]")));
        assert!(!style.learn(Form::Api, &answer(404, "404 page not found")));
        assert_eq!(style.form(), Form::Api);
    }
}
