//! Parts that a cluster lacks and does not ask for. They block nothing.

use std::fmt::Write as _;

use api::conditions::cause::one_line;
use api::conditions::tkc;
use kube::core::DynamicObject;
use serde::Serialize;

use super::object::{conditions, text};

/// A part that a cluster lacks, as one condition of its TanzuKubernetesCluster shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The type of the condition.
    pub condition: String,
    /// Its reason.
    pub reason: String,
    /// Its message: the parts that are there, the parts that are missing, and what to do.
    pub message: String,
}

/// Returns the limits of a cluster, in the order of its conditions.
pub fn limits(cluster: &DynamicObject) -> Vec<Limit> {
    let all = conditions(cluster).iter().map(|condition| Limit {
        condition: text(condition, "type"),
        reason: text(condition, "reason"),
        message: text(condition, "message"),
    });
    all.filter(|limit| tkc::LIMITS.contains(&limit.reason.as_str())).collect()
}

/// Returns the limits as text, a line each under a head; empty if there are none.
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
