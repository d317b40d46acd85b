//! Tests the conversion of partial objects, which the API server sends for server-side apply: every kind with a
//! conversion webhook keeps all fields that are present.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

type Convert = fn(&Value, &str) -> Result<Value, String>;

/// The kinds with a conversion webhook, and their conversion functions.
const CONVERTED: [(&str, Convert); 2] = [
    ("TanzuKubernetesCluster", |object, to| api::gcm::convert(object, to).map_err(|error| error.to_string())),
    ("VirtualMachine", |object, to| api::vmop::convert(object, to).map_err(|error| error.to_string())),
];

fn definition(kind: &str) -> CustomResourceDefinition {
    crds::all().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap()
}

fn versions(crd: &CustomResourceDefinition) -> Vec<String> {
    crd.spec.versions.iter().map(|version| format!("{}/{}", crd.spec.group, version.name)).collect()
}

/// Generates a value for a schema in which any part is missing or null.
fn partial(schema: &JSONSchemaProps) -> BoxedStrategy<Value> {
    if let Some(words) = &schema.enum_ {
        return prop::sample::select(words.iter().map(|word| word.0.clone()).collect::<Vec<_>>()).boxed();
    }
    match schema.type_.as_deref() {
        Some("object") => partial_object(schema),
        Some("array") => match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => {
                prop::collection::vec(prop_oneof![9 => partial(items), 1 => Just(Value::Null)], 0..3)
                    .prop_map(Value::from)
                    .boxed()
            }
            _ => Just(json!([])).boxed(),
        },
        Some("integer" | "number") => (0..100i32).prop_map(Value::from).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        _ if schema.format.as_deref() == Some("date-time") => Just(json!("2026-01-01T00:00:00Z")).boxed(),
        _ if schema.x_kubernetes_int_or_string == Some(true) => {
            prop_oneof![(1..100i32).prop_map(Value::from), Just(json!("4Gi"))].boxed()
        }
        _ => "[a-z]{1,4}".prop_map(Value::from).boxed(),
    }
}

fn partial_object(schema: &JSONSchemaProps) -> BoxedStrategy<Value> {
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        let values = prop::collection::btree_map("[a-z]{1,3}", partial(values), 0..3);
        return values.prop_map(|values| Value::Object(values.into_iter().collect())).boxed();
    }
    let mut object = Just(Map::new()).boxed();
    for (name, property) in schema.properties.iter().flatten() {
        let member = Union::new_weighted(vec![
            (5, partial(property).prop_map(Some).boxed()),
            (4, Just(None).boxed()),
            (1, Just(Some(Value::Null)).boxed()),
        ]);
        let name = name.clone();
        object = (object, member)
            .prop_map(move |(mut object, member)| {
                object.extend(member.map(|member| (name.clone(), member)));
                object
            })
            .boxed();
    }
    object.prop_map(Value::Object).boxed()
}

/// Generates partial objects in one version.
fn objects(crd: &CustomResourceDefinition, api_version: &str) -> BoxedStrategy<Value> {
    let schema =
        crd.spec.versions.iter().find(|version| api_version.ends_with(&format!("/{}", version.name)));
    let schema = schema.unwrap().schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let part = |name: &str| {
        let schema = schema.properties.as_ref().unwrap()[name].clone();
        prop_oneof![8 => partial(&schema).prop_map(Some), 1 => Just(Some(Value::Null)), 1 => Just(None)]
    };
    let texts = prop_oneof![Just(json!({"team": "a"})), Just(Value::Null)];
    let metadata = prop_oneof![
        Just(None),
        texts.clone().prop_map(|texts| Some(json!({"annotations": texts}))),
        texts.prop_map(|texts| Some(json!({"name": "c", "labels": texts}))),
    ];
    let (kind, api_version) = (crd.spec.names.kind.clone(), api_version.to_owned());
    (part("spec"), part("status"), metadata)
        .prop_map(move |(spec, status, metadata)| {
            let mut object = json!({"apiVersion": api_version, "kind": kind});
            for (name, part) in [("metadata", metadata), ("spec", spec), ("status", status)] {
                object.as_object_mut().unwrap().extend(part.map(|part| (name.to_owned(), part)));
            }
            object
        })
        .boxed()
}

/// The read-only v1alpha2 fields of VirtualMachines, which v1alpha1 represents in another form.
const SHOWN: [&str; 4] = [".spec.bootstrap", ".spec.advanced", ".spec.network", ".status.network.primaryIP"];

