//! A stand-in for kube-scheduler on a control plane node. It binds Pods by node selectors, required node affinity, required
//! anti-affinity, taints and cordons. It spreads an owner's Pods and then prefers the node with the fewest Pods, as
//! NodeResourcesFit prefers the node with the lowest requests. It ignores resources and doesn't preempt Pods.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// The retry interval for Pods that don't fit on any node.
const AGAIN: Duration = Duration::from_secs(2);

/// Returns true if both Pods have the same owner and `other` runs on the node.
fn are_siblings(pod: &Pod, other: &Pod, node: &Node) -> bool {
    let owner = |pod: &Pod| pod.owner_references().first().map(|owner| owner.uid.clone());
    runs_on(other, node) && owner(pod).is_some() && owner(pod) == owner(other)
}

fn runs_on(pod: &Pod, node: &Node) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&node.name_any())
}

/// Binds Pods until the watch ends. If there are several control plane nodes, all of them try to bind each Pod, and the
/// first binding succeeds.
pub(super) async fn run(client: Client) {
    let all: Api<Pod> = Api::all(client.clone());
    let unbound = watcher::Config::default().fields("spec.nodeName=");
    let mut events = std::pin::pin!(watcher(all, unbound).default_backoff());
    let mut waiting: BTreeMap<String, Pod> = BTreeMap::new();
    let mut again = tokio::time::interval(AGAIN);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) => {
                    waiting.insert(pod.uid().unwrap_or_default(), pod);
                }
                // The Pod was deleted or bound. A bound Pod no longer matches the field selector.
                Some(Ok(watcher::Event::Delete(pod))) => drop(waiting.remove(&pod.uid().unwrap_or_default())),
                Some(Ok(_)) => continue,
                Some(Err(error)) => tracing::debug!(%error, "unbound pods can't be watched"),
                None => return,
            },
            _ = again.tick() => {}
        }
        waiting.retain(|_, pod| pod.metadata.deletion_timestamp.is_none());
        if waiting.is_empty() {
            continue;
        }
        let nodes: Api<Node> = Api::all(client.clone());
        let Ok(nodes) = nodes.list(&ListParams::default()).await else { continue };
        let pods: Api<Pod> = Api::all(client.clone());
        let Ok(pods) = pods.list(&ListParams::default()).await else { continue };
        let mut bound = pods.items;
        for pod in waiting.values() {
            let near = |node: &&Node| fits(pod, node) && !is_kept_apart(pod, node, &nodes.items, &bound);
            let siblings = |node: &&Node| bound.iter().filter(|other| are_siblings(pod, other, node)).count();
            let load = |node: &&Node| bound.iter().filter(|other| runs_on(other, node)).count();
            let chosen = nodes.items.iter().filter(near).min_by_key(|node| (siblings(node), load(node)));
            let Some(node) = chosen.map(ResourceExt::name_any) else { continue };
            bind(&client, pod, &node).await;
            let mut placed = pod.clone();
            placed.spec.get_or_insert_default().node_name = Some(node);
            bound.push(placed);
        }
    }
}

async fn bind(client: &Client, pod: &Pod, node: &str) {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name, "namespace": namespace, "uid": pod.uid() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = http::Request::post(path).header("content-type", "application/json");
    if let Ok(request) = request.body(binding.to_string().into_bytes())
        && let Err(error) = client.request::<Value>(request).await
    {
        tracing::debug!(pod = name, %error, "a pod is not bound");
    }
}

fn fits(pod: &Pod, node: &Node) -> bool {
    let (Some(spec), Some(node_spec)) = (&pod.spec, &node.spec) else { return false };
    let selected =
        spec.node_selector.iter().flatten().all(|(key, value)| node.labels().get(key) == Some(value));
    let taints = node_spec.taints.as_deref().unwrap_or_default();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let repels = |taint: &&Taint| taint.effect != "PreferNoSchedule";
    node.metadata.deletion_timestamp.is_none()
        && selected
        && has_affinity(spec, node)
        && taints.iter().filter(repels).all(|taint| tolerations.iter().any(|each| tolerates(each, taint)))
}

