//! Removes secrets from messages, events, logs and objects. This module doesn't perform I/O.
//!
//! The scrubber searches for known Secret values and for text that looks like a secret. A bundle only accepts
//! [`Scrubbed`] text, which only this file creates.

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::{Context, Result};
use serde_json::Value;

use super::secret_values::SecretValues;
use super::shapes::{Counts, SECRET_VALUE, Shapes, marker};

/// The length in bytes below which a value is removed only where it is a whole word, because a short value can also be
/// a part of ordinary words.
const WORD_BELOW: usize = 12;

/// Text without secrets.
#[derive(Debug)]
pub struct Scrubbed {
    pub text: String,
    /// Removal counts by secret type.
    pub counts: Counts,
}

/// Removes Secret values and text that looks like a secret.
pub struct Scrubber {
    values: Option<AhoCorasick>,
    shapes: Shapes,
}

impl Scrubber {
    /// Creates a scrubber for these values and all shapes.
    pub fn new(values: &SecretValues) -> Result<Self> {
        let values = if values.is_empty() {
            None
        } else {
            let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values.iter());
            Some(finder.context("too many values of Secrets to search for")?)
        };
        Ok(Self { values, shapes: Shapes::new()? })
    }

    /// Scrubs a string of any length, such as a log.
    pub fn text(&self, text: &str) -> Scrubbed {
        let mut counts = Counts::new();
        let text = self.scrub(text, &mut counts);
        Scrubbed { text, counts }
    }

    /// Scrubs all strings, numbers and keys in an object, and returns it as YAML.
    pub fn object(&self, object: Value) -> Result<Scrubbed> {
        let mut counts = Counts::new();
        let object = self.value(object, &mut counts);
        let text = serde_saphyr::to_string(&object).context("cannot write an object as YAML")?;
        Ok(Scrubbed { text, counts })
    }

    fn value(&self, value: Value, counts: &mut Counts) -> Value {
        match value {
            Value::String(text) => Value::String(self.scrub(&text, counts)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item, counts)).collect(),
            Value::Object(map) => map
                .into_iter()
                .map(|(name, value)| {
                    let value = self.value(value, counts);
                    (self.scrub(&name, counts), value)
                })
                .collect(),
            // A Secret may contain this number.
            Value::Number(number) => {
                let text = number.to_string();
                let scrubbed = self.scrub(&text, counts);
                if scrubbed == text { Value::Number(number) } else { Value::String(scrubbed) }
            }
            other => other,
        }
    }

    fn scrub(&self, text: &str, counts: &mut Counts) -> String {
        let text = self.without_values(text, counts);
        self.shapes.scrub(text, counts)
    }

    fn without_values(&self, text: &str, counts: &mut Counts) -> String {
        let Some(values) = &self.values else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for found in values.find_iter(text) {
            if found.len() < WORD_BELOW && !is_word(text, found.range()) {
                continue;
            }
            out.push_str(&text[from..found.start()]);
            out.push_str(&marker(SECRET_VALUE));
            *counts.entry(SECRET_VALUE).or_default() += 1;
            from = found.end();
        }
        out.push_str(&text[from..]);
        out
    }
}

/// Returns true if the range isn't adjacent to letters or digits.
fn is_word(text: &str, range: std::ops::Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    ![before, after].into_iter().flatten().any(char::is_alphanumeric)
}
