//! YAML documents with line numbers.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A value with its line number.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// The line where the value begins, from 1.
    pub line: u64,
    pub kind: YamlValue,
}

#[derive(Clone, Debug)]
pub enum YamlValue {
    /// A string, a number, a boolean or null.
    Scalar(Value),
    List(Vec<YamlNode>),
    /// A mapping in document order.
    Map(Vec<YamlEntry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct YamlEntry {
    pub key: String,
    /// The line of the key, from 1.
    pub line: u64,
    pub value: YamlNode,
}

/// The error for a string that isn't YAML.
#[derive(Debug)]
pub struct NotYaml {
    /// The line of the error, from 1. It is 0 if the line is unknown.
    pub line: u64,
    pub reason: String,
}

/// Parses the documents in a YAML string and skips empty documents.
pub fn documents(text: &str) -> Result<Vec<YamlNode>, NotYaml> {
    serde_saphyr::from_multiple(text).map_err(|error| NotYaml {
        line: error.location().map_or(0, |location| location.line()),
        // A snippet of the text could contain a proxy's password.
        reason: error.without_snippet().to_string(),
    })
}

impl YamlNode {
    /// Returns the value for a key in a mapping, or `None` if the key doesn't exist.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the entry for a key in a mapping, or `None` if the key doesn't exist.
    pub fn entry(&self, key: &str) -> Option<&YamlEntry> {
        let YamlValue::Map(entries) = &self.kind else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    /// Returns the string, or `None` if the value isn't a string.
    pub fn text(&self) -> Option<&str> {
        let YamlValue::Scalar(Value::String(text)) = &self.kind else { return None };
        Some(text)
    }

    /// Returns true for `null`, and for a key without a value.
    pub fn is_null(&self) -> bool {
        matches!(self.kind, YamlValue::Scalar(Value::Null))
    }

    /// Returns the value without line numbers.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            YamlValue::Scalar(value) => value.clone(),
            YamlValue::List(items) => items.iter().map(YamlNode::to_json).collect(),
            YamlValue::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the line of a path such as `spec.topology.nodePools[0].name`, and true. If the path doesn't exist,
    /// returns the line of its longest existing prefix, and false.
    pub fn find(&self, path: &str) -> (u64, bool) {
        let (mut node, mut line) = (self, self.line);
        for step in steps(path) {
            let next = match (&node.kind, step.parse::<usize>()) {
                (YamlValue::List(items), Ok(at)) => items.get(at).map(|item| (item, item.line)),
                _ => node.entry(step).map(|entry| (&entry.value, entry.line)),
            };
            let Some((next, at)) = next else { return (line, false) };
            (node, line) = (next, at);
        }
        (line, true)
    }
}

/// Splits a path into steps. A key in brackets, such as an annotation, can contain dots.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let parts = path.split('[').enumerate().flat_map(|(at, part)| {
        let (key, rest) = if at == 0 { ("", part) } else { part.split_once(']').unwrap_or((part, "")) };
        std::iter::once(key).chain(rest.split('.'))
    });
    parts.filter(|step| !step.is_empty())
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<YamlValue>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), kind: spanned.value })
    }
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

fn scalar(value: impl Into<Value>) -> YamlValue {
    YamlValue::Scalar(value.into())
}

impl<'de> de::Visitor<'de> for Anything {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlValue, D::Error> {
        YamlValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlValue, E> {
        Ok(scalar(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlValue, E> {
        Ok(scalar(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlValue, E> {
        Ok(scalar(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<YamlValue, E> {
        Ok(scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlValue, E> {
        Ok(scalar(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(YamlValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlValue, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, YamlNode>()? {
            entries.push(YamlEntry { line: key.referenced.line(), key: key.value, value });
        }
        Ok(YamlValue::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_text() {
        let text =
            "# a comment\na: 1\nb:\n- c: x\t # tab\n- d:\n    e: [1,\n      2]\n---\n# nothing\n---\nf: g";
        let documents = documents(text).unwrap();
        let first = &documents[0];
        assert_eq!(first.find("a"), (2, true));
        assert_eq!(first.find("b[0].c"), (4, true));
        assert_eq!(first.find("b[1].d.e[1]"), (7, true));
        assert_eq!(first.find("b[1].d.x.y"), (5, false));
        assert_eq!(super::documents("m:\n  a.b/c: 1\n").unwrap()[0].find("m[a.b/c]"), (2, true));
        assert_eq!(first.get("b").unwrap().to_json()[0]["c"], "x");
        assert_eq!(documents.last().unwrap().find("f"), (11, true));
    }

    #[test]
    fn what_is_no_yaml_is_reported_without_quoting_it() {
        let error = documents("a: 1\nhttpProxy: http://user:secret@host: : [\n").unwrap_err();
        assert!(error.line >= 2, "{error:?}");
        assert!(!error.reason.contains("secret"), "{error:?}");
    }
}
