//! A template's syntax tree.

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

/// A sequence of commands. Each command receives the previous command's value as its last argument.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) at: usize,
    pub(crate) commands: Vec<Vec<Term>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) at: usize,
    pub(crate) root: Root,
    /// The field path below the root.
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
