//! Adapts upstream manifests that kustomize has rendered. `hack/generate` writes the result to config/upstream.

use serde_json::Value;

use crate::error::Result;
use crate::manifest::{DEFINITION, parse};

/// Parses the `kubectl kustomize` output for a Cluster API provider. `what` names the provider in errors.
///
/// Variables are replaced with their defaults, as with clusterctl. Descriptions are removed from schemas, because they make
/// up two thirds of the CRDs, and the API server keeps several copies in memory.
pub fn from_kustomize(what: &str, yaml: &str) -> Result<Vec<Value>> {
    let mut documents = parse(what, &with_defaults(yaml))?;
    for document in &mut documents {
        if document["kind"] == DEFINITION {
            without_prose(document);
        }
    }
    Ok(documents)
}

/// Replaces every `${NAME:=default}` and `${NAME:-default}` with its default. Leaves variables without a default unchanged.
pub fn with_defaults(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, variable) = rest.split_at(start);
        out.push_str(before);
        let parsed = variable.find('}').and_then(|end| {
            let inner = &variable[2..end];
            let (_, default) = inner.split_once(":=").or_else(|| inner.split_once(":-"))?;
            Some((default, &variable[end + 1..]))
        });
        let (text, after) = parsed.unwrap_or(("${", &variable[2..]));
        out.push_str(text);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn without_prose(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            drop_descriptions(schema);
        }
    }
}

/// Removes the descriptions from a schema and its parts. Keeps properties that are called `description`.
fn drop_descriptions(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.remove("description");
    for (name, member) in members {
        match (name.as_str(), member) {
            ("properties" | "patternProperties" | "definitions", Value::Object(parts)) => {
                parts.values_mut().for_each(drop_descriptions);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                parts.iter_mut().for_each(drop_descriptions);
            }
            ("items" | "additionalProperties" | "not", part) => drop_descriptions(part),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_get_their_defaults() {
        for (text, expected) in [
            ("a ${X:=1} b", "a 1 b"),
            ("${X:-}", ""),
            ("${A:=${B}", "${B"),
            ("$X ${Y} ${unclosed", "$X ${Y} ${unclosed"),
            ("${A:=:8443}${B:=false}", ":8443false"),
        ] {
            assert_eq!(with_defaults(text), expected, "{text}");
        }
    }
}
