//! Selects an object's listed fields. This module doesn't perform I/O.

use std::collections::BTreeMap;

use api::names::hex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::allowlist::{FieldTree, Treatment};

/// The number of skipped fields by path. Map keys appear as `*`, because users choose them.
pub type LeftOut = BTreeMap<String, usize>;

/// Returns the listed fields of `object`, and counts the others in `left_out`.
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
            // Keep a map that is empty in the object. Drop a map that lost all its entries.
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

/// Returns true if a name looks like a schema field: at most 40 letters, without other characters. Other names may come
/// from users and contain secrets.
fn is_field(name: &str) -> bool {
    name.len() <= 40 && name.chars().all(|c| c.is_ascii_alphabetic())
}

/// Returns the first 8 bytes of the SHA-256 in hexadecimal, which are enough to compare values.
fn hash(text: &str) -> String {
    format!("sha256:{}…", hex(&Sha256::digest(text.as_bytes())[..8]))
}

/// Returns only the scheme, host and port, without credentials and path.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // A password may contain a slash, so only the text after the last `@` certainly isn't part of it.
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
