//! Parses a bundle's objects.

use std::collections::BTreeSet;
use std::fmt;

use bounds::{Budget, YamlError, from_yaml_documents};
use serde_json::Value;

use super::bundle::{BundleError, BundleFile};
use super::render::{TEMPLATE, Values, render};

/// The maximum number of objects in a bundle.
pub const MAX_OBJECTS: usize = 500;

/// An object's identity: group, kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The API group. Empty for the core group.
    pub group: String,
    pub kind: String,
    /// The namespace, for namespaced objects.
    pub namespace: Option<String>,
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

/// A desired object from a bundle. `Debug` doesn't print its content, which can be a Secret.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    pub key: ObjectKey,
    /// The version within the API group.
    pub version: String,
    /// The whole object as a JSON string, which takes a tenth of the memory of a `Value`.
    pub json: String,
    /// True if the object comes from a Secret. Messages from the workload cluster can quote the object, so they aren't shown.
    pub secret: bool,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({}, <{} bytes>)", self.key, self.json.len())
    }
}

impl Manifest {
    /// Returns the whole object.
    pub fn value(&self) -> Value {
        // This can't fail, because the string was serialized from a value.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// Parses the objects in a bundle's files. Sorts objects that others depend on first, and otherwise keeps the file order. All
/// files, including rendered templates, share one budget.
///
/// # Errors
/// Returns an error with the file name and document number if an object is invalid or duplicate, and an error if the bundle
/// exceeds the budget or [`MAX_OBJECTS`]. Errors don't quote file contents.
pub fn parse(files: &[BundleFile], values: &Values, budget: &Budget) -> Result<Vec<Manifest>, BundleError> {
    let mut manifests: Vec<Manifest> = Vec::new();
    let mut keys = BTreeSet::new();
    for file in files {
        let in_file = |error: BundleError| match error {
            BundleError::Invalid(reason) => BundleError::Invalid(format!("{}: {reason}", file.name)),
            exceeded @ BundleError::Exceeded(_) => exceeded,
        };
        let text = file.text.expose();
        let rendered = file.name.ends_with(TEMPLATE).then(|| render(text, values, budget)).transpose();
        let rendered = rendered.map_err(in_file)?;
        let documents = documents(rendered.as_deref().unwrap_or(text), budget).map_err(in_file)?;
        for (at, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
            let place = |what: &str| format!("{}: document {}: {what}", file.name, at + 1);
            for object in items(document) {
                let manifest = Manifest { secret: file.secret, ..read(object).map_err(place)? };
                budget.spend(manifest.json.len())?;
                if !keys.insert(manifest.key.clone()) {
                    return Err(place("it contains an object that the bundle contains already").into());
                }
                manifests.push(manifest);
            }
        }
    }
    if manifests.len() > MAX_OBJECTS {
        let objects = manifests.len();
        return Err(format!("it has {objects} objects; the limit is {MAX_OBJECTS}").into());
    }
    manifests.sort_by_key(|manifest| stage(&manifest.key));
    Ok(manifests)
}

fn documents(text: &str, budget: &Budget) -> Result<Vec<Value>, BundleError> {
    from_yaml_documents(text, budget).map_err(|error| match error {
        YamlError::Exceeded(exceeded) => exceeded.into(),
        error @ YamlError::Invalid { .. } => BundleError::Invalid(format!("it can't be read: it {error}")),
    })
}

/// Returns the items of a `List`, or the document itself if it isn't a `List`.
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

/// Parses an object.
///
/// # Errors
/// Returns the reason why the document can't be an object. The error doesn't quote the document, which can come from a Secret.
pub fn read(mut value: Value) -> Result<Manifest, &'static str> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    if api_version.is_empty() || kind.is_empty() {
        return Err("it has no apiVersion or kind");
    }
    if name.is_empty() {
        return Err("it has no metadata.name");
    }
    let fits = |part: &str| {
        part.len() <= 253 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:+".contains(&b))
    };
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), api_version),
    };
    // These strings become parts of a URL path.
    if ![&group, &version, &kind, &name, &namespace].into_iter().all(|part| fits(part))
        || name.starts_with('.')
    {
        return Err("it has a kind, name, namespace or apiVersion that no object can have");
    }
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        // Remove the fields of exported objects that can't be applied.
        for exported in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
            metadata.remove(exported);
        }
    }
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let key = ObjectKey { group, kind, namespace, name };
    Ok(Manifest { key, version, json: value.to_string(), secret: false })
}

