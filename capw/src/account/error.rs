//! Errors of ProviderServiceAccount reconciles.

use std::time::Duration;

use api::conditions::cause::one_line;
use kit::apply::is_already_exists;
use kit::events::describe_object;
use kit::guest::GuestError;
use kit::{Disposition, ReconcileError};
use kube::Resource;

/// The retry delay for problems whose correction a watch doesn't report.
const RECHECK_AFTER: Duration = Duration::from_mins(2);
/// The retry delay after the token Secret was created.
const TOKEN_MADE: Duration = Duration::from_secs(2);
/// The retry delay while an existing token Secret doesn't contain a token, or while an object of a deleted account still
/// exists.
const TOKEN_MISSING: Duration = Duration::from_secs(30);

/// The reasons why a reconcile fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A problem that the user must correct, or a condition that the reconcile waits for.
    #[error(transparent)]
    Stopped(#[from] Stop),
    /// The workload cluster's API server rejected a request.
    #[error("{0}")]
    Guest(String),
    /// The management cluster's API server denied a request, for example because capw can't grant permissions that it doesn't have.
    #[error("{what}: {why}")]
    Forbidden {
        /// The request and the object that it concerns.
        what: String,
        /// The API server's message.
        why: String,
    },
    /// The management cluster's API server rejected a request or didn't respond.
    #[error("{what}: {}", kit::api_error::message(source))]
    Api {
        /// The request and the object that it concerns.
        what: String,
        source: kube::Error,
    },
}

/// The reasons why a reconcile stops early: a problem that the user must correct, or something that it waits for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The account's spec is invalid.
    #[error("{0}")]
    Invalid(String),
    /// Another owner's object already has a name that this account needs.
    #[error("{object} belongs to another owner. Rename or delete it, or use other names in the account")]
    NameTaken {
        /// The object, as `Kind namespace/name`.
        object: String,
    },
    /// An object of a deleted account with the same name still exists.
    #[error("{0} of a former ProviderServiceAccount is still being deleted")]
    Former(String),
    /// The WCPCluster doesn't exist, or isn't owned by a Cluster that references it.
    #[error(
        "WCPCluster {0} does not exist, or no Cluster owns it and references it in spec.infrastructureRef"
    )]
    Cluster(String),
    /// The workload cluster's control plane isn't initialized yet.
    #[error("the control plane of Cluster {0} is not initialized yet")]
    ControlPlane(String),
    /// Kubernetes hasn't created the token yet.
    #[error("Kubernetes has not created the token in Secret {secret} yet")]
    Token {
        secret: String,
        /// True if this reconcile creates the Secret.
        made: bool,
    },
    /// The workload cluster's API server doesn't respond.
    #[error("the cluster's API server does not answer: {0}")]
    Unreachable(String),
}

impl Stop {
    /// Returns true if the problem may resolve itself, without a change by the user.
    pub fn is_waiting(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::NameTaken { .. })
    }
}

impl From<GuestError> for Error {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Unreachable(why) => Stop::Unreachable(why).into(),
            // A server error is usually temporary.
            GuestError::Refused(refusal) if refusal.code >= 500 => Stop::Unreachable(refusal.message).into(),
            GuestError::Refused(refusal) => Self::Guest(format!("in the cluster: {refusal}")),
        }
    }
}

impl Error {
    /// Returns a function that adds a description of the request to an API error. `what` is the start of the description, such as
    /// `writing`, and `object` completes it.
    pub fn api<K: Resource<DynamicType = ()>>(object: &K, what: &str) -> impl FnOnce(kube::Error) -> Self {
        let what = format!("{what} {}", describe_object(object));
        move |source| match &source {
            kube::Error::Api(status) if status.code == 403 => {
                Self::Forbidden { what, why: one_line(&status.message) }
            }
            _ => Self::Api { what, source },
        }
    }
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Stopped(stop) => match stop {
                Stop::Invalid(_) => Disposition::Invalid,
                Stop::NameTaken { .. } => Disposition::Waiting(Some(RECHECK_AFTER)),
                Stop::Cluster(_) | Stop::ControlPlane(_) => Disposition::Waiting(None),
                Stop::Token { made: true, .. } => Disposition::Waiting(Some(TOKEN_MADE)),
                Stop::Token { made: false, .. } | Stop::Former(_) => {
                    Disposition::Waiting(Some(TOKEN_MISSING))
                }
                Stop::Unreachable(_) => Disposition::Failed,
            },
            Self::Guest(_) => Disposition::Failed,
            Self::Forbidden { .. } => Disposition::Waiting(Some(RECHECK_AFTER)),
            Self::Api { source, .. } if is_already_exists(source) => Disposition::Overtaken,
            Self::Api { source, .. } => Disposition::from_api_error(source),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Stopped(stop) if stop.is_waiting() => "Waiting",
            Self::Stopped(_) => "Invalid",
            Self::Guest(_) => "Guest",
            Self::Forbidden { .. } => "Forbidden",
            Self::Api { .. } => "Api",
        }
    }
}

#[cfg(test)]
mod tests {
    use api::capw::ProviderServiceAccount;
    use kit::guest::ApiRejection;
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_guest_that_refuses_answers_and_one_in_trouble_does_not() {
        let of = |code| {
            let refusal = ApiRejection { code, ..ApiRejection::new("a\nb") };
            Error::from(GuestError::from(refusal))
        };
        for code in [403, 404, 409, 422] {
            assert_eq!(of(code).to_string(), "in the cluster: a b", "{code}");
        }
        for code in [500, 503] {
            assert!(matches!(of(code), Error::Stopped(Stop::Unreachable(_))), "{code}");
        }
    }

    #[test]
    fn what_the_api_server_forbids_is_not_tried_again_at_once() {
        let failed = |code, reason: &str| {
            let status =
                Status::failure("attempting to grant RBAC permissions:\n{secrets}", reason).with_code(code);
            Error::api(&ProviderServiceAccount::default(), "writing the Role of")(kube::Error::Api(Box::new(
                status,
            )))
        };
        let forbidden = failed(403, "Forbidden");
        assert_eq!(forbidden.disposition(), Disposition::Waiting(Some(RECHECK_AFTER)));
        assert!(forbidden.to_string().ends_with("RBAC permissions: {secrets}"), "{forbidden}");
        for reason in ["AlreadyExists", "Conflict"] {
            assert_eq!(failed(409, reason).disposition(), Disposition::Overtaken, "{reason}");
        }
        assert_eq!(failed(500, "InternalError").disposition(), Disposition::Failed);
    }
}
