//! Converts an add-on's state to its status, condition and cause.

use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::{Condition, INFO, WARNING, tkc as words};
use api::gcm::parts::AddonStatus;
use kit::guest::bounded;

use super::bundle::AddonType;

/// An add-on's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonState {
    /// The add-on isn't applied yet. Contains the reason.
    Pending(String),
    /// The add-on is applied but doesn't work yet. Contains the reason.
    InProgress(String),
    /// The add-on is applied and works.
    Applied,
    /// The add-on can't be applied or doesn't work. Contains the reason.
    Failed(String),
    /// The add-on isn't provided by any source. Contains a message with the remedy.
    Unprovided(String),
    /// Another tool applies the add-on.
    Unmanaged,
}

/// The report about one add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddonReport {
    pub name: String,
    /// The add-on type, if known.
    pub type_: Option<AddonType>,
    /// The version that is or will be applied.
    pub version: Option<String>,
    pub state: AddonState,
}

impl AddonReport {
    /// Returns true if the add-on works, or if another tool applies it.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, AddonState::Applied | AddonState::Unmanaged)
    }

    /// Returns the add-on's status. `serves` is true if all nodes are ready, which implies that a container network works.
    pub fn status(&self, serves: bool) -> AddonStatus {
        let condition = match &self.state {
            AddonState::Applied => Condition::is_true(words::PROVISIONED),
            AddonState::Pending(why) | AddonState::InProgress(why) => {
                Condition::is_unknown(words::PROVISIONED, words::PROVISIONING, bounded(why))
            }
            AddonState::Unprovided(why) if !serves => {
                Condition::is_false(words::PROVISIONED, WARNING, words::PROVISIONING_FAILED, bounded(why))
            }
            AddonState::Failed(why) => {
                Condition::is_false(words::PROVISIONED, WARNING, words::PROVISIONING_FAILED, bounded(why))
            }
            AddonState::Unmanaged | AddonState::Unprovided(_) => {
                let message = "This add-on is not managed by gcm";
                Condition::is_false(words::PROVISIONED, INFO, words::ADDON_UNMANAGED, message)
            }
        };
        AddonStatus {
            name: self.name.clone(),
            type_: self.type_.map(|type_| type_.as_str().to_owned()),
            version: self.version.clone(),
            conditions: vec![condition],
        }
    }

    /// Returns the cause if the add-on isn't settled. An unprovided container network isn't a cause if all nodes are ready
    /// (`serves`).
    pub fn cause(&self, serves: bool) -> Option<Cause> {
        let (reason, message, severity) = match &self.state {
            AddonState::Applied | AddonState::Unmanaged => return None,
            AddonState::Unprovided(_) if serves => return None,
            AddonState::Pending(why) | AddonState::InProgress(why) => {
                (words::PROVISIONING, why, Severity::Info)
            }
            AddonState::Failed(why) | AddonState::Unprovided(why) => {
                (words::PROVISIONING_FAILED, why, Severity::Warning)
            }
        };
        Some(Cause {
            object: format!("Add-on {}", self.name),
            reason: reason.to_owned(),
            message: bounded(message),
            severity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: AddonState) -> AddonReport {
        AddonReport { name: "flannel".into(), type_: Some(AddonType::Cni), version: None, state }
    }

    #[test]
    fn each_state_has_its_condition_and_cause() {
        let why = || "x".to_owned();
        let cases = [
            (AddonState::Applied, false, "True", "", false),
            (AddonState::Pending(why()), false, "Unknown", "Provisioning", true),
            (AddonState::InProgress(why()), true, "Unknown", "Provisioning", true),
            (AddonState::Failed(why()), true, "False", "ProvisioningFailed", true),
            (AddonState::Unprovided(why()), false, "False", "ProvisioningFailed", true),
            // Ready nodes prove that another tool provides the container network.
            (AddonState::Unprovided(why()), true, "False", "AddonUnManaged", false),
            (AddonState::Unmanaged, false, "False", "AddonUnManaged", false),
        ];
        for (state, serves, status, reason, has_cause) in cases {
            let report = report(state.clone());
            let shown = report.status(serves);
            assert_eq!(shown.type_.as_deref(), Some("CNI"));
            assert_eq!(shown.conditions[0].status, status, "{state:?}");
            assert_eq!(shown.conditions[0].reason.as_deref().unwrap_or_default(), reason, "{state:?}");
            assert_eq!(report.cause(serves).is_some(), has_cause, "{state:?}");
        }
    }
}