/// Returns the stage in which an object is applied. CustomResourceDefinitions, Namespaces and classes are applied in stage 0, and
/// all other objects, which can depend on them, in stage 1.
pub fn stage(key: &ObjectKey) -> u8 {
    match (key.group.as_str(), key.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") | ("", "Namespace") => 0,
        (group, kind) if kind.ends_with("Class") && group.ends_with(".k8s.io") => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use bounds::Confidential;

    use super::*;
    use crate::addons::bundle::{LIMITS, MAX_BYTES};

    fn parse(files: &[BundleFile], values: &Values) -> Result<Vec<Manifest>, String> {
        super::parse(files, values, &Budget::new(LIMITS.bytes)).map_err(|error| error.to_string())
    }

    fn file(text: &str) -> Vec<BundleFile> {
        vec![BundleFile { name: "a.yaml".into(), text: Confidential::new(text.into()), secret: false }]
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
        assert_eq!(manifests[3].value()["metadata"], serde_json::json!({"name": "d", "namespace": "ns"}));
        assert!(manifests[3].value().get("status").is_none());
        assert_eq!((manifests[3].key.group.as_str(), manifests[3].version.as_str()), ("apps", "v1"));
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        for (text, part) in [
            ("a: b", "document 1: it has no apiVersion or kind"),
            ("kind: x\napiVersion: v1", "document 1: it has no metadata.name"),
            ("a: [", "a.yaml: it can't be read"),
            ("{apiVersion: v1, kind: Pod, metadata: {name: ../x}}", "no object can have"),
            ("{apiVersion: v1/../.., kind: Pod, metadata: {name: x}}", "no object can have"),
        ] {
            let error = parse(&file(text), &Values::default()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let one = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: x}}";
        assert!(parse(&file(&one.repeat(2)), &Values::default()).unwrap_err().contains("contains already"));
        let many: String =
            (0..=MAX_OBJECTS).map(|n| one.replace("name: x", &format!("name: x{n}"))).collect();
        assert!(parse(&file(&many), &Values::default()).unwrap_err().contains("500"));
    }

    #[test]
    fn the_text_of_a_secret_is_in_no_message() {
        for text in [
            "canary: [",
            "{apiVersion: v1, kind: canary}",
            "{apiVersion: v1, kind: Secret, metadata: {name: canary/}}",
            "{apiVersion: v1, kind: canary, metadata: {name: a}}\n---\n{apiVersion: v1, kind: canary, metadata: {name: a}}",
        ] {
            let text = Confidential::new(text.to_owned());
            let secret = vec![BundleFile { name: "s".into(), text, secret: true }];
            let error = parse(&secret, &Values::default()).unwrap_err();
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn debug_output_of_a_manifest_omits_its_content() {
        let text = "{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {a: canary}}";
        let shown = format!("{:?}", parse(&file(text), &Values::default()).unwrap());
        assert!(shown.contains("Secret x") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn a_bundle_becomes_no_more_than_its_budget() {
        let line = "x".repeat(1_000_000);
        let aliases = (1..59).map(|n| format!("  a{n}: *a\n")).collect::<Vec<_>>().concat();
        let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n";
        let bomb = format!("{head}  a0: &a \"{line}\"\n{aliases}");
        let error = parse(&file(&bomb), &Values::default()).unwrap_err();
        assert!(error.contains("a.yaml: it can't be read: it has an anchor or an alias"), "{error}");
        assert!(error.contains("write its value out"), "{error}");

        let values = Values { service_domain: "x".repeat(253), ..Values::default() };
        let template = format!("{head}  a: \"{}\"", "{{service_domain}}".repeat(50_000));
        let files: Vec<_> = (0..3)
            .map(|n| BundleFile {
                name: format!("{n}.yaml.jinja"),
                text: Confidential::new(template.clone()),
                secret: false,
            })
            .collect();
        let error = parse(&files, &values).unwrap_err();
        assert!(
            error.contains("the computation needs more than 50331648 bytes of memory. Remove objects"),
            "{error}"
        );

        // One-letter values take more memory than their YAML.
        let dense = format!("{head}  a: [{}]", "0,".repeat(MAX_BYTES / 2));
        assert!(parse(&file(&dense), &Values::default()).unwrap_err().contains("bytes of memory"));
    }

    #[test]
    fn bundles_as_large_as_they_may_be_are_read() {
        let text = |name: &str, value: &str| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  a: |\n    {value}\n"
            )
        };
        let half = "x".repeat(MAX_BYTES / 2 - 200);
        let files = file(&(text("a", &half) + &text("b", &half)));
        assert_eq!(parse(&files, &Values::default()).unwrap().len(), 2);
        let indent = " ".repeat(18);
        let field = |n: usize| {
            format!(
                "{indent}f{n}:\n{indent}  description: Number of desired pods.\n{indent}  type: integer\n"
            )
        };
        let fields = (0..MAX_BYTES / field(10_000).len() - 2).map(field).collect::<Vec<_>>().concat();
        let head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec:\n  properties:\n";
        let definitions = file(&(head.to_owned() + &fields));
        let read = parse(&definitions, &Values::default());
        assert!(read.is_ok(), "{:?} of {} bytes", read.err(), definitions[0].text.expose().len());
    }
}
