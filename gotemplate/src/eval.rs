//! Renders a parsed template.

use bounds::{Budget, Exceeded};
use serde_json::Value;

use crate::ast::{PathRoot, Pipeline, SyntaxNode, Term};
use crate::builtin;
use crate::error::PositionedError;
use crate::functions::{FunctionError, Functions};
use crate::value::{Held, append, cost, show};

/// The maximum number of steps per rendering.
const MOST_STEPS: usize = 100_000;
/// The maximum length of a rendering's result, in bytes.
const LONGEST: usize = 1 << 20;
/// The number of bytes that are charged for each step.
const STEP_BYTES: usize = 64;
/// The number of bytes that are charged for each term.
const TERM_BYTES: usize = 32;
/// The number of bytes that are charged for each variable that a search by name looks at.
const LOOK_BYTES: usize = 4;

/// Renders the nodes. `data` is the value of `.` and `$`.
pub(super) fn render(
    nodes: &[SyntaxNode],
    data: &Value,
    functions: &dyn Functions,
    budget: &Budget,
) -> Result<String, PositionedError> {
    let dot = Held::Given(data);
    let variables = vec![("", dot.clone())];
    let mut evaluation = Evaluation { functions, budget, variables, out: String::new(), steps: 0 };
    evaluation.all(nodes, &dot)?;
    Ok(evaluation.out)
}

struct Evaluation<'a> {
    functions: &'a dyn Functions,
    budget: &'a Budget,
    /// The variables in scope, innermost last. `$` has an empty name.
    variables: Vec<(&'a str, Held<'a>)>,
    out: String,
    steps: usize,
}

impl<'a> Evaluation<'a> {
    fn all(&mut self, nodes: &'a [SyntaxNode], dot: &Held<'a>) -> Result<(), PositionedError> {
        let scope = self.variables.len();
        let result = nodes.iter().try_for_each(|node| self.one(node, dot));
        self.variables.truncate(scope);
        result
    }

