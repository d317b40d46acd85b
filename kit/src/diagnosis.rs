//! What a check of an installation found: one line for people, one record for programs.

use std::borrow::Borrow;

use serde::Serialize;

use crate::api_error::{message, missing_right};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// What was looked at is as it must be.
    Ok,
    /// It could not be looked at, because of what another check found.
    Skipped,
    /// It works, and something about it is likely to hurt.
    Warning,
    /// Something does not work.
    Error,
}

/// A check that there is: what it looks at, and its code, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Check {
    /// Such as `LC0301`: two digits for the subject, two for the check.
    pub code: &'static str,
    /// What is the case if it finds nothing wrong.
    pub title: &'static str,
}

impl Check {
    /// A check by its code and what is the case if it finds nothing wrong.
    pub const fn new(code: &'static str, title: &'static str) -> Self {
        Self { code, title }
    }

    /// Nothing is wrong; `found` is what was looked at.
    pub fn ok(self, found: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: Outcome::Ok, found: found.into(), remedy: String::new() }
    }

    /// It works, and something about it is likely to hurt.
    pub fn warning(self, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: Outcome::Warning, found: found.into(), remedy: remedy.into() }
    }

    /// Something does not work.
    pub fn error(self, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: Outcome::Error, found: found.into(), remedy: remedy.into() }
    }

    /// What was read, or that without it the check could not look at anything.
    pub fn read<T, E: Borrow<kube::Error>>(self, what: &str, answer: Result<T, E>) -> Result<T, Diagnosis> {
        answer.map_err(|error| self.skipped(unreadable(what, error.borrow())))
    }

    /// The objects `what` could not be read. That is wrong, unless the user only lacks the right to read them.
    pub fn unread(self, what: &str, error: &kube::Error) -> Diagnosis {
        let found = unreadable(what, error);
        match missing_right(&message(error)) {
            Some(_) => self.skipped(found),
            None => self.error(found, "Check that the API server works, and run the command again"),
        }
    }

    /// It could not be looked at; `found` is why.
    pub fn skipped(self, found: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: Outcome::Skipped, found: found.into(), remedy: String::new() }
    }
}

/// Why objects cannot be read, in one sentence.
fn unreadable(what: &str, error: &kube::Error) -> String {
    let message = message(error);
    format!("{what} cannot be read: {}", missing_right(&message).unwrap_or(&message))
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The check.
    #[serde(flatten)]
    pub check: Check,
    /// How it came out.
    pub outcome: Outcome,
    /// What was found, with the object's name.
    pub found: String,
    /// What to do; empty where there is nothing to do.
    pub remedy: String,
}
