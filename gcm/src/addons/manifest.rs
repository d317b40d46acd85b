//! The objects of a bundle.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::bundle::BundleFile;
use super::render::{TEMPLATE, Values, render};

/// The most objects that a bundle may have.
pub const MAX_OBJECTS: usize = 500;

/// Which object: its kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The API group; empty for the core's.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace, of what has one.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// An object of a bundle, as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Which object.
    pub key: ObjectKey,
    /// The version of its API group.
    pub version: String,
    /// The whole of it.
    pub value: Value,
}

/// The objects of a bundle's files, those that others need before them first; within, in the order of the files.
///
/// # Errors
/// What can't be an object, with its file and place.
pub fn parse(files: &[BundleFile], values: &Values) -> Result<Vec<Manifest>, String> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for file in files {
        let rendered = file.name.ends_with(TEMPLATE).then(|| render(&file.text, values)).transpose();
        let rendered = rendered.map_err(|error| format!("{}: {error}", file.name))?;
        let documents = documents(file, rendered.as_deref().unwrap_or(&file.text))?;
        for (at, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
            let place = |what: String| format!("{}: document {}: {what}", file.name, at + 1);
            for object in items(document) {
                manifests.push(read(object).map_err(place)?);
            }
        }
    }
    if manifests.len() > MAX_OBJECTS {
        return Err(format!("it has {} objects, and {MAX_OBJECTS} are the most", manifests.len()));
    }
    let mut keys = BTreeSet::new();
    if let Some(double) = manifests.iter().find(|manifest| !keys.insert(&manifest.key)) {
        return Err(format!("{} is in it twice", double.key));
    }
    manifests.sort_by_key(|manifest| stage(&manifest.key));
    Ok(manifests)
}

fn documents(file: &BundleFile, text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple::<Value>(text).map_err(|error| {
        // The parser shows the text around the error.
        let reason = error.to_string();
        let reason = reason.lines().next().filter(|_| !file.secret).unwrap_or("it is not YAML");
        format!("{}: it can't be read: {reason}", file.name)
    })
}

/// The objects of a `List`, or the one object.
fn items(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"] == "List" && document["apiVersion"] == "v1";
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        Some(items) => {
            document["items"] = items;
            vec![document]
        }
        None => vec![document],
    }
}

/// The object of a document.
///
/// # Errors
/// What no object can be.
pub fn read(mut value: Value) -> Result<Manifest, String> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    if api_version.is_empty() || kind.is_empty() {
        return Err("it has no apiVersion or kind".to_owned());
    }
    if name.is_empty() {
        return Err(format!("{kind} has no metadata.name"));
    }
    let fits = |part: &str| {
        part.len() <= 253 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b))
    };
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), api_version),
    };
    // They become parts of a path.
    if ![&group, &version, &kind, &name, &namespace].into_iter().all(|part| fits(part))
        || name.starts_with('.')
    {
        return Err(format!("{kind} has a name, namespace or apiVersion that no object can have"));
    }
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        // What an exported object carries and nobody may apply.
        for exported in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
            metadata.remove(exported);
        }
    }
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    Ok(Manifest { key: ObjectKey { group, kind, namespace, name }, version, value })
}

/// Definitions, namespaces and classes first: the others may be of them, in them, or name them.
pub fn stage(key: &ObjectKey) -> u8 {
    match (key.group.as_str(), key.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") | ("", "Namespace") => 0,
        (group, kind) if kind.ends_with("Class") && group.ends_with(".k8s.io") => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<BundleFile> {
        vec![BundleFile { name: "a.yaml".into(), text: text.into(), secret: false }]
    }

    #[test]
    fn what_others_need_comes_first_and_lists_are_opened() {
        let text = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d, namespace: ns, uid: x, resourceVersion: '1'}
status: {numberReady: 1}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}
- {apiVersion: v1, kind: Namespace, metadata: {name: ns}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p}, value: 1}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crd.example.com}
";
        let manifests = parse(&file(text), &Values::default()).unwrap();
        let keys: Vec<_> = manifests.iter().map(|manifest| manifest.key.to_string()).collect();
        let first = ["Namespace ns", "PriorityClass p", "CustomResourceDefinition crd.example.com"];
        assert_eq!(keys[..3], first);
        assert_eq!(keys[3..], ["DaemonSet ns/d", "ConfigMap ns/c"]);
        assert_eq!(manifests[3].value["metadata"], serde_json::json!({"name": "d", "namespace": "ns"}));
        assert!(manifests[3].value.get("status").is_none());
        assert_eq!((manifests[3].key.group.as_str(), manifests[3].version.as_str()), ("apps", "v1"));
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        for (text, part) in [
            ("a: b", "document 1: it has no apiVersion or kind"),
            ("kind: x\napiVersion: v1", "x has no metadata.name"),
            ("a: [", "a.yaml: it can't be read"),
            ("{apiVersion: v1, kind: Pod, metadata: {name: ../x}}", "no object can have"),
            ("{apiVersion: v1/../.., kind: Pod, metadata: {name: x}}", "no object can have"),
        ] {
            let error = parse(&file(text), &Values::default()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let one = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: x}}";
        assert!(parse(&file(&one.repeat(2)), &Values::default()).unwrap_err().contains("twice"));
        let many: String =
            (0..=MAX_OBJECTS).map(|n| one.replace("name: x", &format!("name: x{n}"))).collect();
        assert!(parse(&file(&many), &Values::default()).unwrap_err().contains("500"));
    }

    #[test]
    fn the_text_of_a_secret_is_in_no_message() {
        let secret = vec![BundleFile { name: "s".into(), text: "canary: [".into(), secret: true }];
        assert!(!parse(&secret, &Values::default()).unwrap_err().contains("canary"));
    }
}
