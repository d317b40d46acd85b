//! Go's `text/template`, as far as bootstrap data and names of VMs use it. Pure: text and JSON in, text out.
//!
//! Values of OVF properties and of Sysprep's answer file may hold actions that put the VM's
//! addresses into them: `{{ V1alpha1_FirstIP }}`, `{{ (index .V1alpha1.Net.Devices 0).Gateway4 }}`.
//! Supported are text, comments, trimming, pipelines, variables, `if`, `range` and `with`; `define`,
//! `template`, `block`, `break` and `continue` are not.
//!
//! A template can't run away. Its text, every value that it copies or makes, and every step are counted in the
//! [`Budget`] of its caller before they are made; it has 100,000 steps, and its result a MiB. What lies in the
//! data is borrowed and costs nothing.
//!
//! A template can come from a Secret. So no error quotes a template or its data: an [`Error`] says where, and a [`Reason`] of
//! fixed text says why.
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

use ast::Node;
use bounds::Budget;
use serde_json::Value;

pub use error::Error;
pub use functions::{Failure, Functions, NoFunctions, Reason, SPARSE, exactly};
pub use value::cost;

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<Node>,
}

impl Template {
    /// Parses a template. Its text and its parts are spent of the budget.
    pub fn parse(text: &str, budget: &Budget) -> Result<Self, Error> {
        let nodes = lex::lex(text, budget).and_then(parse::parse);
        nodes.map(|nodes| Self { nodes }).map_err(|fault| fault.located(text))
    }

    /// Whether there is anything but text in it.
    pub fn has_actions(&self) -> bool {
        self.nodes.iter().any(|node| !matches!(node, Node::Text(_)))
    }

    /// The text with every action carried out on `data`. All that is copied or made is spent of the budget.
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
