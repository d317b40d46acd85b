//! Determines if an object works, by the rules of kstatus. As long as the reported status is older than the object's current
//! generation, the object counts as in progress.

use std::collections::BTreeMap;

use kit::guest::Few;
use serde::Deserialize;

use super::manifest::ObjectKey;

/// An object's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The object is in the desired state.
    Current,
    /// The controller hasn't finished. Contains the reason.
    InProgress(String),
    /// The controller gave up. Contains the reason.
    Failed(String),
}

/// Returns true for kinds with health rules. Other objects count as working once they exist.
pub fn has_health(key: &ObjectKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("apps", "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet")
            | ("batch", "Job")
            | ("", "PersistentVolumeClaim")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apiregistration.k8s.io", "APIService")
    )
}

/// The maximum number of conditions read from an object.
const MAX_CONDITIONS: usize = 32;

/// The fields that determine an object's health. Other fields are dropped.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HealthFields {
    metadata: LiveMetadata,
    spec: Option<LiveSpec>,
    status: Option<LiveStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LiveMetadata {
    generation: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LiveSpec {
    replicas: Option<i64>,
    selector: Option<Selector>,
    update_strategy: Option<UpdateStrategy>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct UpdateStrategy {
    r#type: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LiveStatus {
    observed_generation: Option<i64>,
    phase: Option<String>,
    replicas: i64,
    updated_replicas: i64,
    available_replicas: i64,
    ready_replicas: i64,
    desired_number_scheduled: i64,
    number_available: i64,
    updated_number_scheduled: i64,
    conditions: Few<LiveCondition, MAX_CONDITIONS>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LiveCondition {
    r#type: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

impl LiveCondition {
    fn message_or(&self, otherwise: &str) -> String {
        self.message.clone().unwrap_or_else(|| otherwise.to_owned())
    }
}

impl HealthFields {
    /// Returns the labels of the Pods that the object selects, if it has a selector.
    pub fn pod_labels(&self) -> Option<&BTreeMap<String, String>> {
        let labels = &self.spec.as_ref()?.selector.as_ref()?.match_labels;
        (!labels.is_empty()).then_some(labels)
    }
}

/// Determines an object's health from its live state.
pub fn health(key: &ObjectKey, live: &HealthFields) -> Health {
    let HealthFields { metadata, spec, status } = live;
    let (spec, status) = (spec.clone().unwrap_or_default(), status.clone().unwrap_or_default());
    let is_behind = |observed| metadata.generation.is_some_and(|generation| observed < generation);
    if status.observed_generation.is_some_and(is_behind) {
        return waiting("its controller has not seen it yet");
    }
    match key.kind.as_str() {
        "Deployment" => deployment(&spec, &status),
        "DaemonSet" => daemon_set(&spec, &status),
        "StatefulSet" | "ReplicaSet" => replicas(&spec, &status),
        "Job" => job(&status),
        "PersistentVolumeClaim" if status.phase.as_deref() != Some("Bound") => waiting("it is not bound"),
        "CustomResourceDefinition" => by_condition(&status, "Established", "it is not established"),
        "APIService" => by_condition(&status, "Available", "it is not available"),
        _ => Health::Current,
    }
}

fn waiting(what: impl Into<String>) -> Health {
    Health::InProgress(what.into())
}

fn condition<'s>(status: &'s LiveStatus, type_: &str) -> Option<&'s LiveCondition> {
    status.conditions.0.iter().find(|condition| condition.r#type == type_)
}

fn deployment(spec: &LiveSpec, status: &LiveStatus) -> Health {
    let given_up = |c: &&LiveCondition| c.reason.as_deref() == Some("ProgressDeadlineExceeded");
    if let Some(condition) = condition(status, "Progressing").filter(given_up) {
        return Health::Failed(condition.message_or("its rollout makes no progress"));
    }
    if status.observed_generation.is_none() {
        return waiting("its controller has not seen it yet");
    }
    let wanted = spec.replicas.unwrap_or(1);
    let (updated, all, available) = (status.updated_replicas, status.replicas, status.available_replicas);
    if updated < wanted || available < wanted {
        return waiting(format!("{} of {wanted} Pods are available", available.min(updated)));
    }
    if all > updated {
        waiting(format!("{} old Pods are left", all.saturating_sub(updated)))
    } else {
        Health::Current
    }
}

fn daemon_set(spec: &LiveSpec, status: &LiveStatus) -> Health {
    if status.observed_generation.is_none() {
        return waiting("its controller has not seen it yet");
    }
    let wanted = status.desired_number_scheduled;
    // With OnDelete, Pods stay outdated until their nodes are replaced or a user deletes them, so don't wait for updates.
    let strategy = spec.update_strategy.as_ref().and_then(|strategy| strategy.r#type.as_deref());
    let updated = if strategy == Some("OnDelete") { wanted } else { status.updated_number_scheduled };
    let ready = status.number_available.min(updated);
    if ready < wanted { waiting(format!("{ready} of {wanted} Pods are available")) } else { Health::Current }
}

fn replicas(spec: &LiveSpec, status: &LiveStatus) -> Health {
    let wanted = spec.replicas.unwrap_or(1);
    let ready = status.ready_replicas;
    if ready < wanted { waiting(format!("{ready} of {wanted} Pods are ready")) } else { Health::Current }
}

fn job(status: &LiveStatus) -> Health {
    if let Some(failed) = condition(status, "Failed").filter(|condition| condition.status == "True") {
        return Health::Failed(failed.message_or("it failed"));
    }
    by_condition(status, "Complete", "it is not complete")
}

fn by_condition(status: &LiveStatus, type_: &str, otherwise: &str) -> Health {
    match condition(status, type_) {
        Some(condition) if condition.status == "True" => Health::Current,
        Some(condition) => {
            let message = condition.message.as_deref().filter(|message| !message.is_empty());
            waiting(message.map_or_else(|| otherwise.to_owned(), |message| format!("{otherwise}: {message}")))
        }
        None => waiting(otherwise),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(group: &str, kind: &str, live: &Value) -> String {
        let key =
            ObjectKey { group: group.into(), kind: kind.into(), namespace: None, name: String::from("x") };
        match health(&key, &serde_json::from_value(live.clone()).unwrap()) {
            Health::Current => "current".to_owned(),
            Health::InProgress(why) => format!("in progress: {why}"),
            Health::Failed(why) => format!("failed: {why}"),
        }
    }

    #[test]
    fn each_kind_has_its_rule() {
        let seen = |status: Value, spec: Value| {
            let mut live = json!({"metadata": {"generation": 2}, "status": status, "spec": spec});
            live["status"]["observedGeneration"] = json!(2);
            live
        };
        let condition = |type_: &str, status: &str, message: &str| json!({"conditions": [{"type": type_, "status": status, "message": message, "reason": message}]});
        let deployment = |all: i64, updated: i64, available: i64| {
            let status = json!({"replicas": all, "updatedReplicas": updated, "availableReplicas": available});
            seen(status, json!({"replicas": 2}))
        };
        let daemon_set = |updated: i64, spec: Value| {
            let status =
                json!({"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": updated});
            seen(status, spec)
        };
        let given_up = condition("Progressing", "False", "ProgressDeadlineExceeded");
        let unseen = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}});
        let cases = [
            ("Deployment", deployment(2, 2, 2), "current"),
            ("Deployment", deployment(1, 1, 0), "in progress: 0 of 2"),
            ("Deployment", deployment(3, 2, 2), "in progress: 1 old"),
            ("Deployment", seen(given_up, json!({})), "failed: Progress"),
            ("Deployment", json!({"metadata": {"generation": 1}}), "in progress: its controller"),
            ("Deployment", unseen, "in progress: its controller"),
            ("DaemonSet", daemon_set(2, json!({})), "current"),
            ("DaemonSet", daemon_set(1, json!({})), "in progress: 1 of 2"),
            ("DaemonSet", daemon_set(0, json!({"updateStrategy": {"type": "OnDelete"}})), "current"),
            ("DaemonSet", json!({}), "in progress: its controller"),
            ("StatefulSet", seen(json!({"readyReplicas": 1}), json!({"replicas": 2})), "in progress: 1 of 2"),
            ("ReplicaSet", seen(json!({}), json!({"replicas": 0})), "current"),
            ("Job", json!({"status": condition("Complete", "True", "")}), "current"),
            ("Job", json!({"status": condition("Failed", "True", "too often")}), "failed: too often"),
            ("Job", json!({}), "in progress"),
            ("PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}), "current"),
            ("PersistentVolumeClaim", json!({}), "in progress: it is not bound"),
            ("CustomResourceDefinition", json!({"status": condition("Established", "True", "")}), "current"),
            ("CustomResourceDefinition", json!({}), "in progress: it is not established"),
            (
                "APIService",
                json!({"status": condition("Available", "False", "no endpoints")}),
                "in progress: it is not available: no endpoints",
            ),
            ("ConfigMap", json!({}), "current"),
        ];
        for (kind, live, expected) in cases {
            let found = of("", kind, &live);
            assert!(found.starts_with(expected), "{kind} {live}: {found}");
        }
    }
}
