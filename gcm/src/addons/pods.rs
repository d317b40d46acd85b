//! Explains why an add-on's Pods don't start.

use kit::guest::Few;
use serde::Deserialize;

/// The maximum number of Pods that are read.
pub const MAX_PODS: usize = 10;
/// The maximum number of containers that are read per Pod.
const MAX_CONTAINERS: usize = 16;

/// Container waiting reasons for a missing image. Such containers start only after a user changes something.
const IMAGE: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];
/// Container waiting reasons for an invalid configuration.
const CONFIGURATION: [&str; 2] = ["CreateContainerConfigError", "CreateContainerError"];

/// The remedy for a missing image. It is short, because add-on messages are cut off at 400 characters.
const PULL_REMEDY: &str =
    "Check the registry, and that nodes can reach it (spec.settings.network.proxy and trust)";
/// The maximum number of characters that are kept from the end of the kubelet's message. The end names the cause.
const MAX_CAUSE: usize = 120;

/// A Pod that hasn't started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPod {
    /// The Pod, the reason why it doesn't start, and the remedy.
    pub why: String,
    /// True if the Pod starts only after a user changes something.
    pub is_stuck: bool,
}

/// A Pod list, reduced to the fields that explain why Pods don't start.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodList {
    items: Few<LivePod, MAX_PODS>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LivePod {
    metadata: Name,
    spec: Option<LivePodSpec>,
    status: Option<LivePodStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LivePodSpec {
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LivePodStatus {
    conditions: Few<LiveCondition, MAX_CONTAINERS>,
    init_container_statuses: Few<Container, MAX_CONTAINERS>,
    container_statuses: Few<Container, MAX_CONTAINERS>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LiveCondition {
    r#type: String,
    status: String,
    message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
    state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
    message: Option<String>,
}

impl PodList {
    /// Returns the first Pod that a user has to fix, or otherwise the first Pod with a known reason.
    pub fn first(&self) -> Option<PendingPod> {
        let pending: Vec<_> = self.items.0.iter().filter_map(explain).collect();
        pending.iter().find(|pod| pod.is_stuck).or(pending.first()).cloned()
    }
}

fn explain(pod: &LivePod) -> Option<PendingPod> {
    let status = pod.status.as_ref()?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let name = match node {
        Some(node) => format!("Pod {} on node {node}", pod.metadata.name),
        None => format!("Pod {}", pod.metadata.name),
    };
    let containers = status.init_container_statuses.0.iter().chain(&status.container_statuses.0);
    let mut waiting =
        containers.filter_map(|container| Some((container, container.state.as_ref()?.waiting.as_ref()?)));
    let stuck = waiting.find_map(|(container, waiting)| {
        let reason = waiting.reason.as_deref()?;
        let cause = cause(waiting.message.as_deref().unwrap_or_default(), &container.image);
        let what = if IMAGE.contains(&reason) {
            format!("{}{cause}. {PULL_REMEDY}", container.image)
        } else if CONFIGURATION.contains(&reason) {
            cause.trim_start_matches(": ").to_owned()
        } else {
            return None;
        };
        Some(PendingPod { why: format!("{name}: {reason}: {what}"), is_stuck: true })
    });
    let unscheduled = || {
        let scheduled =
            |condition: &&LiveCondition| condition.r#type == "PodScheduled" && condition.status == "False";
        let message = status.conditions.0.iter().find(scheduled)?.message.as_deref()?;
        Some(PendingPod { why: format!("{name}: {message}"), is_stuck: false })
    };
    stuck.or_else(unscheduled)
}

/// Returns the end of the kubelet's message, prefixed with a colon and without parts that repeat the image. Returns an empty
/// string if only such parts exist.
fn cause(message: &str, image: &str) -> String {
    let quoted = format!("\"{image}\"");
    let repeats = |part: &&str| part.contains(&quoted) || IMAGE.contains(part) || *part == "rpc error";
    let parts: Vec<_> = message.trim_end_matches('.').split(": ").filter(|part| !repeats(part)).collect();
    let words = parts.join(": ");
    let cut = words.chars().count().saturating_sub(MAX_CAUSE);
    match (words.is_empty(), cut) {
        (true, _) => String::new(),
        (false, 0) => format!(": {words}"),
        (false, cut) => format!(": …{}", words.chars().skip(cut).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(pods: &Value) -> Option<PendingPod> {
        serde_json::from_value::<PodList>(json!({ "items": pods })).unwrap().first()
    }

    fn pod(name: &str, status: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"nodeName": "n-1"}, "status": status})
    }

    fn waiting(reason: &str) -> Value {
        let message = "Back-off pulling image \"r/a:1\": ErrImagePull: rpc error: code = Unknown desc = failed to pull and unpack image \
                       \"r/a:1\": failed to resolve reference \"r/a:1\": failed to do request: dial tcp: network is unreachable";
        let state = json!({"waiting": {"reason": reason, "message": message}});
        json!({"initContainerStatuses": [{"image": "r/a:1", "state": state}]})
    }

    #[test]
    fn a_pod_whose_image_is_missing_has_cause_and_remedy() {
        let starting = pod("a", &waiting("PodInitializing"));
        let stuck = pod("b", &waiting("ImagePullBackOff"));
        assert_eq!(found(&json!([starting])), None);
        let found = found(&json!([starting, stuck])).unwrap();
        assert!(found.is_stuck);
        insta::assert_snapshot!(found.why, @"Pod b on node n-1: ImagePullBackOff: r/a:1: failed to do request: dial tcp: network is unreachable. Check the registry, and that nodes can reach it (spec.settings.network.proxy and trust)");
        assert_eq!(cause("Back-off pulling image \"r/a:1\"", "r/a:1"), "");
        assert_eq!(cause(&"é".repeat(130), "r/a:1"), format!(": …{}", "é".repeat(120)));
    }

    #[test]
    fn a_pod_that_fits_no_node_says_so_and_may_still_start() {
        let condition =
            json!({"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"});
        let waits = json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}});
        let expected = PendingPod { why: "Pod a: 0/2 nodes are available".to_owned(), is_stuck: false };
        assert_eq!(found(&json!([waits])), Some(expected));
        let unreadable = pod("b", &waiting("CreateContainerConfigError"));
        assert!(found(&json!([waits, unreadable])).unwrap().is_stuck, "the one that needs a change");
    }
}
