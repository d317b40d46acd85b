//! What is taken of one object, and what is left out. Pure.

use std::collections::BTreeMap;

use api::names::hex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::allowlist::{FieldTree, Treatment};

/// Fields that were left out, by path, with how often. A path has no key of a map in it: anybody chooses those.
pub type LeftOut = BTreeMap<String, usize>;

/// The listed fields of `object`; the others are counted in `left_out`.
pub fn select(object: &Value, fields: &FieldTree, left_out: &mut LeftOut) -> Value {
    select_value(object, fields, "", left_out).unwrap_or_else(|| Value::Object(Map::new()))
}

fn select_value(value: &Value, fields: &FieldTree, path: &str, left_out: &mut LeftOut) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(map) if !fields.fields.is_empty() || fields.is_map() => {
            let mut taken = Map::new();
            for (name, value) in map {
                let shown = if fields.is_map() || !is_field(name) { "*" } else { name };
                let path = if path.is_empty() { shown.to_owned() } else { format!("{path}.{shown}") };
                let value = match fields.below(name) {
                    Some(below) => select_value(value, below, &path, left_out),
                    None => leave_out(&path, left_out),
                };
                taken.extend(value.map(|value| (name.clone(), value)));
            }
            // An empty map says something, one that nothing is taken of does not.
            (map.is_empty() || !taken.is_empty()).then_some(Value::Object(taken))
        }
        Value::Array(items) if fields.items.is_some() => {
            let of_items = fields.items.as_deref()?;
            let path = format!("{path}[]");
            Some(items.iter().filter_map(|item| select_value(item, of_items, &path, left_out)).collect())
        }
        Value::Object(_) | Value::Array(_) => leave_out(path, left_out),
        single => match fields.value {
            Some(treatment) => Some(treat(single, treatment)),
            None => leave_out(path, left_out),
        },
    }
}

fn leave_out(path: &str, left_out: &mut LeftOut) -> Option<Value> {
    *left_out.entry(path.to_owned()).or_default() += 1;
    None
}

fn treat(value: &Value, treatment: Treatment) -> Value {
    let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match treatment {
        Treatment::Take => value.clone(),
        Treatment::Hash => Value::String(hash(&text())),
        Treatment::Host => Value::String(host(&text())),
    }
}

/// Whether a name looks like one that a kind's author gave: with a digit or a dash it may be anybody's, and a secret.
fn is_field(name: &str) -> bool {
    name.len() <= 40 && name.chars().all(|c| c.is_ascii_alphabetic())
}

/// Enough of the SHA-256 to recognize the value by.
fn hash(text: &str) -> String {
    format!("sha256:{}…", hex(&Sha256::digest(text.as_bytes())[..8]))
}

/// Scheme, host and port: neither user, password nor path.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // A password may have a slash in it: only what is behind the last @ can be no part of one.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_cut_to_its_host() {
        assert_eq!(host("http://ann:s3cret@proxy.test:3128/path?x=y"), "http://proxy.test:3128");
        assert_eq!(host("http://ann:s3/c@ret@proxy.test"), "http://proxy.test");
        assert_eq!(host("proxy.test:3128"), "proxy.test:3128");
    }

    #[test]
    fn a_hash_is_the_same_for_the_same_value() {
        assert_eq!(hash("a"), "sha256:ca978112ca1bbdca…");
        assert_ne!(hash("a"), hash("b"));
    }
}
