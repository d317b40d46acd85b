//! The contents of a workload cluster in addition to its nodes: add-ons, objects from the namespace, issuers, and accounts for
//! programs.

pub mod accounts;
pub mod addons;
pub mod authentication;
pub mod left_in_image;
pub mod synced;
pub mod usable;

use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::{Condition, WARNING};
use api::gcm::TanzuKubernetesCluster;
use kube::ResourceExt;

/// A condition, and the cause that its message describes.
#[derive(Clone, Debug)]
pub struct ConditionWithCause {
    pub condition: Condition,
    /// The object that the condition waits for, with reason and message. `None` if the condition is True or only needs
    /// time.
    pub cause: Option<Cause>,
}

impl From<Condition> for ConditionWithCause {
    fn from(condition: Condition) -> Self {
        Self { condition, cause: None }
    }
}

/// Returns a false condition for a problem in the workload cluster.
fn build_failing_condition(
    tkc: &TanzuKubernetesCluster,
    type_: &str,
    reason: &str,
    message: String,
) -> ConditionWithCause {
    let object = format!("In cluster {}", tkc.name_any());
    let cause = Cause { object, reason: reason.to_owned(), message, severity: Severity::Warning };
    let condition = Condition::is_false(type_, WARNING, reason, cause.to_string());
    ConditionWithCause { condition, cause: Some(cause) }
}
