//! Carries out the actions of a template.

use serde_json::Value;

use crate::ast::{Node, Pipeline, Root, Term};
use crate::builtin::{self, shown};
use crate::error::Fault;
use crate::functions::Functions;

/// How many actions one rendering may take, and how long its result may get.
const MOST_STEPS: usize = 100_000;
const LONGEST: usize = 1 << 20;

/// The text that the nodes make of `data`.
pub(super) fn render(nodes: &[Node], data: &Value, functions: &dyn Functions) -> Result<String, Fault> {
    let variables = vec![(String::new(), data.clone())];
    let mut evaluation = Evaluation { functions, variables, out: String::new(), steps: 0 };
    evaluation.all(nodes, data)?;
    Ok(evaluation.out)
}

struct Evaluation<'a> {
    functions: &'a dyn Functions,
    /// The innermost last; the nameless one is `$`.
    variables: Vec<(String, Value)>,
    out: String,
    steps: usize,
}

impl Evaluation<'_> {
    fn all(&mut self, nodes: &[Node], dot: &Value) -> Result<(), Fault> {
        let scope = self.variables.len();
        let result = nodes.iter().try_for_each(|node| self.one(node, dot));
        self.variables.truncate(scope);
        result
    }

    fn one(&mut self, node: &Node, dot: &Value) -> Result<(), Fault> {
        match node {
            Node::Text(text) => {
                self.out.push_str(text);
                self.spend(0)
            }
            Node::Emit(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                self.out.push_str(&shown(&value));
                self.spend(pipeline.at)
            }
            Node::Set { declares, name, value } => {
                let result = self.pipeline(value, dot)?;
                self.set(value.at, *declares, name, result)
            }
            Node::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if builtin::truth(&self.pipeline(condition, dot)?) {
                        return self.all(body, dot);
                    }
                }
                self.all(otherwise, dot)
            }
            Node::Range { names, over, body, otherwise } => self.range(names, over, (body, otherwise), dot),
            Node::With { name, of, body, otherwise } => {
                let value = self.pipeline(of, dot)?;
                if !builtin::truth(&value) {
                    return self.all(otherwise, dot);
                }
                let scope = self.variables.len();
                self.variables.extend(name.clone().map(|name| (name, value.clone())));
                let result = self.all(body, &value);
                self.variables.truncate(scope);
                result
            }
        }
    }

    fn set(&mut self, at: usize, declares: bool, name: &str, value: Value) -> Result<(), Fault> {
        if declares {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
        let (_, held) = known.ok_or_else(|| Fault::new(at, format!("there is no variable ${name}")))?;
        *held = value;
        Ok(())
    }

    fn range(
        &mut self,
        names: &[String],
        over: &Pipeline,
        (body, otherwise): (&[Node], &[Node]),
        dot: &Value,
    ) -> Result<(), Fault> {
        let elements: Vec<(Value, Value)> = match self.pipeline(over, dot)? {
            Value::Null => Vec::new(),
            Value::Array(items) => {
                items.into_iter().enumerate().map(|(at, item)| (at.into(), item)).collect()
            }
            Value::Object(map) => map.into_iter().map(|(key, item)| (key.into(), item)).collect(),
            other => {
                let what = format!("range can't go over {}", shown(&other));
                return Err(Fault::new(over.at, what));
            }
        };
        if elements.is_empty() {
            return self.all(otherwise, dot);
        }
        for (key, item) in elements {
            self.spend(over.at)?;
            let scope = self.variables.len();
            match names {
                [] => {}
                [element] => self.variables.push((element.clone(), item.clone())),
                [index, element, ..] => {
                    self.variables.push((index.clone(), key));
                    self.variables.push((element.clone(), item.clone()));
                }
            }
            let result = self.all(body, &item);
            self.variables.truncate(scope);
            result?;
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, Fault> {
        let mut last = None;
        for command in &pipeline.commands {
            self.spend(pipeline.at)?;
            last = Some(self.command(command, last, dot)?);
        }
        Ok(last.unwrap_or_default())
    }

    fn command(&mut self, terms: &[Term], piped: Option<Value>, dot: &Value) -> Result<Value, Fault> {
        let Some((first, rest)) = terms.split_first() else { return Ok(Value::Null) };
        if let Root::Function(name) = &first.root {
            let mut args = Vec::with_capacity(rest.len() + 1);
            for term in rest {
                args.push(self.term(term, dot)?);
            }
            args.extend(piped);
            return field(&self.call(first.at, name, &args)?, first);
        }
        if !rest.is_empty() || piped.is_some() {
            return Err(Fault::new(first.at, "only a function can be given arguments"));
        }
        self.term(first, dot)
    }

    fn term(&mut self, term: &Term, dot: &Value) -> Result<Value, Fault> {
        match &term.root {
            Root::Dot => field(dot, term),
            Root::Literal(value) => field(value, term),
            Root::Nested(pipeline) => field(&self.pipeline(pipeline, dot)?, term),
            Root::Function(name) => field(&self.call(term.at, name, &[])?, term),
            Root::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let unknown = || Fault::new(term.at, format!("there is no variable ${name}"));
                field(&known.ok_or_else(unknown)?.1, term)
            }
        }
    }

    fn call(&mut self, at: usize, name: &str, args: &[Value]) -> Result<Value, Fault> {
        self.spend(at)?;
        let called = self.functions.call(name, args).or_else(|| builtin::call(name, args));
        let unknown = || Err(format!("there is no function {name}"));
        called.unwrap_or_else(unknown).map_err(|what| Fault::new(at, what))
    }

    fn spend(&mut self, at: usize) -> Result<(), Fault> {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.out.len() > LONGEST {
            return Err(Fault::new(at, "the template does too much"));
        }
        Ok(())
    }
}

/// The member that the term's fields lead to.
fn field(value: &Value, term: &Term) -> Result<Value, Fault> {
    let mut at = value;
    for name in &term.fields {
        at = builtin::member(at, name)
            .ok_or_else(|| Fault::new(term.at, format!("there is no field {name} in {}", kind(at))))?;
    }
    Ok(at.clone())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "the data",
    }
}
