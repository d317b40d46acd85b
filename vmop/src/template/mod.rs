//! Go's `text/template`, as far as bootstrap data uses it.
//!
//! Values of OVF properties and of Sysprep's answer file may hold actions that put the machine's
//! addresses into them: `{{ V1alpha1_FirstIP }}`, `{{ (index .V1alpha1.Net.Devices 0).Gateway4 }}`.
//! Supported are text, comments, trimming, pipelines, variables, `if`, `range` and `with`; `define`,
//! `template`, `block`, `break` and `continue` are not. A template can't run away: it has a budget.

mod builtin;
mod eval;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

pub use builtin::{SPARSE, exactly};

/// A template that was understood.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<Node>,
}

/// What is wrong with a template, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

/// The functions that templates may call besides Go's own.
pub trait Functions {
    /// What the function yields; `None` if there is none of that name.
    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>>;
}

impl Template {
    /// Understands a template.
    pub fn parse(text: &str) -> Result<Self, Error> {
        lex::lex(text).and_then(parse::parse).map(|nodes| Self { nodes }).map_err(|fault| fault.located(text))
    }

    /// Whether there is anything but text in it.
    pub fn has_actions(&self) -> bool {
        self.nodes.iter().any(|node| !matches!(node, Node::Text(_)))
    }

    /// The text with every action carried out on `data`.
    pub fn render(&self, text: &str, data: &Value, functions: &dyn Functions) -> Result<String, Error> {
        eval::render(&self.nodes, data, functions).map_err(|fault| fault.located(text))
    }
}

/// What is wrong at a byte of the text.
#[derive(Debug)]
struct Fault {
    at: usize,
    what: String,
}

impl Fault {
    fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    fn located(self, text: &str) -> Error {
        let before = &text[..text.floor_char_boundary(self.at.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        Error { line, column, what: self.what }
    }
}

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    Emit(Pipeline),
    Set { declares: bool, name: String, value: Pipeline },
    If { branches: Vec<(Pipeline, Vec<Node>)>, otherwise: Vec<Node> },
    Range { names: Vec<String>, over: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
    With { name: Option<String>, of: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
}

/// Commands, each of which is given the former's value as its last argument.
#[derive(Clone, Debug)]
struct Pipeline {
    at: usize,
    commands: Vec<Vec<Term>>,
}

#[derive(Clone, Debug)]
struct Term {
    at: usize,
    root: Root,
    /// Fields of what the root is.
    fields: Vec<String>,
}

#[derive(Clone, Debug)]
enum Root {
    Dot,
    Variable(String),
    Literal(Value),
    Function(String),
    Nested(Pipeline),
}
