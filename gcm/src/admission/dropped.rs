//! Warns about fields that the API server dropped before admission.
//!
//! An API server drops unknown fields while it decodes a request, before it calls webhooks. `kubectl apply` stores the whole
//! manifest in an annotation, which still contains these fields. Other clients don't store the manifest.

use std::sync::LazyLock;

use api::gcm::TanzuKubernetesCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::ResourceExt;
use serde_json::Value;

use super::places::{FieldAdvice, FieldPlaces, METADATA, REMOVE, is_common, nearest};

/// The annotation in which `kubectl apply` stores the manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum number of fields that warnings name. Further fields are only counted.
const MOST: usize = 8;

/// Returns warnings about manifest fields that the API server dropped.
///
/// Only a request that changes the applied manifest gets warnings. Later changes by other means don't repeat them.
pub fn warnings(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Vec<String> {
    let applied = |tkc: &TanzuKubernetesCluster| tkc.annotations().get(LAST_APPLIED).cloned();
    let Some(text) = applied(new).filter(|text| old.and_then(applied).as_ref() != Some(text)) else {
        return Vec::new();
    };
    let Ok(manifest) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let Some(DroppedWalk { found: mut warnings, more, .. }) = walk(&manifest) else { return Vec::new() };
    if more > 0 {
        warnings.push(format!(
            "{more} more fields of the manifest were dropped; run layercake lint on the manifest"
        ));
    }
    warnings
}

/// Finds the manifest fields that the manifest's version of TanzuKubernetesCluster doesn't define. Each warning contains the
/// path and a remedy. Warnings never quote values: a misplaced proxy URL can contain a password.
fn walk(manifest: &Value) -> Option<DroppedWalk> {
    static CLUSTERS: LazyLock<Option<CustomResourceDefinition>> = LazyLock::new(|| {
        api::crds::all().into_iter().find(|crd| crd.spec.names.kind == "TanzuKubernetesCluster")
    });
    let crd = CLUSTERS.as_ref()?;
    let api_version = manifest["apiVersion"].as_str().unwrap_or_default();
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    let served = crd.spec.versions.iter().find(|served| served.name == version);
    let schema = served.and_then(|served| served.schema.as_ref()?.open_api_v3_schema.as_ref())?;
    let mut walk = DroppedWalk { places: FieldPlaces::of(crd, version), found: Vec::new(), more: 0 };
    walk.metadata(&manifest["metadata"]);
    walk.value(manifest, schema, "");
    Some(walk)
}

struct DroppedWalk {
    places: FieldPlaces,
    found: Vec<String>,
    /// The number of fields in addition to those in `found`.
    more: usize,
}

impl DroppedWalk {
    /// Returns true if the maximum number of warnings is reached, and in this case adds the field to `more`.
    fn is_full(&mut self) -> bool {
        let full = self.found.len() >= MOST;
        self.more += usize::from(full);
        full
    }

    fn value(&mut self, value: &Value, schema: &JSONSchemaProps, path: &str) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.field(key, field, schema, path);
                }
            }
            Value::Array(items) => {
                if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
                    for (at, value) in items.iter().enumerate() {
                        self.value(value, item, &format!("{path}[{at}]"));
                    }
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, key: &str, value: &Value, schema: &JSONSchemaProps, path: &str) {
        let inner = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let known = schema.properties.as_ref().and_then(|properties| properties.get(key));
        match (known, &schema.additional_properties) {
            (Some(known), _) => self.value(value, known, &inner),
            (None, Some(JSONSchemaPropsOrBool::Schema(values))) => self.value(value, values, &inner),
            (None, Some(JSONSchemaPropsOrBool::Bool(true))) => {}
            (None, _) if schema.x_kubernetes_preserve_unknown_fields == Some(true) => {}
            (None, _) if path.is_empty() && is_common(key) => {}
            (None, _) if self.is_full() => {}
            (None, _) => {
                let FieldAdvice { reason, remedy, .. } = self.places.advise(path, key, schema);
                let remedy = if remedy == REMOVE { "Remove it" } else { &remedy };
                self.found.push(format!("{inner}: {reason}, so it was dropped and has no effect. {remedy}"));
            }
        }
    }

    fn metadata(&mut self, metadata: &Value) {
        let keys = metadata.as_object().into_iter().flat_map(|fields| fields.keys());
        for key in keys.filter(|key| !METADATA.contains(&key.as_str())) {
            if self.is_full() {
                continue;
            }
            let remedy = nearest(key, METADATA.iter().copied()).map_or_else(
                || "Remove it".to_owned(),
                |near| format!("Did you mean metadata.{near}? If not, remove it"),
            );
            self.found.push(format!(
                "metadata.{key}: the field does not exist, so it was dropped and has no effect. {remedy}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{hub, manifest, sound};

    fn dropped_fields(manifest: &Value) -> Vec<String> {
        walk(manifest).unwrap().found
    }

    #[test]
    fn fields_that_were_dropped_are_named_with_their_place() {
        let mut all = Vec::new();
        for name in ["invalid/unknown-settings-security.yaml", "invalid/v1alpha1-fields-under-v1alpha3.yaml"]
        {
            all.push((name, dropped_fields(&manifest(name).1)));
        }
        let (_, mut written) = manifest("full-proxy-trust.yaml");
        written["metadata"]["nmae"] = json!("x");
        written["spec"]["proxy"] = json!({"httpProxy": "http://u:secret@p"});
        written["spec"]["topology"]["nodePools"][1]["storageclass"] = json!("gold");
        written["spec"]["topology"]["nodePools"][0]["workers"] = json!(1);
        written["specs"] = json!({});
        all.push(("mutilated", dropped_fields(&written)));
        assert!(!format!("{all:?}").contains("secret"));
        insta::assert_debug_snapshot!(all);
    }

    #[test]
    fn a_sound_manifest_of_any_version_loses_nothing() {
        for name in ["seed-test-cluster.yaml", "full-proxy-trust.yaml", "volumes-etcd-containerd.yaml"] {
            let (_, written) = manifest(name);
            assert_eq!(dropped_fields(&written), Vec::<String>::new(), "{name}");
            for version in ["v1alpha1", "v1alpha2", "v1alpha3"] {
                let hub = serde_json::to_value(hub(&written)).unwrap();
                let shown = api::gcm::convert(&hub, &format!("run.tanzu.vmware.com/{version}")).unwrap();
                assert_eq!(dropped_fields(&shown), Vec::<String>::new(), "{name} {version}");
            }
        }
    }

    #[test]
    fn who_applies_a_manifest_is_warned_and_nobody_else() {
        let applied = |manifest: &Value| {
            let mut tkc = sound();
            tkc.annotations_mut().insert(LAST_APPLIED.to_owned(), manifest.to_string());
            tkc
        };
        let wrong = applied(&json!({"apiVersion": "run.tanzu.vmware.com/v1alpha3", "spec": {"sevurity": 1}}));
        assert_eq!(warnings(&wrong, None).len(), 1);
        assert_eq!(warnings(&wrong, Some(&sound())).len(), 1);
        assert_eq!(warnings(&wrong, Some(&wrong)), Vec::<String>::new());
        assert_eq!(warnings(&sound(), None), Vec::<String>::new());
        let many: serde_json::Map<String, Value> = (0..20).map(|at| (format!("zz{at}"), json!(1))).collect();
        let many = applied(&json!({"apiVersion": "run.tanzu.vmware.com/v1alpha1", "spec": many}));
        assert_eq!(warnings(&many, None).len(), MOST + 1);
        assert!(warnings(&applied(&json!("no object")), None).is_empty());
    }
}
