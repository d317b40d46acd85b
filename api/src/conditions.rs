//! Conditions: the type with a severity that TKC, TKr and VM Operator kinds carry, and every type
//! and reason as a constant, each reason with its severity. [`cause`] ranks them.
//!
//! WCP kinds carry the `Condition` of Kubernetes itself, which has no severity; [`metav1`] turns one
//! into the other.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use severity::{ERROR, INFO, WARNING};

/// One aspect of an object's state, in the shape of Cluster API v1beta1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "status"]))]
pub struct Condition {
    /// The type of the condition, in CamelCase.
    #[serde(rename = "type", deserialize_with = "word")]
    pub type_: Cow<'static, str>,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "word")]
    pub status: Cow<'static, str>,
    /// The severity of a `False` status: `Error`, `Warning` or `Info`. Empty when the status is `True`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Why, in one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<meta::Time>,
}

/// The status of a condition that holds.
pub const TRUE: &str = "True";
/// The status of a condition that does not hold.
pub const FALSE: &str = "False";
/// The status of a condition that is not known yet.
pub const UNKNOWN: &str = "Unknown";

impl Condition {
    /// A condition that holds.
    pub fn is_true(type_: &str) -> Self {
        Self { type_: known(type_), status: TRUE.into(), ..Self::default() }
    }

    /// A condition that does not hold, and why.
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

    /// A condition that is not known yet, and why.
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

/// Reads a word that costs no memory where it is one of ours: with thousands of VMs these are a tenth of all.
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

/// The condition of one type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is there and `True`.
pub fn holds(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}

/// Conditions in the shape of Kubernetes itself, as the WCP kinds and Cluster API v1beta2 carry them.
pub mod metav1 {
    use super::{TRUE, meta};

    /// The condition of one type, if there is one.
    pub fn find<'a>(conditions: &'a [meta::Condition], type_: &str) -> Option<&'a meta::Condition> {
        conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition of this type is there and `True`.
    pub fn holds(conditions: &[meta::Condition], type_: &str) -> bool {
        find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
    }
}

/// Declares condition types, and reasons of conditions that hold: constants.
macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*
    };
    (in $list:ident; $($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        constants! { $($(#[$doc])* $name = $value;)* }

        /// Every constant of this list.
        pub(in $crate::conditions) const $list: &[&str] = &[$($value),*];
    };
}

/// Declares reasons: constants, each with the severity that it has where the condition carries none.
macro_rules! reasons {
    ($($(#[$doc:meta])* $severity:ident $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $value;)*

        /// The severity of a reason of this list, where the condition carries none.
        pub fn severity(reason: &str) -> Option<$crate::conditions::severity::Severity> {
            match reason {
                $($value => Some($crate::conditions::severity::Severity::$severity),)*
                _ => None,
            }
        }

        /// Every reason of this list.
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
pub mod vcenter;
pub mod vmop;
pub mod wcp_cluster;
pub mod wcp_machine;

/// The summary every kind carries.
pub const READY: &str = "Ready";
