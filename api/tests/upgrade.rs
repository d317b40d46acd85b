//! Tests that upgrades are lossless: today's CRDs accept and keep everything that the CRDs of an earlier release
//! accepted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

#[test]
fn whatever_an_earlier_release_stored_is_valid_and_kept() {
    let today: BTreeMap<_, _> = api::crds::all()
        .into_iter()
        .map(|definition| serde_json::to_value(definition).unwrap())
        .map(|definition| (definition["metadata"]["name"].as_str().unwrap().to_owned(), definition))
        .collect();
    let mut lost = Vec::new();
    let definitions = definitions();
    assert!(!definitions.is_empty());
    for before in definitions {
        let name = before["metadata"]["name"].as_str().unwrap();
        match today.get(name) {
            Some(now) => compare_definitions(name, &before, now, &mut lost),
            None => lost.push(format!("{name} is no longer defined")),
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn what_would_be_lost_is_named() {
    let before = json!({
        "type": "object", "required": ["a"],
        "properties": {
            "a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "integer"},
            "c": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "string"}}}},
        },
    });
    let now = json!({
        "type": "object", "required": ["a", "e"],
        "properties": {
            "a": {"type": "string", "enum": ["x"], "maxLength": 3}, "b": {"type": "string"}, "e": {"type": "string"},
            "c": {"type": "array", "items": {"type": "object", "properties": {}}},
        },
    });
    let mut lost = Vec::new();
    compare_schemas("K", &before, &now, &mut lost);
    let expected = [
        "K: required has e, too",
        "K.a: enum lacks \"y\"",
        "K.a: maxLength is new or another",
        "K.b: type is new or another",
        "K.c[]: the field d is gone",
    ];
    assert_eq!(lost, expected);
    lost.clear();
    compare_schemas("K", &before, &before, &mut lost);
    assert!(lost.is_empty(), "{lost:?}");
}

/// Returns the CRDs of all releases.
fn definitions() -> Vec<Value> {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/releases");
    let entries = std::fs::read_dir(releases).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries
        .filter(|path| path.is_dir())
        .map(|release| std::fs::read_to_string(release.join("crds.jsonl")).unwrap());
    let parse =
        |text: String| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>();
    texts.flat_map(parse).collect()
}

fn compare_definitions(name: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    for part in ["group", "names", "scope"] {
        let (before, now) = (&before["spec"][part], &now["spec"][part]);
        let differs = before["shortNames"].as_array() != now["shortNames"].as_array()
            || before["plural"] != now["plural"]
            || before["kind"] != now["kind"]
            || (!before.is_object() && before != now);
        if differs {
            lost.push(format!("{name}: spec.{part} is another"));
        }
    }
    for before in before["spec"]["versions"].as_array().unwrap() {
        let version = &before["name"];
        let now = now["spec"]["versions"].as_array().unwrap().iter().find(|now| now["name"] == *version);
        match now {
            Some(now) if now["served"] == true || before["served"] == false => {
                if before["subresources"] != now["subresources"] {
                    lost.push(format!("{name} {version}: subresources are others"));
                }
                let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
                compare_schemas(&format!("{name} {version}"), &schema(before), &schema(now), lost);
            }
            _ => lost.push(format!("{name} {version} is no longer served")),
        }
    }
}

/// Collects everything that `before` allowed and `now` rejects or drops.
fn compare_schemas(path: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    let items = |schema: &Value, key: &str| schema[key].as_array().cloned().unwrap_or_default();
    for required in items(now, "required") {
        if !items(before, "required").contains(&required) {
            lost.push(format!("{path}: required has {}, too", required.as_str().unwrap()));
        }
    }
    if now.get("enum").is_some() {
        let gone = items(before, "enum").into_iter().filter(|value| !items(now, "enum").contains(value));
        lost.extend(gone.map(|value| format!("{path}: enum lacks {value}")));
        if before.get("enum").is_none() {
            lost.push(format!("{path}: enum is new"));
        }
    }
    for bound in
        ["maxLength", "minLength", "pattern", "maximum", "minimum", "maxItems", "minItems", "type", "format"]
    {
        let (before, now) = (before.get(bound), now.get(bound));
        // The API server doesn't reject stored values, and such a high limit doesn't reject reasonable ones.
        let generous = match bound {
            "maxLength" => now.and_then(Value::as_u64).is_some_and(|most| most >= 4096),
            "maximum" => now.and_then(Value::as_f64).is_some_and(|most| most >= 5000.0),
            "maxItems" => now.and_then(Value::as_u64).is_some_and(|most| most >= 256),
            _ => false,
        };
        if now.is_some() && before != now && !(before.is_none() && generous) {
            lost.push(format!("{path}: {bound} is new or another"));
        }
    }
    compare_parts(path, before, now, lost);
}

fn compare_parts(path: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    if before[PRESERVE] == true && now[PRESERVE] != true {
        lost.push(format!("{path}: unknown fields are dropped"));
    }
    if before["nullable"] == true && now["nullable"] != true {
        lost.push(format!("{path}: null is refused"));
    }
    for (name, before) in before["properties"].as_object().into_iter().flatten() {
        match now["properties"].get(name) {
            Some(now) => compare_schemas(&format!("{path}.{name}"), before, now, lost),
            None if now[PRESERVE] == true => {}
            None => lost.push(format!("{path}: the field {name} is gone")),
        }
    }
    for (key, name) in [("items", "[]"), ("additionalProperties", "{}")] {
        if before[key].is_object() {
            compare_schemas(&format!("{path}{name}"), &before[key], &now[key], lost);
        }
    }
}
