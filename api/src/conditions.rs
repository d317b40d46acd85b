//! Conditions of Layercake's kinds, and all condition types and reasons as constants. Each reason has a severity, by
//! which [`cause`] ranks it.
//!
//! TanzuKubernetesClusters, TanzuKubernetesReleases and VM Operator's kinds use [`Condition`], which contains a
//! severity. The WCP kinds use the Kubernetes `Condition`, which doesn't; [`metav1`] searches lists of those.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use severity::{ERROR, INFO, WARNING};

/// A condition in the format of Cluster API v1beta1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "status"]))]
pub struct Condition {
    /// Condition type in CamelCase.
    #[serde(rename = "type", deserialize_with = "word")]
    pub type_: Cow<'static, str>,
    /// Status of the condition: `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "word")]
    pub status: Cow<'static, str>,
    /// Severity of a `False` status: `Error`, `Warning` or `Info`. Only set if the status is `False`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Reason for the current status, as one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable details about the current status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time of the last status change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<meta::Time>,
}

/// The status of a condition that is true.
pub const TRUE: &str = "True";
/// The status of a condition that is false.
pub const FALSE: &str = "False";
/// The status of a condition that isn't known yet.
pub const UNKNOWN: &str = "Unknown";

impl Condition {
    /// Returns a condition with status `True`.
    pub fn is_true(type_: &str) -> Self {
        Self { type_: known(type_), status: TRUE.into(), ..Self::default() }
    }

    /// Returns a condition with status `False`.
    pub fn is_false(type_: &str, severity: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: known(type_),
            status: FALSE.into(),
            severity: Some(severity.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            last_transition_time: None,
        }
    }

    /// Returns a condition with status `Unknown`.
    pub fn is_unknown(type_: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: known(type_),
            status: UNKNOWN.into(),
            severity: None,
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            last_transition_time: None,
        }
    }
}

/// Deserializes a known word to a static string, so that caches don't keep an allocation for each. With thousands of VMs,
/// these words would take up a tenth of a cache's memory.
fn word<'de, D: Deserializer<'de>>(input: D) -> Result<Cow<'static, str>, D::Error> {
    Ok(known(&Cow::<str>::deserialize(input)?))
}

fn known(word: &str) -> Cow<'static, str> {
    let words = [TRUE, FALSE, UNKNOWN, READY].iter().chain(vmop::TYPES);
    match words.copied().find(|known| *known == word) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(word.to_owned()),
    }
}

/// Returns the condition with this type, or `None` if it doesn't exist.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns true if a condition with this type exists and its status is `True`.
pub fn holds(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}

/// Functions for Kubernetes conditions, which the WCP kinds and Cluster API v1beta2 use.
pub mod metav1 {
    use super::{TRUE, meta};

    /// Returns the condition with this type, or `None` if it doesn't exist.
    pub fn find<'a>(conditions: &'a [meta::Condition], type_: &str) -> Option<&'a meta::Condition> {
        conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns true if a condition with this type exists and its status is `True`.
    pub fn holds(conditions: &[meta::Condition], type_: &str) -> bool {
        find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
    }
}

/// Declares constants for condition types, and for reasons of conditions that are true.
macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*
    };
    (in $list:ident; $($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        constants! { $($(#[$doc])* $name = $value;)* }

        /// All constants of this list.
        pub(in $crate::conditions) const $list: &[&str] = &[$($value),*];
    };
}

/// Declares constants for reasons, each with the severity that applies if the condition itself doesn't contain one.
macro_rules! reasons {
    ($($(#[$doc:meta])* $severity:ident $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*

        /// Returns the severity of a reason in this list. It applies if the condition itself doesn't contain one.
        pub fn severity(reason: &str) -> Option<$crate::conditions::severity::Severity> {
            match reason {
                $($value => Some($crate::conditions::severity::Severity::$severity),)*
                _ => None,
            }
        }

        /// All reasons in this list.
        #[cfg(test)]
        pub(in $crate::conditions) const REASONS: &[&str] = &[$($value),*];
    };
}

pub mod capi;
pub mod cause;
pub mod contract;
pub mod release;
pub mod severity;
pub mod tkc;
pub mod tree;
pub mod vcenter;
pub mod vmop;
pub mod wcp_cluster;
pub mod wcp_machine;

/// The summary condition of every kind.
pub const READY: &str = "Ready";
