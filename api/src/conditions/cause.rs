//! Ranks the causes of a problem, so that all programs report the same one first.
//!
//! The most severe cause comes first. Causes of equal severity keep their order. The severity is the condition's own,
//! or else the severity of its reason; Kubernetes conditions never contain one. A reason that covers
//! a harmless and a serious case, such as an image that is still being deployed and one that can't be deployed, has the
//! severity of the serious case. A reason that only waits for other objects always ranks last, even if its condition
//! contains a copied severity.
//!
//! vmop's `Ready` and capw's first cause call [`first`]. gcm's summary and `layercake describe` search a whole
//! [tree](super::tree) of objects.

use std::cmp::Reverse;
use std::fmt;

use super::severity::Severity;
use super::{Condition, TRUE, UNKNOWN, contract, release, tkc, vcenter, vmop, wcp_cluster, wcp_machine};

/// A cause that keeps an object from being ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The path to the object at fault: `Machine x: WCPMachine y`.
    pub object: String,
    /// The reason as one CamelCase word.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
    /// The severity of the cause.
    pub severity: Severity,
}

impl Cause {
    /// Returns true if the cause is a failure, not just slow progress.
    pub fn is_failing(&self) -> bool {
        self.severity.is_failing()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = one_line(&self.message);
        match (self.reason.as_str(), message.as_str()) {
            (reason, "") => write!(f, "{}: {reason}", self.object),
            ("", message) => write!(f, "{}: {message}", self.object),
            (reason, message) if message.contains(reason) => write!(f, "{}: {message}", self.object),
            (reason, message) => write!(f, "{}: {reason}: {message}", self.object),
        }
    }
}

/// Returns the most severe cause, or the first one if several are equally severe.
pub fn gravest<T>(causes: impl IntoIterator<Item = T>, severity: impl Fn(&T) -> Severity) -> Option<T> {
    causes.into_iter().min_by_key(|cause| Reverse(severity(cause)))
}

/// Returns the most severe condition that isn't `True`. Conditions whose type is in `left_out` are ignored.
pub fn first<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
    left_out: &[&str],
) -> Option<&'a Condition> {
    let suspects = conditions
        .into_iter()
        .filter(|condition| condition.status != TRUE && !left_out.contains(&condition.type_.as_ref()));
    gravest(suspects, |condition| of_condition(condition))
}

/// Returns the severity of a condition that isn't `True`.
pub fn of_condition(condition: &Condition) -> Severity {
    let reason = condition.reason.as_deref().unwrap_or_default();
    severity(&condition.status, reason, condition.severity.as_deref())
}

/// Returns the severity of a condition that isn't `True`. `own` is the severity in the condition itself.
pub fn severity(status: &str, reason: &str, own: Option<&str>) -> Severity {
    let of_reason = of_reason(reason);
    if of_reason == Some(Severity::Waiting) {
        return Severity::Waiting;
    }
    own.and_then(Severity::from_word).or(of_reason).unwrap_or(match (status, reason) {
        (UNKNOWN, _) => Severity::Waiting,
        (_, "") => Severity::Info,
        // A reason of another project. Other projects set a reason only for a problem.
        _ => Severity::Warning,
    })
}

/// Returns the severity that this crate declares for a reason, or `None` for a reason that it doesn't declare.
fn of_reason(reason: &str) -> Option<Severity> {
    let lists = [
        tkc::severity,
        release::severity,
        contract::severity,
        wcp_cluster::severity,
        wcp_machine::severity,
        vmop::severity,
        vmop::publish::severity,
        vcenter::severity,
    ];
    lists.into_iter().find_map(|severity| severity(reason))
}

/// Joins the lines of a message into one line. In Cluster API's messages, each line is one cause after an asterisk.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for part in text.lines().map(|part| part.trim().trim_start_matches("* ")).filter(|part| !part.is_empty())
    {
        if !line.is_empty() {
            line += if line.ends_with(':') { " " } else { "; " };
        }
        line += part;
    }
    line
}

#[cfg(test)]
mod tests;
