//! Template errors and their positions.

use std::fmt;

use bounds::Exceeded;

use crate::functions::{FunctionError, RenderFailure};

/// A template error and its position.
///
/// Errors are reported in conditions and events, which more people can read than the template. Therefore an error doesn't
/// quote names, strings or numbers from the template or its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The reason.
    pub what: RenderFailure,
    /// The exceeded limit, if the reason is an exceeded budget.
    pub exceeded: Option<Exceeded>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Error {}

/// An error at a byte offset in the text.
#[derive(Debug)]
pub(crate) struct PositionedError {
    at: usize,
    what: RenderFailure,
    exceeded: Option<Exceeded>,
}

impl PositionedError {
    pub(crate) fn new(at: usize, what: impl Into<RenderFailure>) -> Self {
        Self { at, what: what.into(), exceeded: None }
    }

    pub(crate) fn exceeded(at: usize, exceeded: Exceeded) -> Self {
        Self { exceeded: Some(exceeded), ..Self::new(at, exceeded) }
    }

    pub(crate) fn of(at: usize, failure: FunctionError) -> Self {
        match failure {
            FunctionError::Wrong(what) => Self::new(at, what),
            FunctionError::Exceeded(exceeded) => Self::exceeded(at, exceeded),
        }
    }

    pub(crate) fn located(self, text: &str) -> Error {
        let before = &text[..text.floor_char_boundary(self.at.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        Error { line, column, what: self.what, exceeded: self.exceeded }
    }
}
