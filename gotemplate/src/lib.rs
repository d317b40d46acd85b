//! Go's `text/template`, as far as bootstrap data and names of VMs use it. Pure: text and JSON in, text out.
//!
//! Values of OVF properties and of Sysprep's answer file may hold actions that put the VM's
//! addresses into them: `{{ V1alpha1_FirstIP }}`, `{{ (index .V1alpha1.Net.Devices 0).Gateway4 }}`.
//! Supported are text, comments, trimming, pipelines, variables, `if`, `range` and `with`; `define`,
//! `template`, `block`, `break` and `continue` are not. A template can't run away: it has a budget.
//!
//! ```
//! use gotemplate::{NoFunctions, Template};
//! use serde_json::json;
//!
//! let text = "{{ range .Servers }}server {{ . }}\n{{ end }}";
//! let rendered = Template::parse(text)?.render(text, &json!({ "Servers": ["10.0.0.1", "10.0.0.2"] }), &NoFunctions)?;
//! assert_eq!(rendered, "server 10.0.0.1\nserver 10.0.0.2\n");
//! # Ok::<(), gotemplate::Error>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod ast;
mod builtin;
mod error;
mod eval;
mod functions;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use ast::Node;
use serde_json::Value;

pub use builtin::{SPARSE, exactly};
pub use error::Error;
pub use functions::{Functions, NoFunctions};

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<Node>,
}

impl Template {
    /// Parses a template.
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
