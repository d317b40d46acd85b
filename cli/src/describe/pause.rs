//! Finds the reason why a cluster is paused, and the command that resumes it. This module doesn't perform I/O.

use api::conditions::tkc;
use api::names::annotation;
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use super::object::{condition, text};
use super::root::Root;
use super::tree::Objects;

/// Returns a sentence about who paused the cluster and how to resume it, or `None` if the cluster isn't paused.
pub fn of_objects(objects: &Objects) -> Option<String> {
    let first = |root: Root| objects.get(root.kind()).and_then(|all| all.first());
    of_cluster(first(Root::TanzuKubernetesCluster), first(Root::Cluster))
}

/// Returns a sentence about who paused a TanzuKubernetesCluster or its Cluster and how to resume it, or `None` if neither
/// is paused. Either object may be missing.
pub fn of_cluster(tkc: Option<&DynamicObject>, cluster: Option<&DynamicObject>) -> Option<String> {
    tkc.and_then(of_tkc).or_else(|| cluster.and_then(of_plain))
}

fn of_tkc(tkc: &DynamicObject) -> Option<String> {
    let reported = condition(tkc, tkc::PAUSED).filter(|paused| paused["status"] == "True");
    let message = reported.map(|paused| text(paused, "message")).filter(|message| !message.is_empty());
    message.or_else(|| annotated(tkc, "tkc"))
}

fn of_plain(cluster: &DynamicObject) -> Option<String> {
    if cluster.data["spec"]["paused"] == true {
        let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
        return Some(format!(
            "Cluster {name} has spec.paused: true. To resume: kubectl patch clusters.cluster.x-k8s.io {name} -n {namespace} --type merge -p '{}'",
            r#"{"spec":{"paused":null}}"#
        ));
    }
    annotated(cluster, "clusters.cluster.x-k8s.io")
}

/// Returns a sentence about the pause that an annotation requests, or `None` without the annotation. The controller
/// might not have reported the pause yet. `resource` is the kind's name in kubectl commands.
fn annotated(object: &DynamicObject, resource: &str) -> Option<String> {
    let key = annotation::PAUSED;
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let kind = object.types.as_ref().map_or("Cluster", |types| types.kind.as_str());
    object.annotations().contains_key(key).then(|| {
        format!("{kind} {name} has the annotation {key}. To resume: kubectl annotate {resource} {name} -n {namespace} {key}-")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: &str, annotations: Value, spec: Value, conditions: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "x/v1", "kind": kind, "spec": spec, "status": {"conditions": conditions},
            "metadata": {"name": "c", "namespace": "ns", "annotations": annotations},
        }))
        .unwrap()
    }

    #[test]
    fn a_pause_of_either_object_is_named_with_the_command_that_ends_it() {
        let paused = json!({ annotation::PAUSED: "" });
        let none = || json!({});
        let reported = json!([{"type": "Paused", "status": "True", "message": "as gcm says"}]);
        let tkc = |annotations, conditions| object("TanzuKubernetesCluster", annotations, none(), conditions);
        let cluster = |annotations, spec| object("Cluster", annotations, spec, json!([]));
        let of = |tkc: &DynamicObject, cluster: &DynamicObject| {
            of_cluster(Some(tkc), Some(cluster)).unwrap_or_default()
        };
        let (works, serves) = (tkc(none(), json!([])), cluster(none(), none()));
        assert_eq!(of(&works, &serves), "");
        assert_eq!(of(&tkc(none(), reported), &serves), "as gcm says");
        let by_tkc = of(&tkc(paused.clone(), json!([])), &serves);
        assert!(by_tkc.ends_with("kubectl annotate tkc c -n ns cluster.x-k8s.io/paused-"), "{by_tkc}");
        let by_cluster = of(&works, &cluster(none(), json!({"paused": true})));
        assert!(
            by_cluster.starts_with("Cluster c has spec.paused: true. To resume: kubectl patch "),
            "{by_cluster}"
        );
        let annotated = of(&works, &cluster(paused, none()));
        assert!(annotated.contains("kubectl annotate clusters.cluster.x-k8s.io c -n ns"), "{annotated}");
    }
}
