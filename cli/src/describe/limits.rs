//! Finds the optional parts that a cluster lacks. They don't block the cluster.

use std::fmt::Write as _;

use api::conditions::cause::one_line;
use api::conditions::tkc;
use kube::core::DynamicObject;
use serde::Serialize;

use super::object::{conditions, text};

/// A missing optional part, as a condition of the TanzuKubernetesCluster reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The condition type.
    pub condition: String,
    pub reason: String,
    /// The condition's message: the existing parts, the missing parts, and the remedy.
    pub message: String,
}

/// Returns a cluster's limits in the order of its conditions.
pub fn limits(cluster: &DynamicObject) -> Vec<Limit> {
    let all = conditions(cluster).iter().map(|condition| Limit {
        condition: text(condition, "type"),
        reason: text(condition, "reason"),
        message: text(condition, "message"),
    });
    all.filter(|limit| tkc::LIMITS.contains(&limit.reason.as_str())).collect()
}

/// Formats the limits below a heading, one per line. Returns an empty string if there are no limits.
pub fn print(limits: &[Limit]) -> String {
    let mut out = String::new();
    if !limits.is_empty() {
        out.push_str("\nLimits of this cluster, which block nothing:\n");
    }
    for Limit { condition, reason, message } in limits {
        let _ = writeln!(out, "  {condition}: {reason}: {}", one_line(message));
    }
    out
}
