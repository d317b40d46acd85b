//! Takes secrets out of text that somebody else wrote: messages, events, logs. Pure.
//!
//! Two things are looked for: the values of the Secrets that were read, and what looks like a secret. Whatever goes
//! into a bundle is a [`Scrubbed`], and only this file makes one.

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::{Context, Result};
use serde_json::Value;

use super::secret_values::SecretValues;
use super::shapes::{Counts, SECRET_VALUE, Shapes, marker};

/// Shorter values are part of ordinary words: they are looked for only as a whole word.
const WORD_BELOW: usize = 12;

/// Text without secrets.
#[derive(Debug)]
pub struct Scrubbed {
    pub text: String,
    /// What was taken out of it.
    pub counts: Counts,
}

/// Takes out the values of Secrets, and what looks like a secret.
pub struct Scrubber {
    values: Option<AhoCorasick>,
    shapes: Shapes,
}

impl Scrubber {
    /// Looks for these values, and for all shapes.
    pub fn new(values: &SecretValues) -> Result<Self> {
        let values = if values.is_empty() {
            None
        } else {
            let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values.iter());
            Some(finder.context("too many values of Secrets to search for")?)
        };
        Ok(Self { values, shapes: Shapes::new()? })
    }

    /// The text without secrets.
    pub fn text(&self, text: &str) -> Scrubbed {
        let mut counts = Counts::new();
        let text = self.scrub(text, &mut counts);
        Scrubbed { text, counts }
    }

    /// The object as YAML, all its texts without secrets.
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
            // A number may be one that a Secret holds.
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

/// Whether no letter or digit stands beside the range.
fn is_word(text: &str, range: std::ops::Range<usize>) -> bool {
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    ![before, after].into_iter().flatten().any(char::is_alphanumeric)
}
