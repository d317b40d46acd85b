//! A template's syntax tree.

use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) enum SyntaxNode {
    Text(String),
    Emit(Pipeline),
    Set { declares: bool, name: String, value: Pipeline },
    If { branches: Vec<(Pipeline, Vec<SyntaxNode>)>, otherwise: Vec<SyntaxNode> },
    Range { names: Vec<String>, over: Pipeline, body: Vec<SyntaxNode>, otherwise: Vec<SyntaxNode> },
    With { name: Option<String>, of: Pipeline, body: Vec<SyntaxNode>, otherwise: Vec<SyntaxNode> },
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
    pub(crate) root: PathRoot,
    /// The field path below the root.
    pub(crate) fields: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum PathRoot {
    Dot,
    Variable(String),
    Literal(Value),
    Function(String),
    Nested(Pipeline),
}
