//! Values while a template is carried out, and what they cost.
//!
//! What lies in the data or in the template is borrowed, however often it is named. What is made is counted before it is made,
//! and shared afterwards.

use std::rc::Rc;

use bounds::{Budget, Exceeded};
use serde_json::Value;

use crate::functions::SPARSE;

/// The bytes that a value is counted with besides its text.
const VALUE_BYTES: usize = 32;
/// The bytes that an entry of a map is counted with besides its key and value, and an object besides its entries.
const ENTRY_BYTES: usize = 64;
const OBJECT_BYTES: usize = 640;

/// A value: of the data or of the template, or made.
#[derive(Clone, Debug)]
pub(crate) enum Held<'a> {
    /// It lies in the data or in the template.
    Given(&'a Value),
    /// It was made.
    Made(Rc<Value>),
}

impl<'a> Held<'a> {
    /// A number or a boolean, or what was counted already.
    pub(crate) fn made(value: impl Into<Value>) -> Self {
        Self::Made(Rc::new(value.into()))
    }

    /// The value.
    pub(crate) fn get(&self) -> &Value {
        match self {
            Self::Given(value) => value,
            Self::Made(value) => value,
        }
    }

    /// What `find` finds in the value: borrowed where the value is, else copied and counted.
    pub(crate) fn part<E: From<Exceeded>>(
        &self,
        budget: &Budget,
        find: impl for<'v> FnOnce(&'v Value) -> Result<&'v Value, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::Given(value) => Self::Given(find(value)?),
            Self::Made(value) => Self::made(copy(find(value)?, budget)?),
        })
    }

    /// The elements of a list or a map with their indices or keys; `None` if it has none by its nature.
    pub(crate) fn elements(&self, budget: &Budget) -> Result<Option<Vec<Element<'a>>>, Exceeded> {
        let value = self.get();
        let count = match value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        budget.spend(count.saturating_mul(size_of::<Element<'_>>()))?;
        match self {
            Self::Given(value) => elements(value, |key| Ok(Key::Given(key)), |item| Ok(Self::Given(item))),
            Self::Made(value) => {
                let made = |item: &Value| copy(item, budget).map(Self::made);
                elements(value, |key| Ok(Key::Made(text(key, budget)?)), made)
            }
        }
    }
}

/// An element of a list or a map.
pub(crate) type Element<'a> = (Key<'a>, Held<'a>);

/// The index or the key of an element.
#[derive(Debug)]
pub(crate) enum Key<'a> {
    At(usize),
    Given(&'a str),
    Made(String),
}

impl<'a> Key<'a> {
    /// The key as a value.
    pub(crate) fn held(self, budget: &Budget) -> Result<Held<'a>, Exceeded> {
        Ok(match self {
            Self::At(at) => Held::made(at),
            Self::Given(key) => Held::made(text(key, budget)?),
            Self::Made(key) => Held::made(key),
        })
    }
}

/// Returns the elements of a value; `key` and `held` make its keys and items. `None` for a value that is not a list, a map or null.
fn elements<'v, 'a>(
    value: &'v Value,
    key: impl Fn(&'v str) -> Result<Key<'a>, Exceeded>,
    held: impl Fn(&'v Value) -> Result<Held<'a>, Exceeded>,
) -> Result<Option<Vec<Element<'a>>>, Exceeded> {
    match value {
        Value::Null => Ok(Some(Vec::new())),
        Value::Array(items) => {
            let elements = items.iter().enumerate();
            elements.map(|(at, item)| Ok((Key::At(at), held(item)?))).collect::<Result<_, _>>().map(Some)
        }
        Value::Object(map) => {
            let entries = map.iter().filter(|(name, _)| *name != SPARSE);
            let entries = entries.map(|(name, item)| Ok((key(name)?, held(item)?)));
            entries.collect::<Result<_, _>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// A copy of a text, counted.
pub(crate) fn text(text: &str, budget: &Budget) -> Result<String, Exceeded> {
    budget.spend(VALUE_BYTES.saturating_add(text.len()))?;
    Ok(text.to_owned())
}

/// A copy of a value, counted.
pub(crate) fn copy(value: &Value, budget: &Budget) -> Result<Value, Exceeded> {
    budget.spend(cost(value))?;
    Ok(value.clone())
}

/// The bytes that a value takes, about.
pub fn cost(value: &Value) -> usize {
    let content = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(cost).fold(0, usize::saturating_add),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| cost(value).saturating_add(key.len() + ENTRY_BYTES));
            entries.fold(OBJECT_BYTES, usize::saturating_add)
        }
    };
    content.saturating_add(VALUE_BYTES)
}

/// Appends the value as Go prints it.
pub(crate) fn show(value: &Value, out: &mut String, budget: &Budget) -> Result<(), Exceeded> {
    match value {
        Value::Null => append("<no value>", out, budget),
        Value::String(text) => append(text, out, budget),
        Value::Bool(_) | Value::Number(_) => append(&value.to_string(), out, budget),
        Value::Array(items) => {
            append("[", out, budget)?;
            for (at, item) in items.iter().enumerate() {
                append(if at > 0 { " " } else { "" }, out, budget)?;
                show(item, out, budget)?;
            }
            append("]", out, budget)
        }
        Value::Object(map) => {
            append("map[", out, budget)?;
            let entries = map.iter().filter(|(key, _)| *key != SPARSE);
            for (at, (key, item)) in entries.enumerate() {
                append(if at > 0 { " " } else { "" }, out, budget)?;
                append(key, out, budget)?;
                append(":", out, budget)?;
                show(item, out, budget)?;
            }
            append("]", out, budget)
        }
    }
}

/// Appends a text. Each time `out` grows, its whole new capacity is counted, because the old and the new buffer exist at the
/// same time.
pub(crate) fn append(text: &str, out: &mut String, budget: &Budget) -> Result<(), Exceeded> {
    let needed = out.len() + text.len();
    if needed > out.capacity() {
        let room = needed.max(2 * out.capacity());
        budget.spend(room)?;
        out.reserve_exact(room - out.len());
    }
    out.push_str(text);
    Ok(())
}
