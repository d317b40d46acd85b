//! Parses untrusted YAML within a budget.
//!
//! A YAML parser can create more data than it reads: an alias repeats its anchor's value, and a mapping with one letter takes
//! several hundred bytes. Therefore anchors, aliases and merge keys, which JSON doesn't have either, are rejected. Each node
//! is charged to the budget.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde_saphyr::budget::{BudgetBreach, BudgetReport};
use serde_saphyr::options::MergeKeyPolicy;
use serde_saphyr::{Error, Options};

use crate::budget::{Budget, Exceeded};

/// The cost in bytes for a node (a mapping, a sequence, a key or another scalar), in addition to its text.
pub const NODE_BYTES: usize = 256;
/// The maximum number of nodes in an input.
const MOST_NODES: usize = 250_000;
/// The maximum nesting depth.
const DEEPEST: usize = 64;

/// The reasons why YAML can't be parsed. Errors don't quote the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The text isn't YAML, or doesn't have the expected shape.
    #[error("{what}{}", place(*.line, *.column))]
    Invalid {
        /// The problem, as a predicate such as `has a duplicate key`.
        what: String,
        /// The line, from 1; 0 if it isn't known.
        line: u64,
        /// The column, from 1; 0 if it isn't known.
        column: u64,
    },
    /// Parsing the text exceeds the budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

fn place(line: u64, column: u64) -> String {
    if line == 0 { String::new() } else { format!(" (line {line}, column {column})") }
}

/// Parses one document. The input, its nodes and the nodes' text are charged to the budget.
///
/// # Errors
/// Returns a [`YamlError`], which doesn't quote the text.
pub fn from_yaml<T: DeserializeOwned>(text: &str, budget: &Budget) -> Result<T, YamlError> {
    read(text, budget, |options| serde_saphyr::from_str_with_options(text, options))
}

/// Parses all documents except empty ones. The input, its nodes and the nodes' text are charged to the budget.
///
/// # Errors
/// Returns a [`YamlError`], which doesn't quote the text.
pub fn from_yaml_documents<T: DeserializeOwned>(text: &str, budget: &Budget) -> Result<Vec<T>, YamlError> {
    read(text, budget, |options| serde_saphyr::from_multiple_with_options(text, options))
}

fn read<T>(
    text: &str,
    budget: &Budget,
    parse: impl FnOnce(Options) -> Result<T, Error>,
) -> Result<T, YamlError> {
    // Once for the text, once for the scalars, and once for the keys, which the parser copies to compare them.
    budget.spend(text.len().saturating_mul(3))?;
    let affordable = budget.left() / NODE_BYTES;
    let nodes = Rc::new(Cell::new(0));
    let counted = Rc::clone(&nodes);
    let report = move |report: BudgetReport| counted.set(report.nodes);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: MOST_NODES * 4,
            max_aliases: 0,
            max_anchors: 0,
            max_depth: DEEPEST,
            flow_nesting_limit: DEEPEST,
            max_nodes: affordable.min(MOST_NODES),
            // A two-byte escape expands to at most three bytes, and a tag counts with its full name.
            max_total_scalar_bytes: text.len().saturating_mul(2).saturating_add(1024),
            max_merge_keys: 0,
        },
        budget_report_cb: Some(Rc::new(RefCell::new(report))),
        emit_comments: false,
        merge_keys: MergeKeyPolicy::Error,
        with_snippet: false,
    };
    let parsed = parse(options);
    let spent = budget.spend(nodes.get().saturating_mul(NODE_BYTES));
    let value = parsed.map_err(|error| match error.without_snippet() {
        Error::Budget { breach: BudgetBreach::Nodes { .. }, .. } if affordable < MOST_NODES => {
            // The text has more nodes than the budget allows: report the budget's limit.
            budget.spend(usize::MAX).map_or_else(YamlError::from, |()| invalid("is too large", &error))
        }
        known => invalid(&describe(known), &error),
    })?;
    spent?;
    Ok(value)
}

fn invalid(what: &str, error: &Error) -> YamlError {
    let location = error.location();
    let (line, column) = location.map_or((0, 0), |at| (at.line(), at.column()));
    YamlError::Invalid { what: what.to_owned(), line, column }
}

