//! Why a reconcile of a ProviderServiceAccount did not come through.

use std::time::Duration;

use api::conditions::cause::one_line;
use kit::apply::{is_already_exists, is_conflict};
use kit::events::named;
use kit::guest::GuestError;
use kit::retry::REQUEUE_SOON;
use kit::{Disposition, ReconcileError};
use kube::Resource;

/// How soon a reconcile looks again at what people may have put right and no watch reports.
const RECHECK_AFTER: Duration = Duration::from_mins(2);
/// How soon it looks again for a token that Kubernetes is about to make.
const TOKEN_MADE: Duration = Duration::from_secs(2);
/// How soon it looks again for a token that Kubernetes should have made.
const TOKEN_MISSING: Duration = Duration::from_secs(30);

/// Why a reconcile did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody must act, or something else must happen first.
    #[error(transparent)]
    Stopped(#[from] Stop),
    /// The guest's API server does not take what is sent.
    #[error("{0}")]
    Guest(String),
    /// The management API server does not let us: it lends no rights that we do not have.
    #[error("{what}: {why}")]
    Forbidden {
        /// What was tried, of which object.
        what: String,
        /// What the API server says.
        why: String,
    },
    /// The management API server refused, or did not answer.
    #[error("{what}: {}", kit::api_error::message(source))]
    Api {
        /// What was tried, of which object.
        what: String,
        /// What came of it.
        source: kube::Error,
    },
}

/// Why there is nothing to do, or no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The account can't be as it is asked for.
    #[error("{0}")]
    Invalid(String),
    /// An object of somebody else has the name that the account needs.
    #[error("{object} belongs to another owner. Rename or delete it, or use other names in the account")]
    NameTaken {
        /// The object.
        object: String,
    },
    /// An object of a former account of this name is still there.
    #[error("{0} of a former ProviderServiceAccount is still being deleted")]
    Former(String),
    /// There is no Cluster to bring a token to.
    #[error(
        "WCPCluster {0} does not exist, or no Cluster owns it and references it in spec.infrastructureRef"
    )]
    Cluster(String),
    /// The guest's first API server does not answer yet.
    #[error("the control plane of Cluster {0} is not initialized yet")]
    ControlPlane(String),
    /// Kubernetes has not made the token yet.
    #[error("Kubernetes has not created the token in Secret {secret} yet")]
    Token {
        /// Name of the Secret.
        secret: String,
        /// Whether the Secret was made just now.
        made: bool,
    },
    /// The guest does not answer.
    #[error("the cluster's API server does not answer: {0}")]
    Unreachable(String),
}

impl Stop {
    /// Whether it is only a matter of time, for all that is known.
    pub fn is_waiting(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::NameTaken { .. })
    }
}

impl From<GuestError> for Error {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Unreachable(why) => Stop::Unreachable(why).into(),
            // An API server in trouble answers, and soon otherwise.
            GuestError::Refused(refusal) if refusal.code >= 500 => Stop::Unreachable(refusal.message).into(),
            GuestError::Refused(refusal) => Self::Guest(format!("in the cluster: {refusal}")),
        }
    }
}

impl Error {
    /// Says which request about which object failed.
    pub fn api<K: Resource<DynamicType = ()>>(object: &K, what: &str) -> impl FnOnce(kube::Error) -> Self {
        let what = format!("{what} {}", named(object));
        move |source| match &source {
            kube::Error::Api(status) if status.code == 403 => {
                Self::Forbidden { what, why: one_line(&status.message) }
            }
            _ => Self::Api { what, source },
        }
    }

    /// Somebody else was quicker: the next reconcile, soon, knows more. Nothing went wrong.
    pub fn is_overtaken(&self) -> bool {
        matches!(self, Self::Api { source, .. } if is_conflict(source) || is_already_exists(source))
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
            Self::Api { source, .. } if is_already_exists(source) => Disposition::Waiting(Some(REQUEUE_SOON)),
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
    use kit::guest::Refusal;
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_guest_that_refuses_answers_and_one_in_trouble_does_not() {
        let of = |code| {
            let refusal = Refusal { code, ..Refusal::new("a\nb") };
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
        assert!(!forbidden.is_overtaken());
        assert!(failed(409, "AlreadyExists").is_overtaken() && failed(409, "Conflict").is_overtaken());
        assert_eq!(failed(500, "InternalError").disposition(), Disposition::Failed);
    }
}
