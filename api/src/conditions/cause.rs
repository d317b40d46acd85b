//! The one ranking of causes: what, of all that is not as it should be, is named first.
//!
//! The gravest cause comes first, and of equals the first in the order in which things come up. A condition's own
//! severity counts where it carries one; where it does not (Kubernetes' own conditions have none), its reason's does,
//! which stands beside the reason. A reason that can be harmless or not, such as an image that is still being deployed
//! or can't be, has the graver of both. A reason that only says that other objects are waited for explains nothing,
//! whatever severity was copied up beside it.
//!
//! vmop's `Ready`, capw's first cause, gcm's summary and `layercake describe` all call [`first`] or [`gravest`].

use std::cmp::Reverse;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::severity::Severity;
use super::{
    Condition, TRUE, UNKNOWN, capi, contract, release, tkc, vcenter, vmop, wcp_cluster, wcp_machine,
};

/// Why an object is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The object at fault, after the objects above it: `Machine x: WCPMachine y`.
    pub object: String,
    /// Why, in one CamelCase word.
    pub reason: String,
    /// Why, as a text for people.
    pub message: String,
    /// How grave it is.
    pub severity: Severity,
}

impl Cause {
    /// What a condition of Kubernetes' own shape says of `object`.
    pub fn of(object: String, condition: &meta::Condition) -> Self {
        let severity = severity(&condition.status, &condition.reason, None);
        Self { object, reason: condition.reason.clone(), message: condition.message.clone(), severity }
    }

    /// What a condition says of `object`, which is one of Cluster API's own kinds.
    pub fn of_cluster_api(object: String, condition: &meta::Condition) -> Self {
        let severity = capi::severity(&condition.type_, &condition.status, &condition.reason);
        Self { severity, ..Self::of(object, condition) }
    }

    /// A Machine whose virtual machine runs and whose Node is not there: only the guest itself knows why, or nobody here reaches
    /// `endpoint`, where the API server is to answer first.
    pub fn not_joined(object: String, address: Option<&str>, endpoint: Option<&str>) -> Self {
        let place = address.map_or_else(String::new, |address| format!(" at {address}"));
        let reach = endpoint.map_or_else(String::new, |endpoint| {
            format!("check that the management cluster can reach the endpoint {endpoint}, and ")
        });
        let message = format!(
            "the virtual machine is running{place}, but its node has not joined yet. If this persists, {reach}read /var/log/cloud-init-output.log in the guest"
        );
        let reason = tkc::WAITING_FOR_NODE;
        Self { object, reason: reason.to_owned(), message, severity: severity(super::FALSE, reason, None) }
    }

    /// Whether something went wrong, rather than takes its time.
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

/// The gravest of some causes; of equals the first.
pub fn gravest<T>(causes: impl IntoIterator<Item = T>, severity: impl Fn(&T) -> Severity) -> Option<T> {
    causes.into_iter().min_by_key(|cause| Reverse(severity(cause)))
}

/// The condition that says first why an object is not as it should be, without those of the types in `left_out`.
pub fn first<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
    left_out: &[&str],
) -> Option<&'a Condition> {
    let suspects = conditions
        .into_iter()
        .filter(|condition| condition.status != TRUE && !left_out.contains(&condition.type_.as_ref()));
    gravest(suspects, |condition| of_condition(condition))
}

/// The severity of a condition that is not `True`.
pub fn of_condition(condition: &Condition) -> Severity {
    let reason = condition.reason.as_deref().unwrap_or_default();
    severity(&condition.status, reason, condition.severity.as_deref())
}

/// The severity of a condition that is not `True`, with this status and reason, and this severity if it carries one.
pub fn severity(status: &str, reason: &str, own: Option<&str>) -> Severity {
    let of_reason = of_reason(reason);
    if of_reason == Some(Severity::Waiting) {
        return Severity::Waiting;
    }
    own.and_then(Severity::from_word).or(of_reason).unwrap_or(match (status, reason) {
        (UNKNOWN, _) => Severity::Waiting,
        (_, "") => Severity::Info,
        // Somebody else's reason: nobody gives one for what is as it should be.
        _ => Severity::Warning,
    })
}

/// The severity that stands beside a reason of ours.
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

/// A message on one line: Cluster API writes lists of causes, one a line, with a star before each.
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
