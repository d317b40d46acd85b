//! A template as it was parsed.

use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Text(String),
    Emit(Pipeline),
    Set { declares: bool, name: String, value: Pipeline },
    If { branches: Vec<(Pipeline, Vec<Node>)>, otherwise: Vec<Node> },
    Range { names: Vec<String>, over: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
    With { name: Option<String>, of: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
}

/// Commands, each of which is given the former's value as its last argument.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) at: usize,
    pub(crate) commands: Vec<Vec<Term>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) at: usize,
    pub(crate) root: Root,
    /// Fields of what the root is.
    pub(crate) fields: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Root {
    Dot,
    Variable(String),
    Literal(Value),
    Function(String),
    Nested(Pipeline),
}