/// Returns the leaves of `part` that are missing in `whole`. Nulls, empty lists and empty objects aren't leaves.
fn lost(part: &Value, whole: &Value, at: &str) -> Vec<String> {
    match (part, whole) {
        (Value::Null, _) => Vec::new(),
        (Value::Object(part), whole) => {
            part.iter().flat_map(|(key, value)| lost(value, &whole[key], &format!("{at}.{key}"))).collect()
        }
        (Value::Array(part), whole) => {
            let whole = whole.as_array().into_iter().flatten().filter(|item| !item.is_null());
            let whole: Vec<_> = whole.collect();
            let items = part.iter().filter(|item| !item.is_null()).enumerate();
            let item_of = |index: usize| whole.get(index).copied().unwrap_or(&Value::Null);
            items.flat_map(|(index, item)| lost(item, item_of(index), &format!("{at}[{index}]"))).collect()
        }
        // A quantity can be a number, and is written as text.
        (part, whole) if text(part) == text(whole) => Vec::new(),
        (part, whole) => vec![format!("{at}: {part} → {whole}")],
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn every_kind_with_a_conversion_webhook_is_tested() {
    let converted = |crd: &CustomResourceDefinition| crd.spec.conversion.is_some();
    let kinds: Vec<_> = crds::all().into_iter().filter(converted).map(|crd| crd.spec.names.kind).collect();
    assert_eq!(kinds, CONVERTED.map(|(kind, _)| kind));
}

#[test]
fn partial_objects_are_converted_and_lose_nothing() {
    for (kind, convert) in CONVERTED {
        let crd = definition(kind);
        let versions = versions(&crd);
        for (from, to) in versions.iter().flat_map(|from| versions.iter().map(move |to| (from, to))) {
            let mut runner = proptest::test_runner::TestRunner::deterministic();
            let checked = runner.run(&objects(&crd, from), |object| {
                let converted = convert(&object, to).map_err(TestCaseError::fail)?;
                let metadata = &converted["metadata"];
                let is_whole = object["metadata"]["name"].is_string();
                let has_texts =
                    |field: &str| metadata[field].as_object().is_some_and(|texts| !texts.is_empty());
                prop_assert!(metadata.is_object(), "{converted}");
                prop_assert!(is_whole || (has_texts("labels") && has_texts("annotations")), "{converted}");
                prop_assert_eq!(converted["apiVersion"].as_str(), Some(to.as_str()));
                let back = convert(&converted, from).map_err(TestCaseError::fail)?;
                let mut lost = lost(&object, &back, "");
                if from == "vmoperator.vmware.com/v1alpha2" {
                    lost.retain(|leaf| !SHOWN.iter().any(|shown| leaf.starts_with(shown)));
                }
                prop_assert!(lost.is_empty(), "{lost:?}\n{object}\n{converted}\n{back}");
                Ok(())
            });
            checked.unwrap_or_else(|error| panic!("{kind} {from} → {to}: {error}"));
        }
    }
}

/// A conversion must not create a missing node group, because its field manager would then own it.
#[test]
fn no_group_of_nodes_is_made_up() {
    let convert = |object: &Value, to: &str| api::gcm::convert(object, to).unwrap();
    let [v1, v3] = ["run.tanzu.vmware.com/v1alpha1", "run.tanzu.vmware.com/v1alpha3"];
    let of = |version: &str, topology: Value| json!({"apiVersion": version, "kind": "TanzuKubernetesCluster", "spec": {"topology": topology}});
    let none = convert(&of(v1, json!({})), v3);
    assert_eq!(none["spec"], json!({}));
    let scaled = convert(&of(v1, json!({"controlPlane": {"count": 3}, "workers": null})), v3);
    assert_eq!(scaled["spec"]["topology"], json!({"controlPlane": {"replicas": 3}}));
    let classed = convert(&of(v3, json!({"controlPlane": {"vmClass": "small"}})), v1);
    assert_eq!(classed["spec"]["topology"], json!({"controlPlane": {"count": 1, "class": "small"}}));
    let pool = convert(&of(v3, json!({"nodePools": [{"name": "a", "replicas": 2}]})), v1);
    assert_eq!(pool["spec"]["topology"], json!({"workers": {"count": 2}}));
}

/// The API server rejects a converted object whose labels or annotations have null values.
#[test]
fn labels_and_annotations_that_are_null_are_dropped() {
    for (kind, convert) in CONVERTED {
        let crd = definition(kind);
        let versions = versions(&crd);
        for (from, to) in versions.iter().flat_map(|from| versions.iter().map(move |to| (from, to))) {
            let texts = json!({"a": null, "b": "c"});
            let object = json!({
                "apiVersion": from, "kind": kind,
                "metadata": {"name": "o", "labels": texts, "annotations": texts},
            });
            let converted = convert(&object, to).unwrap();
            for field in ["labels", "annotations"] {
                let texts = converted["metadata"][field].as_object().unwrap();
                assert_eq!((texts.get("a"), &texts["b"]), (None, &json!("c")), "{kind} {from} to {to}");
            }
        }
    }
}
