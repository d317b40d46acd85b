//! Values during rendering, and their costs.
//!
//! Values in the data or the template are borrowed, however often they are used. Other values are charged before they are
//! created, and shared afterwards.

use std::rc::Rc;

use bounds::{Budget, Exceeded};
use serde_json::Value;

use crate::functions::SPARSE;

/// A value's cost in bytes, in addition to its text.
const VALUE_BYTES: usize = 32;
/// The cost of a map entry in bytes, in addition to its key and value.
const ENTRY_BYTES: usize = 64;
/// The cost of an object in bytes, in addition to its entries.
const OBJECT_BYTES: usize = 640;

/// A borrowed or created value.
#[derive(Clone, Debug)]
pub(crate) enum Held<'a> {
    /// A value in the data or the template.
    Given(&'a Value),
    /// A created value.
    Made(Rc<Value>),
}

impl<'a> Held<'a> {
    /// Wraps a number, a boolean, or another value that has already been charged.
    pub(crate) fn made(value: impl Into<Value>) -> Self {
        Self::Made(Rc::new(value.into()))
    }

    pub(crate) fn get(&self) -> &Value {
        match self {
            Self::Given(value) => value,
            Self::Made(value) => value,
        }
    }

    /// Returns the part that `find` selects. The part is borrowed if this value is borrowed, otherwise it is copied and charged.
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

    /// Returns the elements of a list or map with their indices or keys. Returns no elements for null, and `None` for other
    /// types.
    pub(crate) fn elements(&self, budget: &Budget) -> Result<Option<Vec<Element<'a>>>, Exceeded> {
        let value = self.get();
        let count = match value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        budget.spend(count.saturating_mul(size_of::<Element<'_>>()))?;
        match self {
            Self::Given(value) => {
                elements(value, |key| Ok(ElementKey::Given(key)), |item| Ok(Self::Given(item)))
            }
            Self::Made(value) => {
                let made = |item: &Value| copy(item, budget).map(Self::made);
                elements(value, |key| Ok(ElementKey::Made(text(key, budget)?)), made)
            }
        }
    }
}

/// A list or map element.
pub(crate) type Element<'a> = (ElementKey<'a>, Held<'a>);

/// An element's index or key.
#[derive(Debug)]
pub(crate) enum ElementKey<'a> {
    At(usize),
    Given(&'a str),
    Made(String),
}

impl<'a> ElementKey<'a> {
    /// Converts the key to a value.
    pub(crate) fn held(self, budget: &Budget) -> Result<Held<'a>, Exceeded> {
        Ok(match self {
            Self::At(at) => Held::made(at),
            Self::Given(key) => Held::made(text(key, budget)?),
            Self::Made(key) => Held::made(key),
        })
    }
}

/// Same as [`Held::elements`]. `key` and `held` convert map keys and elements.
fn elements<'v, 'a>(
    value: &'v Value,
    key: impl Fn(&'v str) -> Result<ElementKey<'a>, Exceeded>,
    held: impl Fn(&'v Value) -> Result<Held<'a>, Exceeded>,
) -> Result<Option<Vec<Element<'a>>>, Exceeded> {
    match value {
        Value::Null => Ok(Some(Vec::new())),
        Value::Array(items) => {
            let elements = items.iter().enumerate();
            elements
                .map(|(at, item)| Ok((ElementKey::At(at), held(item)?)))
                .collect::<Result<_, _>>()
                .map(Some)
        }
        Value::Object(map) => {
            let entries = map.iter().filter(|(name, _)| *name != SPARSE);
            let entries = entries.map(|(name, item)| Ok((key(name)?, held(item)?)));
            entries.collect::<Result<_, _>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// Copies and charges a string.
pub(crate) fn text(text: &str, budget: &Budget) -> Result<String, Exceeded> {
    budget.spend(VALUE_BYTES.saturating_add(text.len()))?;
    Ok(text.to_owned())
}

/// Copies and charges a value.
pub(crate) fn copy(value: &Value, budget: &Budget) -> Result<Value, Exceeded> {
    budget.spend(cost(value))?;
    Ok(value.clone())
}

/// Returns a value's approximate size in bytes.
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

/// Appends a value in Go's print format.
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

/// Appends a string. Each time the buffer of `out` grows, its whole new capacity is charged, because the old and the new
/// buffer exist at the same time.
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
