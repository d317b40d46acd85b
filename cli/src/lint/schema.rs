//! Checks a manifest against the schema of its kind and version: unknown and missing fields, wrong types and invalid
//! values.

use gcm::admission::places::{FieldPlaces, METADATA, is_common, nearest};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Number, Value};

use super::finding::Finding;
use super::tree::{YamlEntry, YamlNode, YamlValue};

/// Returns the findings about fields in `document` that violate `schema`, and about its metadata. `places` suggests
/// paths for unknown fields.
pub fn check_schema(document: &YamlNode, schema: &JSONSchemaProps, places: &FieldPlaces) -> Vec<Finding> {
    let mut walk = SchemaWalk { places, findings: Vec::new() };
    walk.metadata(document);
    walk.object(document, schema, "");
    walk.findings
}

struct SchemaWalk<'a> {
    places: &'a FieldPlaces,
    findings: Vec<Finding>,
}

impl SchemaWalk<'_> {
    fn value(&mut self, node: &YamlNode, schema: &JSONSchemaProps, path: &str) {
        if node.is_null() {
            if schema.nullable != Some(true) {
                self.findings.push(Finding::note(node.line, path, "it is empty, and left out"));
            }
            return;
        }
        if schema.x_kubernetes_int_or_string == Some(true) {
            if !matches!(&node.kind, YamlValue::Scalar(Value::String(_) | Value::Number(_))) {
                self.wrong_type(node, path, "a quantity such as 4Gi");
            }
            return;
        }
        match (schema.type_.as_deref(), &node.kind) {
            (Some("object"), YamlValue::Map(_)) => self.object(node, schema, path),
            (Some("array"), YamlValue::List(items)) => self.list(node, items, schema, path),
            (Some("string"), YamlValue::Scalar(Value::String(text))) => self.text(node, text, schema, path),
            (Some("integer"), YamlValue::Scalar(Value::Number(number)))
                if number.is_i64() || number.is_u64() =>
            {
                self.range(node, number, schema, path);
            }
            (Some("number"), YamlValue::Scalar(Value::Number(_)))
            | (Some("boolean"), YamlValue::Scalar(Value::Bool(_)))
            | (None, _) => {}
            (Some("string"), YamlValue::Scalar(_)) => {
                let reason = format!("it is {}, but it must be a text", kind_of(node));
                self.error(node.line, path, reason, "Put it in quotes, with all its digits");
            }
            (Some(_), _) => self.wrong_type(node, path, wanted(schema)),
        }
    }

    fn wrong_type(&mut self, node: &YamlNode, path: &str, wanted: &str) {
        let reason = format!("it is {}, but it must be {wanted}", kind_of(node));
        self.error(node.line, path, reason, format!("Write {wanted}"));
    }

    fn text(&mut self, node: &YamlNode, text: &str, schema: &JSONSchemaProps, path: &str) {
        let choices = schema.enum_.as_deref().unwrap_or_default();
        let choices: Vec<&str> = choices.iter().filter_map(|choice| choice.0.as_str()).collect();
        if !choices.is_empty() && !choices.contains(&text) {
            let remedy = format!("Use one of: {}", choices.join(", "));
            self.error(node.line, path, format!("{text:?} is not a valid value here"), remedy);
        }
        let longest = schema.max_length.and_then(|longest| usize::try_from(longest).ok());
        let length = text.chars().count();
        if let Some(longest) = longest.filter(|longest| length > *longest) {
            let remedy = format!("Use at most {longest} characters");
            self.error(node.line, path, "it is too long", remedy);
        }
        let shortest = schema.min_length.and_then(|shortest| usize::try_from(shortest).ok());
        if shortest.is_some_and(|shortest| length < shortest) {
            self.error(node.line, path, "it is missing", format!("Write {}", wanted(schema)));
        }
    }

    fn range(&mut self, node: &YamlNode, number: &Number, schema: &JSONSchemaProps, path: &str) {
        let Some(value) = number.as_f64() else { return };
        if let Some(least) = schema.minimum.filter(|least| value < *least) {
            self.error(
                node.line,
                path,
                format!("{number} is less than {least}"),
                format!("Use at least {least}"),
            );
        }
        if let Some(most) = schema.maximum.filter(|most| value > *most) {
            self.error(
                node.line,
                path,
                format!("{number} is more than {most}"),
                format!("Use at most {most}"),
            );
        }
    }

    fn list(&mut self, node: &YamlNode, items: &[YamlNode], schema: &JSONSchemaProps, path: &str) {
        let most = schema.max_items.and_then(|most| usize::try_from(most).ok());
        if let Some(most) = most.filter(|most| items.len() > *most) {
            let reason = format!("it has {} entries", items.len());
            self.error(node.line, path, reason, format!("Use at most {most}"));
        }
        if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
            for (at, node) in items.iter().enumerate() {
                let path = format!("{path}[{at}]");
                if node.is_null() && item.nullable != Some(true) {
                    self.wrong_type(node, &path, wanted(item));
                } else {
                    self.value(node, item, &path);
                }
            }
        }
    }

    fn object(&mut self, node: &YamlNode, schema: &JSONSchemaProps, path: &str) {
        let YamlValue::Map(entries) = &node.kind else { return };
        let inner = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let mut moved = Vec::new();
        for entry in entries {
            let known = schema.properties.as_ref().and_then(|properties| properties.get(&entry.key));
            match (known, &schema.additional_properties) {
                (Some(known), _) => self.value(&entry.value, known, &inner(&entry.key)),
                // The API server drops an empty field, but not an empty value in a map.
                (None, Some(JSONSchemaPropsOrBool::Schema(values)))
                    if entry.value.is_null() && values.nullable != Some(true) =>
                {
                    self.wrong_type(&entry.value, &inner(&entry.key), wanted(values));
                }
                (None, Some(JSONSchemaPropsOrBool::Schema(values))) => {
                    self.value(&entry.value, values, &inner(&entry.key));
                }
                (None, _) if is_open(schema) || (path.is_empty() && is_common(&entry.key)) => {}
                (None, _) => moved.extend(self.unknown(entry, schema, path)),
            }
        }
        for key in schema.required.iter().flatten() {
            let there = entries.iter().any(|entry| entry.key == *key && !entry.value.is_null());
            if there || moved.contains(key) {
                continue;
            }
            let remedy = format!("Add {key} to {}", name_of(path));
            if is_filled_in(path, key) {
                let reason = "it is missing, and the API server fills in 1";
                self.findings.push(Finding::warning(node.line, &inner(key), reason, remedy));
            } else {
                self.error(node.line, &inner(key), "it is missing", remedy);
            }
        }
    }

    /// Reports an unknown field. Returns the sibling field to which the value belongs, if there is one.
    fn unknown(&mut self, entry: &YamlEntry, schema: &JSONSchemaProps, path: &str) -> Option<String> {
        let advice = self.places.advise(path, &entry.key, schema);
        let full = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        self.error(entry.line, &full, advice.reason, advice.remedy);
        advice.neighbour
    }

    fn metadata(&mut self, document: &YamlNode) {
        let Some(metadata) = document.entry("metadata") else {
            return self.error(document.line, "metadata", "it is missing", "Add metadata with a name");
        };
        let YamlValue::Map(entries) = &metadata.value.kind else {
            return self.wrong_type(&metadata.value, "metadata", "a mapping");
        };
        for entry in entries.iter().filter(|entry| !METADATA.contains(&entry.key.as_str())) {
            let path = format!("metadata.{}", entry.key);
            let near = nearest(&entry.key, METADATA.iter().copied());
            let remedy = near.map_or_else(
                || "Remove it".to_owned(),
                |near| format!("Did you mean metadata.{near}? If not, remove it"),
            );
            self.error(entry.line, &path, "the field does not exist", remedy);
        }
        if !["name", "generateName"].iter().any(|key| metadata.value.get(key).is_some_and(|n| !n.is_null())) {
            self.error(metadata.line, "metadata.name", "it is missing", "Give the object a name");
        }
        for key in ["labels", "annotations"] {
            let Some(YamlNode { kind: YamlValue::Map(entries), .. }) = metadata.value.get(key) else {
                continue;
            };
            let is_text = |entry: &&YamlEntry| entry.value.text().is_some() || entry.value.is_null();
            for entry in entries.iter().filter(|entry| !is_text(entry)) {
                let path = format!("metadata.{key}.{}", entry.key);
                let reason = format!("it is {}, but it must be a text", kind_of(&entry.value));
                self.error(entry.line, &path, reason, "Put it in quotes");
            }
        }
    }

    fn error(&mut self, line: u64, field: &str, reason: impl Into<String>, remedy: impl Into<String>) {
        self.findings.push(Finding::error(line, field, reason, remedy));
    }
}

/// Returns true for a required field that admission fills in: the node count in v1alpha1.
fn is_filled_in(path: &str, key: &str) -> bool {
    key == "count" && ["spec.topology.controlPlane", "spec.topology.workers"].contains(&path)
}

fn is_open(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_preserve_unknown_fields == Some(true)
        || matches!(schema.additional_properties, Some(JSONSchemaPropsOrBool::Bool(true)))
}

fn name_of(path: &str) -> &str {
    if path.is_empty() { "the object" } else { path }
}

fn wanted(schema: &JSONSchemaProps) -> &'static str {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "a quantity such as 4Gi";
    }
    match schema.type_.as_deref() {
        Some("object") => "a mapping",
        Some("array") => "a list",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        _ => "a text",
    }
}

fn kind_of(node: &YamlNode) -> &'static str {
    match &node.kind {
        YamlValue::Map(_) => "a mapping",
        YamlValue::List(_) => "a list",
        YamlValue::Scalar(Value::Number(_)) => "a number",
        YamlValue::Scalar(Value::Bool(_)) => "true or false",
        YamlValue::Scalar(Value::Null) => "empty",
        YamlValue::Scalar(_) => "a text",
    }
}
