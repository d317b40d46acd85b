//! Spells the releases in a manifest as in the live cluster. This module doesn't perform I/O.
//!
//! Admission replaces the prefix of a release name with the full name, and `layercake upgrade` and kubectl set the same
//! fields. Server-side apply compares strings, so `v1.34` would conflict with `v1.34.2---vmware.1-vkr.1` from another
//! tool.

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::Tkr;
use gcm::release::version::Version;
use gcm::spec::release::current_version;
use serde_json::Value;

/// The JSON pointer to the release name in a manifest.
const CONTROL_PLANE: &str = "/spec/topology/controlPlane/tkr/reference/name";

/// For each release in `document`, takes over the spelling in the same field of `live`, if both mean the current release
/// of `live`.
///
/// If the version hint names another release, removes the full version that admission has filled in, so that the hint
/// takes effect.
pub fn adopt_spelling(document: &mut Value, live: &TanzuKubernetesCluster) {
    let Some(version) = current_version(live) else { return };
    let spec = &live.spec;
    let control_plane = spec.topology.control_plane.tkr.as_ref();
    adopt_text(document.pointer_mut(CONTROL_PLANE), name(control_plane), &version);
    let pools = document.pointer_mut("/spec/topology/nodePools").and_then(Value::as_array_mut);
    for pool in pools.into_iter().flatten() {
        let of_name = spec.topology.node_pools.iter().find(|known| pool["name"] == known.name);
        let known = of_name.and_then(|known| known.tkr.as_ref());
        adopt_text(pool.pointer_mut("/tkr/reference/name"), name(known), &version);
    }
    let known = spec.distribution.as_ref();
    let Some(distribution) = document.pointer_mut("/spec/distribution") else { return };
    let full = known.and_then(|known| known.full_version.as_deref());
    adopt_text(distribution.get_mut("fullVersion"), full, &version);
    let hint = known.and_then(|known| known.version.as_deref());
    adopt_text(distribution.get_mut("version"), hint, &version);
    follow_hint(document, &version);
}

fn name(tkr: Option<&Tkr>) -> Option<&str> {
    tkr.and_then(Tkr::name)
}

fn adopt_text(text: Option<&mut Value>, known: Option<&str>, version: &Version) {
    let means = |text: &str| version.matches(text);
    if let (Some(text), Some(known)) = (text, known.filter(|known| means(known)))
        && text.as_str().is_some_and(means)
    {
        *text = known.into();
    }
}

/// Removes the full version that admission has filled in if the version hint names a release other than `version`. Does
/// so only if `document` doesn't name a release in another field.
fn follow_hint(document: &mut Value, version: &Version) {
    let names_release = document.pointer(CONTROL_PLANE).is_some();
    let distribution = document.pointer_mut("/spec/distribution").and_then(Value::as_object_mut);
    let Some(distribution) = distribution else { return };
    let hint = distribution.get("version").and_then(Value::as_str).filter(|hint| !hint.trim().is_empty());
    let is_other = hint.is_some_and(|hint| !version.matches(hint));
    if is_other && !names_release && !distribution.contains_key("fullVersion") {
        distribution.insert("fullVersion".to_owned(), Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live() -> TanzuKubernetesCluster {
        let tkr = json!({"reference": {"name": "v1.35.1---vmware.1-vkr.1"}});
        serde_json::from_value(json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster", "metadata": {"name": "c"},
            "spec": {
                "distribution": {"fullVersion": "v1.35.1+vmware.1-vkr.1", "version": "v1.35"},
                "topology": {"controlPlane": {"tkr": tkr}, "nodePools": [{"name": "a", "tkr": tkr}, {"name": "b"}]},
            },
        }))
        .unwrap()
    }

    fn adopted(spec: Value) -> Value {
        let mut document = json!({"spec": spec});
        adopt_spelling(&mut document, &live());
        document["spec"].take()
    }

    fn nodes(text: &str) -> Value {
        let tkr = json!({"reference": {"name": text}});
        json!({"topology": {
            "controlPlane": {"replicas": 1, "tkr": tkr},
            "nodePools": [{"name": "a", "tkr": tkr}, {"name": "b"}, {"name": "new", "tkr": tkr}],
        }})
    }

    #[test]
    fn a_release_is_compared_by_meaning() {
        for text in ["v1.35", "1.35.1", "v1.35.1+vmware.1-vkr.1", "v1.35.1---vmware.1-vkr.1"] {
            let spec = adopted(nodes(text));
            let name = |at: &str| spec.pointer(&format!("{at}/tkr/reference/name")).cloned();
            assert_eq!(name("/topology/controlPlane"), Some(json!("v1.35.1---vmware.1-vkr.1")), "{text}");
            assert_eq!(name("/topology/nodePools/0"), Some(json!("v1.35.1---vmware.1-vkr.1")), "{text}");
            assert_eq!(name("/topology/nodePools/1"), None);
            assert_eq!(name("/topology/nodePools/2"), Some(json!(text)), "no such pool");
        }
        for text in ["v1.34", "v1.35.10", "v1.36", ""] {
            assert_eq!(adopted(nodes(text)), nodes(text), "another release");
        }
        let hint = adopted(json!({"distribution": {"version": "v1.35.1"}}));
        assert_eq!(hint, json!({"distribution": {"version": "v1.35"}}));
        let full = adopted(json!({"distribution": {"fullVersion": "1.35.1+vmware.1-vkr.1"}}));
        assert_eq!(full, json!({"distribution": {"fullVersion": "v1.35.1+vmware.1-vkr.1"}}));
    }

    #[test]
    fn a_hint_of_another_release_is_followed() {
        let hint = adopted(json!({"distribution": {"version": "v1.36"}}));
        assert_eq!(hint, json!({"distribution": {"version": "v1.36", "fullVersion": null}}));
        let both = json!({"distribution": {"version": "v1.36", "fullVersion": "v1.36.3+vmware.1-vkr.1"}});
        assert_eq!(adopted(both.clone()), both);
    }

    #[test]
    fn manifests_of_another_shape_stay() {
        for spec in [json!(null), json!("text"), json!({"topology": [1], "distribution": "text"}), json!({})]
        {
            let mut document = json!({"spec": spec});
            let before = document.clone();
            adopt_spelling(&mut document, &live());
            assert_eq!(document, before);
        }
    }
}
