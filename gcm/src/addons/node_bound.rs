//! Adapts objects whose container images only exist in node images, not in a registry.
//!
//! The next release's add-ons are applied before its first node exists, and old nodes don't contain the images of these add-ons.
//! DaemonSet Pods on old nodes therefore stay unchanged until the nodes are replaced, and Deployment Pods run only on the
//! release's nodes.

use api::names::label;
use serde_json::json;

use super::manifest::Manifest;

/// Binds a DaemonSet or Deployment from a node image's bundle to the nodes of its release. `release` is the value of the nodes'
/// label [`label::KUBERNETES_DISTRIBUTION_VERSION`]. Other objects are returned unchanged.
///
/// A DaemonSet Pod is replaced only with its node. New Pods of a Deployment wait for a node of the release, and the old Pods stay
/// until then.
pub fn bind(manifest: Manifest, release: &str) -> Manifest {
    let mut object = manifest.value();
    match (manifest.key.group.as_str(), manifest.key.kind.as_str()) {
        ("apps", "DaemonSet") => object["spec"]["updateStrategy"] = json!({"type": "OnDelete"}),
        ("apps", "Deployment") => {
            let one_more = json!({"maxSurge": 1, "maxUnavailable": 0});
            object["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": one_more});
            object["spec"]["template"]["spec"]["nodeSelector"][label::KUBERNETES_DISTRIBUTION_VERSION] =
                json!(release);
        }
        _ => return manifest,
    }
    Manifest { json: object.to_string(), ..manifest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addons::manifest::read;

    #[test]
    fn agents_stay_with_their_node_and_others_with_the_release() {
        let bound = |kind: &str, spec: serde_json::Value| {
            let group = if kind == "ConfigMap" { "v1" } else { "apps/v1" };
            let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
            bind(read(object).unwrap(), "v1.26.5").value()["spec"].clone()
        };
        let rolling =
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}});
        assert_eq!(bound("DaemonSet", rolling.clone()), json!({"updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(bound("ConfigMap", rolling.clone()), rolling);
        let recreated = json!({
            "strategy": {"type": "Recreate"},
            "template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
        });
        assert_eq!(
            bound("Deployment", recreated),
            json!({
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"spec": {"nodeSelector": {
                    "kubernetes.io/os": "linux", label::KUBERNETES_DISTRIBUTION_VERSION: "v1.26.5",
                }}},
            })
        );
    }
}
