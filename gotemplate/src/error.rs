//! What is wrong with a template, and where.

use std::fmt;

use bounds::Exceeded;

use crate::functions::{Failure, Reason};

/// What is wrong with a template, and where.
///
/// An error is reported where more people read than may read the template, such as in conditions and events. So it quotes
/// neither the template nor its data: no name, no string, no number of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: Reason,
    /// The bound that it exceeds there, if that is what is wrong.
    pub exceeded: Option<Exceeded>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Error {}

/// What is wrong at a byte of the text.
#[derive(Debug)]
pub(crate) struct Fault {
    at: usize,
    what: Reason,
    exceeded: Option<Exceeded>,
}

impl Fault {
    pub(crate) fn new(at: usize, what: impl Into<Reason>) -> Self {
        Self { at, what: what.into(), exceeded: None }
    }

    pub(crate) fn exceeded(at: usize, exceeded: Exceeded) -> Self {
        Self { exceeded: Some(exceeded), ..Self::new(at, exceeded) }
    }

    pub(crate) fn of(at: usize, failure: Failure) -> Self {
        match failure {
            Failure::Wrong(what) => Self::new(at, what),
            Failure::Exceeded(exceeded) => Self::exceeded(at, exceeded),
        }
    }

    pub(crate) fn located(self, text: &str) -> Error {
        let before = &text[..text.floor_char_boundary(self.at.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        Error { line, column, what: self.what, exceeded: self.exceeded }
    }
}