/// Returns true if the Pod's required anti-affinity excludes the node. It does so if the node's topology domain
/// contains a Pod in the same namespace that matches a term.
fn is_kept_apart(pod: &Pod, node: &Node, nodes: &[Node], bound: &[Pod]) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
    let terms = affinity.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().any(|term| {
        let place = node.labels().get(&term.topology_key);
        let is_in_place = |name: &str| {
            let there = nodes.iter().find(|other| other.name_any() == name);
            place.is_some() && there.is_some_and(|other| other.labels().get(&term.topology_key) == place)
        };
        bound.iter().any(|other| {
            let at = other.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            other.namespace() == pod.namespace()
                && at.is_some_and(is_in_place)
                && term.label_selector.as_ref().is_some_and(|selector| selects(selector, other))
        })
    })
}

fn selects(selector: &LabelSelector, pod: &Pod) -> bool {
    let labels = pod.labels();
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(|each| {
            is_operator_met(&each.operator, each.values.as_deref(), labels.get(&each.key).map(String::as_str))
        })
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect =
        toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    effect && if key.is_empty() { exists } else { key == taint.key && (exists || value) }
}

fn has_affinity(spec: &PodSpec, node: &Node) -> bool {
    let required = spec.affinity.as_ref().and_then(|affinity| {
        affinity.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
    });
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| is_term_met(term, node)))
}

fn is_term_met(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = node.labels();
    let name = node.name_any();
    term.match_expressions
        .iter()
        .flatten()
        .all(|each| is_met(each, labels.get(&each.key).map(String::as_str)))
        && term
            .match_fields
            .iter()
            .flatten()
            .all(|each| each.key == "metadata.name" && is_met(each, Some(name.as_str())))
}

fn is_met(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    is_operator_met(&requirement.operator, requirement.values.as_deref(), value)
}

fn is_operator_met(operator: &str, values: Option<&[String]>, value: Option<&str>) -> bool {
    let values = values.unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|each| each == value));
    match operator {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: &Value, taints: &Value) -> Node {
        let metadata = json!({"name": name, "labels": labels});
        serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}}),
        )
        .unwrap()
    }

    fn pod(spec: &Value) -> Pod {
        let mut spec = spec.clone();
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec}))
            .unwrap()
    }

    #[test]
    fn a_pod_goes_where_nothing_keeps_it_away() {
        let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        let tainted = node("a", &json!({"os": "linux"}), &not_ready);
        let affinity = |field: &str, key: &str, value: &str| {
            let term = json!({field: [{"key": key, "operator": "In", "values": [value]}]});
            let required = json!({"nodeSelectorTerms": [term]});
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
        };
        let all = json!([{"operator": "Exists", "effect": "NoSchedule"}]);
        for (spec, expected) in [
            (json!({}), false),
            (json!({"tolerations": all}), true),
            (
                json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Exists"}]}),
                false,
            ),
            (json!({"tolerations": all, "nodeSelector": {"os": "windows"}}), false),
            (json!({"tolerations": all, "affinity": affinity("matchFields", "metadata.name", "a")}), true),
            (json!({"tolerations": all, "affinity": affinity("matchFields", "metadata.name", "b")}), false),
            (json!({"tolerations": all, "affinity": affinity("matchExpressions", "os", "linux")}), true),
        ] {
            assert_eq!(fits(&pod(&spec), &tainted), expected, "{spec}");
        }
        assert!(fits(&pod(&json!({})), &node("b", &json!({}), &json!([]))));
    }

    #[test]
    fn a_pod_stays_away_from_pods_that_it_does_not_want_near() {
        let nodes = ["a", "b"].map(|name| node(name, &json!({"host": name}), &json!([])));
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]});
        let term = json!({"labelSelector": selector, "topologyKey": "host"});
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let lonely = pod(&json!({"affinity": {"podAntiAffinity": required}}));
        let mut there = pod(&json!({"nodeName": "a"}));
        there.metadata.labels = Some(BTreeMap::from([("app".into(), "x".into())]));
        let apart = |pod: &Pod, at: &Node| is_kept_apart(pod, at, &nodes, std::slice::from_ref(&there));
        assert!(apart(&lonely, &nodes[0]));
        assert!(!apart(&lonely, &nodes[1]));
        assert!(!apart(&pod(&json!({})), &nodes[0]));
    }
}
