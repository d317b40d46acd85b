//! What a template may call.

use bounds::{Budget, Exceeded};
use serde_json::Value;

/// Marks data in which a field that is not there is empty, as a field of a Go struct is.
pub const SPARSE: &str = "\u{0}sparse";

/// Why a function yields nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its arguments are wrong.
    #[error("{0}")]
    Wrong(String),
    /// It would make more than the budget allows.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

impl From<&str> for Failure {
    fn from(what: &str) -> Self {
        Self::Wrong(what.to_owned())
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
        return Err(format!("it needs {count} arguments and has {}", args.len()).into());
    }
    Ok(())
}
