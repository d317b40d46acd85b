//! What a template may call.

use serde_json::Value;

/// The functions that templates may call besides Go's own.
pub trait Functions {
    /// What the function yields; `None` if there is none of that name.
    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>>;
}

/// No functions besides Go's own.
#[derive(Clone, Copy, Debug)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&self, _name: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        None
    }
}
