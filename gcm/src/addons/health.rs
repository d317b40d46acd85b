//! Whether an object works, by the rules of kstatus: what its controller reports of the generation that is asked for.

use serde_json::Value;

use super::manifest::ObjectKey;

/// How an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is as it is asked for.
    Current,
    /// Its controller works on it.
    InProgress(String),
    /// Its controller gave up.
    Failed(String),
}

/// Whether objects of this kind have a health of their own; all others work once they are there.
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

/// How an object is, as the guest shows it.
pub fn health(key: &ObjectKey, live: &Value) -> Health {
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
    if let Some(observed) = number("/status/observedGeneration")
        && number("/metadata/generation").is_some_and(|generation| observed < generation)
    {
        return waiting("its controller has not seen it yet");
    }
    match key.kind.as_str() {
        "Deployment" => deployment(live),
        "DaemonSet" => daemon_set(live),
        "StatefulSet" | "ReplicaSet" => replicas(live),
        "Job" => job(live),
        "PersistentVolumeClaim" if live["status"]["phase"] != "Bound" => waiting("it is not bound"),
        "CustomResourceDefinition" => by_condition(live, "Established", "it is not established"),
        "APIService" => by_condition(live, "Available", "it is not available"),
        _ => Health::Current,
    }
}

fn waiting(what: impl Into<String>) -> Health {
    Health::InProgress(what.into())
}

fn count(live: &Value, path: &str) -> i64 {
    live.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn condition<'v>(live: &'v Value, type_: &str) -> Option<&'v Value> {
    live["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn deployment(live: &Value) -> Health {
    let progressing = condition(live, "Progressing");
    if let Some(condition) = progressing.filter(|c| c["reason"] == "ProgressDeadlineExceeded") {
        return Health::Failed(condition["message"].as_str().unwrap_or("it makes no progress").to_owned());
    }
    if live["status"]["observedGeneration"].is_null() {
        return waiting("its controller has not seen it yet");
    }
    let wanted = live.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let updated = count(live, "/status/updatedReplicas");
    let all = count(live, "/status/replicas");
    let available = count(live, "/status/availableReplicas");
    if updated < wanted || available < wanted {
        return waiting(format!("{} of {wanted} Pods are available", available.min(updated)));
    }
    if all > updated { waiting(format!("{} old Pods are left", all - updated)) } else { Health::Current }
}

fn daemon_set(live: &Value) -> Health {
    if live["status"]["observedGeneration"].is_null() {
        return waiting("its controller has not seen it yet");
    }
    let wanted = count(live, "/status/desiredNumberScheduled");
    let available = count(live, "/status/numberAvailable");
    // Pods that are replaced on deletion only are old until somebody deletes them.
    let on_delete = live["spec"]["updateStrategy"]["type"] == "OnDelete";
    let updated = if on_delete { wanted } else { count(live, "/status/updatedNumberScheduled") };
    let ready = available.min(updated);
    if ready < wanted { waiting(format!("{ready} of {wanted} Pods are available")) } else { Health::Current }
}

fn replicas(live: &Value) -> Health {
    let wanted = live.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let ready = count(live, "/status/readyReplicas");
    if ready < wanted { waiting(format!("{ready} of {wanted} Pods are ready")) } else { Health::Current }
}

fn job(live: &Value) -> Health {
    if let Some(failed) = condition(live, "Failed").filter(|condition| condition["status"] == "True") {
        return Health::Failed(failed["message"].as_str().unwrap_or("it failed").to_owned());
    }
    by_condition(live, "Complete", "it is not complete")
}

fn by_condition(live: &Value, type_: &str, otherwise: &str) -> Health {
    match condition(live, type_) {
        Some(condition) if condition["status"] == "True" => Health::Current,
        Some(condition) => {
            let message = condition["message"].as_str().filter(|message| !message.is_empty());
            waiting(message.map_or_else(|| otherwise.to_owned(), |message| format!("{otherwise}: {message}")))
        }
        None => waiting(otherwise),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(group: &str, kind: &str, live: &Value) -> String {
        let key =
            ObjectKey { group: group.into(), kind: kind.into(), namespace: None, name: String::from("x") };
        match health(&key, live) {
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
        let cases = [
            (
                "Deployment",
                seen(
                    json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}),
                    json!({"replicas": 2}),
                ),
                "current",
            ),
            (
                "Deployment",
                seen(json!({"replicas": 1, "updatedReplicas": 1}), json!({"replicas": 2})),
                "in progress: 0 of 2",
            ),
            (
                "Deployment",
                seen(
                    json!({"replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}),
                    json!({"replicas": 2}),
                ),
                "in progress: 1 old",
            ),
            (
                "Deployment",
                seen(condition("Progressing", "False", "ProgressDeadlineExceeded"), json!({})),
                "failed: Progress",
            ),
            ("Deployment", json!({"metadata": {"generation": 1}}), "in progress: its controller"),
            (
                "Deployment",
                json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
                "in progress: its controller",
            ),
            (
                "DaemonSet",
                seen(
                    json!({"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 2}),
                    json!({}),
                ),
                "current",
            ),
            (
                "DaemonSet",
                seen(
                    json!({"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1}),
                    json!({}),
                ),
                "in progress: 1 of 2",
            ),
            (
                "DaemonSet",
                seen(
                    json!({"desiredNumberScheduled": 2, "numberAvailable": 2}),
                    json!({"updateStrategy": {"type": "OnDelete"}}),
                ),
                "current",
            ),
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
