//! Tests which fields are taken from each kind that has a schema.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use regex::Regex;

use super::canaries::Canaries;
use crate::bundle::allowlist::{Treatment, expanded, listed_paths, rules};
use crate::bundle::select::{LeftOut, select};

/// Paths that must never be taken, whatever the allow-list says.
const NEVER: &str = r"(?i)(^|[.\[])(data|stringData|binaryData|content|contents|userdata|vendordata|password|passwd|response|publicKey|ovfEnv|configSpec|default|last-applied|conversion-data|annotation|label|manager|managed-field|self-link|.*commands|mounts|additionalConfig|kubeConfig|extraEnvs|extraArgs|users)(\[|\.|$)|token(\[\])?$";

/// Returns each kind that has a CRD in crate `api`, with the schema of the version that a bundle reads.
fn schemas() -> Vec<(String, JSONSchemaProps)> {
    let definitions: Vec<CustomResourceDefinition> = [api::crds::all(), api::crds::external()].concat();
    let rules = rules().unwrap();
    let schema = |definition: CustomResourceDefinition| {
        let kind = definition.spec.names.kind;
        let rule = rules.iter().find(|rule| rule.kind == kind && rule.group == definition.spec.group);
        let rule = rule.unwrap_or_else(|| panic!("{kind} is not on the list"));
        assert_eq!(rule.plural, definition.spec.names.plural);
        let mut versions = definition.spec.versions.into_iter();
        let version = versions.find(|version| version.name == rule.version).expect("the version");
        (kind, version.schema.unwrap().open_api_v3_schema.unwrap())
    };
    definitions.into_iter().map(schema).collect()
}

#[test]
fn of_a_maximal_object_only_listed_fields_are_taken() {
    let never = Regex::new(NEVER).unwrap();
    let rules = rules().unwrap();
    for (kind, schema) in schemas() {
        let mut canaries = Canaries::default();
        let object = canaries.object(&schema);
        let rule = rules.iter().find(|rule| rule.kind == kind).unwrap();
        let mut left_out = LeftOut::new();
        let taken = select(&object, &rule.fields, &mut left_out).to_string();
        let listed = listed_paths(&kind);
        let listed: BTreeSet<_> = listed
            .iter()
            .filter(|(_, treatment)| *treatment != Treatment::Hash)
            .map(|(path, _)| path.as_str())
            .collect();
        for (path, canary) in &canaries.planted {
            let is_taken = taken.contains(canary.as_str());
            // A map key is taken together with the fields below it.
            let is_key = path.ends_with('*') && listed.iter().any(|listed| listed.starts_with(path.as_str()));
            assert_eq!(is_taken, is_key || listed.contains(path.as_str()), "{kind}: {path}");
            assert!(!is_taken || !never.is_match(path), "{kind}: {path} is taken");
            let paths = left_out.keys().any(|path| path.contains(canary.as_str()));
            assert!(!paths, "{kind}: {path} is in the list of what was left out");
        }
        let count = canaries.planted.iter().filter(|(_, canary)| !taken.contains(canary.as_str())).count();
        assert!(count > 4 && left_out.contains_key("metadata.managedFields"), "{kind}: {left_out:?}");
    }
}

#[test]
fn each_listed_field_is_one_that_the_kind_has() {
    let common: BTreeSet<_> = listed_paths("Namespace").into_iter().map(|(path, _)| path).collect();
    for (kind, schema) in schemas() {
        let mut canaries = Canaries::default();
        let object = canaries.object(&schema);
        for (path, _) in listed_paths(&kind).iter().filter(|(path, _)| !common.contains(path)) {
            assert!(has(&object, path), "{kind} has no {path}");
        }
    }
}

/// Returns true if the object has a value at the path.
fn has(object: &serde_json::Value, path: &str) -> bool {
    let mut at = vec![object];
    for step in path.replace("[]", ".[]").split('.') {
        at = at
            .into_iter()
            .flat_map(|value| match (step, value) {
                ("[]", serde_json::Value::Array(items)) => items.iter().collect::<Vec<_>>(),
                ("*", serde_json::Value::Object(map)) => map.values().collect(),
                (name, value) => value.get(name).into_iter().collect(),
            })
            .collect();
    }
    !at.is_empty()
}

#[test]
fn no_listed_path_of_any_kind_may_hold_a_secret() {
    let never = Regex::new(NEVER).unwrap();
    for rule in rules().unwrap() {
        for (path, treatment) in listed_paths(&rule.kind) {
            // The keys of the only ConfigMap that is read are listed individually.
            let is_configuration =
                rule.kind == "ConfigMap" && path.starts_with("data[\"") && !path.contains('*');
            let is_fine = !never.is_match(&path) || is_configuration || treatment == Treatment::Hash;
            assert!(is_fine, "{}: {path}", rule.kind);
        }
    }
    assert_eq!(expanded("a"), ["a"]);
}