    fn one(&mut self, node: &'a SyntaxNode, dot: &Held<'a>) -> Result<(), PositionedError> {
        match node {
            SyntaxNode::Text(text) => {
                append(text, &mut self.out, self.budget)
                    .map_err(|error| PositionedError::exceeded(0, error))?;
                self.step(0)
            }
            SyntaxNode::Emit(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                let shown = show(value.get(), &mut self.out, self.budget);
                shown.map_err(|error| PositionedError::exceeded(pipeline.at, error))?;
                self.step(pipeline.at)
            }
            SyntaxNode::Set { declares, name, value } => {
                let result = self.pipeline(value, dot)?;
                self.set(value.at, *declares, name, result)
            }
            SyntaxNode::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if builtin::truth(self.pipeline(condition, dot)?.get()) {
                        return self.all(body, dot);
                    }
                }
                self.all(otherwise, dot)
            }
            SyntaxNode::Range { names, over, body, otherwise } => {
                self.range(names, over, (body, otherwise), dot)
            }
            SyntaxNode::With { name, of, body, otherwise } => {
                let value = self.pipeline(of, dot)?;
                if !builtin::truth(value.get()) {
                    return self.all(otherwise, dot);
                }
                let scope = self.variables.len();
                self.variables.extend(name.as_deref().map(|name| (name, value.clone())));
                let result = self.all(body, &value);
                self.variables.truncate(scope);
                result
            }
        }
    }

    fn set(
        &mut self,
        at: usize,
        declares: bool,
        name: &'a str,
        value: Held<'a>,
    ) -> Result<(), PositionedError> {
        if declares {
            self.variables.push((name, value));
            return Ok(());
        }
        let place = self.place(at, name)?;
        self.variables[place].1 = value;
        Ok(())
    }

    /// Returns the index in `variables` of the innermost variable with this name. The search is charged to the budget. `at` is
    /// the byte offset for errors.
    fn place(&self, at: usize, name: &str) -> Result<usize, PositionedError> {
        for (place, (known, _)) in self.variables.iter().enumerate().rev() {
            let look = LOOK_BYTES + if known.len() == name.len() { name.len() } else { 0 };
            self.spend(at, look)?;
            if *known == name {
                return Ok(place);
            }
        }
        Err(PositionedError::new(at, "the variable is not defined"))
    }

    fn range(
        &mut self,
        names: &'a [String],
        over: &'a Pipeline,
        (body, otherwise): (&'a [SyntaxNode], &'a [SyntaxNode]),
        dot: &Held<'a>,
    ) -> Result<(), PositionedError> {
        let exceeded = |error| PositionedError::exceeded(over.at, error);
        let value = self.pipeline(over, dot)?;
        let Some(elements) = value.elements(self.budget).map_err(exceeded)? else {
            return Err(PositionedError::new(over.at, "range needs a list or a map"));
        };
        if elements.is_empty() {
            return self.all(otherwise, dot);
        }
        for (key, item) in elements {
            self.step(over.at)?;
            let scope = self.variables.len();
            match names {
                [] => {}
                [element] => self.variables.push((element, item.clone())),
                [index, element, ..] => {
                    let key = key.held(self.budget).map_err(exceeded)?;
                    self.variables.push((index, key));
                    self.variables.push((element, item.clone()));
                }
            }
            let result = self.all(body, &item);
            self.variables.truncate(scope);
            result?;
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &'a Pipeline, dot: &Held<'a>) -> Result<Held<'a>, PositionedError> {
        let mut last = None;
        for command in &pipeline.commands {
            self.step(pipeline.at)?;
            last = Some(self.command(command, last, dot)?);
        }
        Ok(last.unwrap_or_else(|| Held::made(Value::Null)))
    }

    fn command(
        &mut self,
        terms: &'a [Term],
        piped: Option<Held<'a>>,
        dot: &Held<'a>,
    ) -> Result<Held<'a>, PositionedError> {
        let Some((first, rest)) = terms.split_first() else { return Ok(Held::made(Value::Null)) };
        if let PathRoot::Function(name) = &first.root {
            let mut args = Vec::with_capacity(rest.len() + 1);
            for term in rest {
                args.push(self.term(term, dot)?);
            }
            args.extend(piped);
            let called = self.call(first.at, name, &args)?;
            return self.field(&called, first);
        }
        if !rest.is_empty() || piped.is_some() {
            return Err(PositionedError::new(first.at, "only a function can have arguments"));
        }
        self.term(first, dot)
    }

    fn term(&mut self, term: &'a Term, dot: &Held<'a>) -> Result<Held<'a>, PositionedError> {
        self.spend(term.at, TERM_BYTES)?;
        match &term.root {
            PathRoot::Dot => self.field(dot, term),
            PathRoot::Literal(value) => self.field(&Held::Given(value), term),
            PathRoot::Nested(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                self.field(&value, term)
            }
            PathRoot::Function(name) => {
                let called = self.call(term.at, name, &[])?;
                self.field(&called, term)
            }
            PathRoot::Variable(name) => {
                let place = self.place(term.at, name)?;
                self.field(&self.variables[place].1, term)
            }
        }
    }

    fn call(&mut self, at: usize, name: &str, args: &[Held<'a>]) -> Result<Held<'a>, PositionedError> {
        self.step(at)?;
        let values: Vec<_> = args.iter().map(Held::get).collect();
        let called = match self.functions.call(name, &values, self.budget) {
            // Charge the result here, regardless of what the function charged itself.
            Some(made) => Some(made.and_then(|value| {
                self.budget.spend(cost(&value))?;
                Ok(Held::made(value))
            })),
            None => builtin::call(name, args, self.budget),
        };
        let unknown = || Err("the function does not exist".into());
        called.unwrap_or_else(unknown).map_err(|failure| PositionedError::of(at, failure))
    }

    /// Follows the term's field path from `value`, and returns the member at its end.
    fn field(&self, value: &Held<'a>, term: &Term) -> Result<Held<'a>, PositionedError> {
        if term.fields.is_empty() {
            return Ok(value.clone());
        }
        let found = value.part(self.budget, |value| {
            let mut at = value;
            for name in &term.fields {
                let found = builtin::member(at, name, self.budget)?;
                at = found.ok_or(FunctionError::from("the field does not exist"))?;
            }
            Ok(at)
        });
        found.map_err(|failure| PositionedError::of(term.at, failure))
    }

    fn step(&mut self, at: usize) -> Result<(), PositionedError> {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.out.len() > LONGEST {
            return Err(PositionedError::new(at, "the template exceeds its limits"));
        }
        self.spend(at, STEP_BYTES)
    }

    fn spend(&self, at: usize, bytes: usize) -> Result<(), PositionedError> {
        self.budget.spend(bytes).map_err(|error: Exceeded| PositionedError::exceeded(at, error))
    }
}
