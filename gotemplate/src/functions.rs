//! The functions that a template may call.

use std::fmt;

use bounds::{Budget, Exceeded};
use serde_json::Value;

/// The key that marks an object as sparse: its missing fields are empty, like fields in a Go struct.
pub const SPARSE: &str = "\u{0}sparse";

/// The reason why a template can't be rendered.
///
/// It consists of fixed text and counts, so that it can't quote the template or its data, which may come from a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderFailure(String);

impl RenderFailure {
    /// Replaces each `{}` in the text with a count. Counts must come from the program, never from the template.
    pub fn with_counts(text: &'static str, counts: &[usize]) -> Self {
        let counted = |text: String, count: &usize| text.replacen("{}", &count.to_string(), 1);
        Self(counts.iter().fold(text.to_owned(), counted))
    }
}

impl fmt::Display for RenderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&'static str> for RenderFailure {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Exceeded> for RenderFailure {
    fn from(exceeded: Exceeded) -> Self {
        Self(exceeded.to_string())
    }
}

/// The reasons why a function fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// The arguments are wrong.
    #[error("{0}")]
    Wrong(RenderFailure),
    /// The function would exceed the budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl From<RenderFailure> for FunctionError {
    fn from(what: RenderFailure) -> Self {
        Self::Wrong(what)
    }
}

impl From<&'static str> for FunctionError {
    fn from(what: &'static str) -> Self {
        Self::Wrong(what.into())
    }
}

/// The functions that templates may call in addition to Go's own.
pub trait Functions {
    /// Calls a function. Returns `None` if the function doesn't exist.
    ///
    /// Implementations charge the budget before they copy or create a value whose size depends on the arguments.
    fn call(&self, name: &str, args: &[&Value], budget: &Budget) -> Option<Result<Value, FunctionError>>;
}

/// An empty function set: templates may call only Go's own functions.
#[derive(Clone, Copy, Debug)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&self, _name: &str, _args: &[&Value], _budget: &Budget) -> Option<Result<Value, FunctionError>> {
        None
    }
}

/// Checks that there are exactly `count` arguments.
///
/// # Errors
/// Returns [`FunctionError::Wrong`] if the number of arguments differs.
pub fn exactly<T>(args: &[T], count: usize) -> Result<(), FunctionError> {
    if args.len() != count {
        return Err(
            RenderFailure::with_counts("it needs {} arguments and has {}", &[count, args.len()]).into()
        );
    }
    Ok(())
}
