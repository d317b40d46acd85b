//! How a cluster's add-ons are: as status, as condition and as cause.

use api::conditions::cause::Cause;
use api::conditions::severity::Severity;
use api::conditions::{Condition, INFO, WARNING, tkc as words};
use api::gcm::parts::AddonStatus;
use kit::guest::bounded;

use super::bundle::AddonType;

/// How far an add-on is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonState {
    /// It is not applied yet, and why.
    Pending(String),
    /// It is applied, and does not work yet.
    InProgress(String),
    /// It is applied and works.
    Applied,
    /// It can't be applied, or does not work, and why.
    Failed(String),
    /// Nobody provides it, with what to do.
    Unprovided(String),
    /// Somebody else applies it.
    Unmanaged,
}

/// How one add-on is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddonReport {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub type_: Option<AddonType>,
    /// The version that is applied, or is to be.
    pub version: Option<String>,
    /// How far it is.
    pub state: AddonState,
}

impl AddonReport {
    /// Whether there is nothing to wait for.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, AddonState::Applied | AddonState::Unmanaged)
    }

    /// The status; `serves` says that all nodes are ready, which without a container network they never are.
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

    /// Why it is not settled.
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
            // Whoever has ready nodes has a container network, though not from us.
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