/// Describes an error without quoting the text.
fn describe(error: &Error) -> String {
    match error {
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } => {
                "has an anchor or an alias, which are not supported: write its value out".to_owned()
            }
            BudgetBreach::Depth { .. } => format!("is nested more than {DEEPEST} levels deep"),
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                format!("has more than {MOST_NODES} values")
            }
            BudgetBreach::Documents { .. } => "has too many documents".to_owned(),
            _ => "is too large after parsing".to_owned(),
        },
        Error::MergeKeyNotAllowed { .. } => {
            "has a merge key (<<), which is not supported: write its value out".to_owned()
        }
        Error::UnknownAnchor { .. } => {
            "has an anchor or an alias, which are not supported: write its value out".to_owned()
        }
        Error::Eof { .. } => "ends unexpectedly".to_owned(),
        Error::MultipleDocuments { .. } => "has more than one document".to_owned(),
        Error::DuplicateMappingKey { .. } => "has a duplicate key".to_owned(),
        Error::SerdeMissingField { field, .. } => format!("has no field {field}"),
        // `expected` comes from the Rust type, not from the text.
        Error::SerdeInvalidType { expected, .. } => {
            format!("has a value of another type where {expected} is expected")
        }
        Error::InvalidScalar { ty, .. } => format!("has a value of another type where {ty} is expected"),
        Error::Unexpected { expected, .. } => {
            format!("has a value of another type where {expected} is expected")
        }
        _ => "is not valid YAML, or not the YAML that is expected".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const ENOUGH: usize = 1 << 20;

    fn read(text: &str) -> Result<Value, YamlError> {
        from_yaml(text, &Budget::new(ENOUGH))
    }

    #[test]
    fn yaml_and_json_are_read() {
        assert_eq!(
            read("a: 1\nb: [x, \"y\"]\nc: {d: null}"),
            Ok(json!({"a": 1, "b": ["x", "y"], "c": {"d": null}}))
        );
        assert_eq!(read("{\"a\": \"&b *c <<\"}"), Ok(json!({"a": "&b *c <<"})));
        assert_eq!(
            read("a: |\n  &x *y\n  z: 1 # no comment\n"),
            Ok(json!({"a": "&x *y\nz: 1 # no comment\n"}))
        );
        let documents: Vec<Value> =
            from_yaml_documents("a: 1\n---\n---\nb: 2\n", &Budget::new(ENOUGH)).unwrap();
        assert_eq!(documents, [json!({"a": 1}), json!({"b": 2})]);
        assert_eq!(read("a: !!str 1"), Ok(json!({"a": "1"})));
    }

    #[test]
    fn aliases_and_merge_keys_are_refused() {
        for text in ["a: &x 1\nb: *x", "a: *x", "a: &x {b: 1}\nc:\n  <<: *x", "<<: {a: 1}\nb: 2"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("not supported: write its value out"), "{text}: {error}");
        }
        let line = "x".repeat(10_000);
        let bomb = format!("a: &a \"{line}\"\nb: [{}]", "*a,".repeat(58));
        assert!(matches!(read(&bomb), Err(YamlError::Invalid { .. })));
    }

    #[test]
    fn small_nodes_are_counted_with_what_they_cost() {
        let many = format!("[{}]", "{a: 1},".repeat(10_000));
        assert_eq!(read(&many), Err(YamlError::Exceeded(Exceeded::Bytes { limit: ENOUGH })));
        let budget = Budget::new(ENOUGH);
        let _: Value = from_yaml("[1, 2, 3]", &budget).unwrap();
        assert_eq!(ENOUGH - budget.left(), 9 * 3 + 4 * NODE_BYTES);
        let _: Value = from_yaml_documents("[1]\n---\n[2]", &budget).unwrap().remove(1);
        assert_eq!(ENOUGH - budget.left(), 9 * 3 + 4 * NODE_BYTES + 11 * 3 + 4 * NODE_BYTES);
        assert_eq!(
            from_yaml::<Value>(&"x".repeat(100), &Budget::new(50)),
            Err(YamlError::Exceeded(Exceeded::Bytes { limit: 50 })),
        );
    }

    #[test]
    fn no_error_quotes_the_text() {
        #[derive(Debug, serde::Deserialize)]
        struct Shape {
            #[allow(dead_code)]
            count: u32,
        }
        let deep = "[".repeat(200) + "hidden";
        let texts = [
            "count: hidden",
            "hidden: [",
            "hidden",
            "count: [hidden]",
            "count: 1\ncount: hidden",
            "&hidden a: b",
            "*hidden",
            "count: \"hidden",
            "count: !hidden x",
            "count: -99999hidden",
            "\thidden: 1",
            "a: 1\n---\nhidden: 2",
            "%hidden",
            "hidden: }",
            "!!binary hidden",
            deep.as_str(),
        ];
        for text in texts {
            let error = from_yaml::<Shape>(text, &Budget::new(ENOUGH)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hidden"), "{text}: {error:?}");
        }
        let error = from_yaml::<Shape>("a: 1\ncount: hidden", &Budget::new(ENOUGH)).unwrap_err();
        assert_eq!(error.to_string(), "has a value of another type where u32 is expected (line 2, column 8)");
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_or_refused(text in "[-{}\\[\\]:,?!&*<|>'\"%@` #\na-c0-2\\\\\t]{0,80}") {
            let budget = Budget::new(64 * 1024);
            let _ = from_yaml::<Value>(&text, &budget);
            let _ = from_yaml_documents::<Value>(&text, &budget);
        }
    }
}
