//! Checks a Deployment's availability, and finds the cause in its Pods. This module doesn't perform I/O.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Returns true if the status is current, and all replicas are available and use the newest template.
pub fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        let updated = status.updated_replicas.unwrap_or(0);
        // Available replicas include old Pods until new ones replace them.
        let is_rolled_out = updated >= wanted && status.replicas.unwrap_or(0) <= updated;
        status.observed_generation == deployment.metadata.generation
            && is_rolled_out
            && status.available_replicas.unwrap_or(0) >= updated
    })
}

/// Returns the label selector for a Deployment's Pods.
pub fn pod_selector(deployment: &Deployment) -> String {
    let labels = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    let labels = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// Returns the reason why a Deployment with these Pods isn't available.
pub fn cause(deployment: &Deployment, pods: &[Pod]) -> String {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failure = conditions.filter(|one| one.type_ == "ReplicaFailure").find_map(|one| one.message.clone());
    failure.or_else(|| pods.iter().find_map(pod_cause)).unwrap_or_else(|| {
        let namespace = deployment.namespace().unwrap_or_default();
        format!("its Pods are not ready yet (kubectl -n {namespace} describe pods)")
    })
}

/// Returns the reason why a Pod isn't ready: it isn't scheduled, or its first unready container is waiting. Returns
/// `None` while that container is only being created.
pub fn pod_cause(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    let unscheduled =
        status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(message) = unscheduled.and_then(|condition| condition.message.as_deref()) {
        return Some(format!("Pod {name} is not scheduled: {message}"));
    }
    let state = status.container_statuses.iter().flatten().find(|container| !container.ready)?;
    let waiting = state.state.as_ref()?.waiting.as_ref()?;
    // `ContainerCreating` doesn't have a message.
    let reason = waiting.reason.as_deref().filter(|reason| *reason != "ContainerCreating")?;
    let message = waiting.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let ended = state.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let ended =
        ended.map(|ended| format!(". Its last exit status was {}", ended.exit_code)).unwrap_or_default();
    Some(format!("Pod {name}, image {}: {reason}{message}{ended}", state.image))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "d", "namespace": "ns", "generation": 2 },
            "spec": {
                "replicas": 2, "template": {},
                "selector": { "matchLabels": { "control-plane": "capw", "a": "b" } },
            },
            "status": status,
        }))
        .unwrap()
    }

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": status })).unwrap()
    }

    #[test]
    fn a_deployment_is_available_when_all_replicas_are_new() {
        let status = |generation: i64, all: i32, updated: i32, available: i32| {
            json!({
                "observedGeneration": generation, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available,
            })
        };
        let cases = [
            (status(2, 2, 2, 2), true),
            (status(1, 2, 2, 2), false),
            (status(2, 2, 2, 1), false),
            (status(2, 2, 1, 2), false),
            // Two old Pods are serving while two new ones don't start.
            (status(2, 4, 2, 2), false),
            (json!({}), false),
        ];
        for (status, expected) in cases {
            assert_eq!(is_available(&deployment(&status)), expected, "{status}");
        }
    }

    #[test]
    fn the_selector_has_all_labels() {
        assert_eq!(pod_selector(&deployment(&json!({}))), "a=b,control-plane=capw");
    }

    #[test]
    fn causes_name_the_pod_and_what_it_waits_for() {
        let waits = |reason: &str, message: Option<&str>, ended: Option<i32>| {
            let ended = ended.map(|code| json!({ "terminated": { "exitCode": code } }));
            json!({ "containerStatuses": [{
                "name": "manager", "ready": false, "restartCount": 0, "image": "r/gcm:v1", "imageID": "",
                "state": { "waiting": { "reason": reason, "message": message } }, "lastState": ended,
            }] })
        };
        let unscheduled = json!({ "conditions": [
            { "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" },
        ] });
        let not_ready = "its Pods are not ready yet (kubectl -n ns describe pods)";
        let cases = [
            (unscheduled, "Pod p is not scheduled: 0/1 nodes are available"),
            (
                waits("ImagePullBackOff", Some("no such image"), None),
                "Pod p, image r/gcm:v1: ImagePullBackOff: no such image",
            ),
            (
                waits("CrashLoopBackOff", None, Some(2)),
                "Pod p, image r/gcm:v1: CrashLoopBackOff. Its last exit status was 2",
            ),
            (waits("ContainerCreating", None, None), not_ready),
            (json!({}), not_ready),
        ];
        for (status, expected) in cases {
            assert_eq!(cause(&deployment(&json!({})), &[pod(&status)]), expected);
        }
        let refused = json!({ "conditions": [
            { "type": "ReplicaFailure", "status": "True", "message": "exceeded quota" },
        ] });
        assert_eq!(cause(&deployment(&refused), &[]), "exceeded quota");
    }
}
