//! What a template may call.

use std::fmt;

use bounds::{Budget, Exceeded};
use serde_json::Value;

/// Marks data in which a field that is not there is empty, as a field of a Go struct is.
pub const SPARSE: &str = "\u{0}sparse";

/// The reason why a template can't be rendered.
///
/// It is fixed text and counts, so that it can't quote the template or its data: both may come from a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// The text with the counts in place of its `{}`. A count is one that the program made, never a number of the template.
    pub fn with_counts(text: &'static str, counts: &[usize]) -> Self {
        let counted = |text: String, count: &usize| text.replacen("{}", &count.to_string(), 1);
        Self(counts.iter().fold(text.to_owned(), counted))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Exceeded> for Reason {
    fn from(exceeded: Exceeded) -> Self {
        Self(exceeded.to_string())
    }
}

/// Why a function yields nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its arguments are wrong.
    #[error("{0}")]
    Wrong(Reason),
    /// It would make more than the budget allows.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl From<Reason> for Failure {
    fn from(what: Reason) -> Self {
        Self::Wrong(what)
    }
}

impl From<&'static str> for Failure {
    fn from(what: &'static str) -> Self {
        Self::Wrong(what.into())
    }
}

/// The functions that templates may call besides Go's own.
pub trait Functions {
    /// What the function yields; `None` if there is none of that name.
    ///
    /// It spends the budget before it copies or makes a value whose size the arguments decide.
    fn call(&self, name: &str, args: &[&Value], budget: &Budget) -> Option<Result<Value, Failure>>;
}

/// No functions besides Go's own.
#[derive(Clone, Copy, Debug)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&self, _name: &str, _args: &[&Value], _budget: &Budget) -> Option<Result<Value, Failure>> {
        None
    }
}

/// That many arguments are given.
///
/// # Errors
/// Others are.
pub fn exactly<T>(args: &[T], count: usize) -> Result<(), Failure> {
    if args.len() != count {
        return Err(Reason::with_counts("it needs {} arguments and has {}", &[count, args.len()]).into());
    }
    Ok(())
}
