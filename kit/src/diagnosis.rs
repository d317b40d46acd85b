//! The results of installation checks: one line for people, one record for programs.

use std::borrow::Borrow;

use serde::Serialize;

use crate::api_error::{message, missing_right};

/// The outcome of a check, in ascending order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The check passed.
    Ok,
    /// The check couldn't run because of another check's result.
    Skipped,
    /// The checked part works, but it is likely to cause problems.
    Warning,
    /// The checked part doesn't work.
    Error,
}

/// A check, identified by a code that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Check {
    /// The code, such as `LC0301`: two digits for the subject, two for the check.
    pub code: &'static str,
    /// The statement that is true if the check succeeds.
    pub title: &'static str,
}

impl Check {
    /// Creates a check from a code such as `LC0301`, and the statement that is true if the check succeeds.
    pub const fn new(code: &'static str, title: &'static str) -> Self {
        Self { code, title }
    }

    /// Returns the diagnosis for a check that passed. `found` says what was checked.
    pub fn ok(self, found: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: CheckOutcome::Ok, found: found.into(), remedy: String::new() }
    }

    /// Returns the diagnosis for a part that works but is likely to cause problems. `found` describes the finding, and `remedy`
    /// the action to take.
    pub fn warning(self, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: CheckOutcome::Warning, found: found.into(), remedy: remedy.into() }
    }

    /// Returns the diagnosis for a part that doesn't work. `found` describes the finding, and `remedy` the action to take.
    pub fn error(self, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: CheckOutcome::Error, found: found.into(), remedy: remedy.into() }
    }

    /// Returns the value in `answer`. If the read failed, the error is the diagnosis that the check was skipped because the
    /// objects that `what` names can't be read.
    pub fn read<T, E: Borrow<kube::Error>>(self, what: &str, answer: Result<T, E>) -> Result<T, Diagnosis> {
        answer.map_err(|error| self.skipped(unreadable(what, error.borrow())))
    }

    /// Returns the diagnosis for a failed read of the objects that `what` names: skipped if the user lacks the
    /// right to read them, otherwise an error.
    pub fn unread(self, what: &str, error: &kube::Error) -> Diagnosis {
        let found = unreadable(what, error);
        match missing_right(&message(error)) {
            Some(_) => self.skipped(found),
            None => self.error(found, "Check that the API server works, and run the command again"),
        }
    }

    /// Returns the diagnosis for a check that couldn't run. `found` says why.
    pub fn skipped(self, found: impl Into<String>) -> Diagnosis {
        Diagnosis { check: self, outcome: CheckOutcome::Skipped, found: found.into(), remedy: String::new() }
    }
}

/// Returns one sentence that says why objects can't be read.
fn unreadable(what: &str, error: &kube::Error) -> String {
    let message = message(error);
    format!("{what} cannot be read: {}", missing_right(&message).unwrap_or(&message))
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The check that was run or skipped.
    #[serde(flatten)]
    pub check: Check,
    /// The outcome of the check.
    pub outcome: CheckOutcome,
    /// The finding, with the object's name.
    pub found: String,
    /// The action to take. Empty if the check passed or was skipped.
    pub remedy: String,
}
