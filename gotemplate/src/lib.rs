//! The subset of Go's `text/template` that bootstrap data and VM names use. Rendering is pure: it turns text and JSON into text.
//!
//! OVF properties and the Sysprep answer file may contain actions that insert the VM's addresses:
//! `{{ V1alpha1_FirstIP }}`, `{{ (index .V1alpha1.Net.Devices 0).Gateway4 }}`. Text, comments, trimming,
//! pipelines, variables, `if`, `range` and `with` are supported; `define`, `template`, `block`, `break` and
//! `continue` are not.
//!
//! A template can't use unlimited time or memory. The text, every copied or created value and every step are charged to
//! the caller's [`Budget`] in advance. A rendering is also limited to 100,000 steps and a result of 1 MiB. Values in the
//! data are borrowed and aren't charged.
//!
//! A template can come from a Secret. Therefore errors don't quote templates or their data: an [`Error`] consists of a
//! position and a [`RenderFailure`] with fixed text.
//!
//! ```
//! use bounds::Budget;
//! use gotemplate::{NoFunctions, Template};
//! use serde_json::json;
//!
//! let text = "{{ range .Servers }}server {{ . }}\n{{ end }}";
//! let data = json!({ "Servers": ["10.0.0.1", "10.0.0.2"] });
//! let budget = Budget::new(64 * 1024);
//! let rendered = Template::parse(text, &budget)?.render(text, &data, &NoFunctions, &budget)?;
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
mod value;

use ast::SyntaxNode;
use bounds::Budget;
use serde_json::Value;

pub use error::Error;
pub use functions::{FunctionError, Functions, NoFunctions, RenderFailure, SPARSE, exactly};
pub use value::cost;

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<SyntaxNode>,
}

impl Template {
    /// Parses a template. Its text and its parts are charged to the budget.
    pub fn parse(text: &str, budget: &Budget) -> Result<Self, Error> {
        let nodes = lex::lex(text, budget).and_then(parse::parse);
        nodes.map(|nodes| Self { nodes }).map_err(|fault| fault.located(text))
    }

    /// Returns true if the template contains more than text.
    pub fn has_actions(&self) -> bool {
        self.nodes.iter().any(|node| !matches!(node, SyntaxNode::Text(_)))
    }

    /// Renders the template with `data`. All copied or created values are charged to the budget.
    ///
    /// `text` must be the text that was parsed, because errors compute their line and column from it.
    pub fn render(
        &self,
        text: &str,
        data: &Value,
        functions: &dyn Functions,
        budget: &Budget,
    ) -> Result<String, Error> {
        eval::render(&self.nodes, data, functions, budget).map_err(|fault| fault.located(text))
    }
}
