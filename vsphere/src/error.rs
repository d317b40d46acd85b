//! The error type: the failed call, the object, the kind of failure, and advice for an administrator.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bounds::printable;

use crate::fault::{Fault, classify_fault};
use crate::kind::Kind;

/// A failed vCenter call.
///
/// Contains the method, the object and the kind of failure. Tells whether a retry may help and what a vSphere admin
/// can do. Clones are cheap.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    method: Cow<'static, str>,
    object: Option<String>,
    kind: Kind,
    fault: Option<Fault>,
}

/// The result of a vCenter call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error for `method` without a vCenter fault.
    pub fn new(method: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        Self(Arc::new(Inner { method: method.into(), object: None, kind, fault: None }))
    }

    /// Creates an error from a vCenter fault.
    pub fn from_fault(method: impl Into<Cow<'static, str>>, fault: Fault) -> Self {
        let kind = classify_fault(&fault);
        Self(Arc::new(Inner { method: method.into(), object: None, kind, fault: Some(fault) }))
    }

    /// Sets the object that the call failed on.
    #[must_use]
    pub fn on(mut self, object: impl fmt::Display) -> Self {
        Arc::make_mut(&mut self.0).object = Some(object.to_string());
        self
    }

    /// Returns the failed method, such as `CloneVM_Task`.
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// Returns the reference or name of the object that the call failed on.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Returns the vCenter fault, if vCenter reported one.
    pub fn fault(&self) -> Option<&Fault> {
        self.0.fault.as_ref()
    }

    /// Returns true if the object, or another object that the call refers to, doesn't exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.0.kind, Kind::NotFound { .. })
    }

    /// Returns true if vCenter may have executed the call although it failed. Check the outcome before you repeat the
    /// call.
    pub fn outcome_unknown(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::AnswerLost { .. }
                | Kind::TimedOut
                | Kind::TooLarge { .. }
                | Kind::Overloaded
                | Kind::Unexpected { .. }
        )
    }

    /// Returns true if the same call may succeed later without intervention.
    pub fn retryable(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::NotAuthenticated
                | Kind::Busy
                | Kind::Overloaded
                | Kind::Unreachable { .. }
                | Kind::AnswerLost { .. }
                | Kind::TimedOut
                | Kind::Canceled
        )
    }

    /// Returns the name of the failure kind for metrics and condition reasons, such as `DuplicateName`.
    pub fn category(&self) -> &'static str {
        match self.0.kind {
            Kind::NotAuthenticated => "NotAuthenticated",
            Kind::InvalidLogin => "InvalidLogin",
            Kind::NoPermission { .. } => "NoPermission",
            Kind::NotFound { .. } => "NotFound",
            Kind::DuplicateName { .. } => "DuplicateName",
            Kind::InsufficientResources => "InsufficientResources",
            Kind::InvalidState => "InvalidState",
            Kind::Busy => "Busy",
            Kind::InvalidRequest => "InvalidRequest",
            Kind::Overloaded => "Overloaded",
            Kind::Unreachable { .. } => "Unreachable",
            Kind::AnswerLost { .. } => "AnswerLost",
            Kind::TimedOut => "TimedOut",
            Kind::TooLarge { .. } => "AnswerTooLarge",
            Kind::Tls { .. } => "CertificateRefused",
            Kind::Canceled => "Canceled",
            Kind::Unsupported { .. } => "Unsupported",
            Kind::Unexpected { .. } => "Unexpected",
            Kind::Fault => "Fault",
        }
    }

    /// Returns a sentence that tells a vSphere admin what to do.
    pub fn advice(&self) -> Cow<'static, str> {
        match self.fault().map(|fault| fault.type_name.as_str()) {
            Some("NoCompatibleHost" | "NoActiveHostInCluster") => {
                return "Check that a host of the cluster is connected, is not in maintenance mode, and reaches the VM's network and datastore; then free capacity.".into();
            }
            Some("QuestionPending") => return "Answer the VM's question in the vSphere Client.".into(),
            _ => {}
        }
        match &self.0.kind {
            Kind::NotAuthenticated => "Check that the session limit of vCenter is not reached.".into(),
            Kind::InvalidLogin => "Check the user name and the password.".into(),
            Kind::NoPermission { privilege } if privilege.is_empty() => {
                "Give the user the privileges that docs/vcenter.md lists.".into()
            }
            Kind::NoPermission { privilege } => {
                format!("Give the user the privilege {} on the object and its parents.", printable(privilege, 100))
                    .into()
            }
            Kind::NotFound { .. } => "Check that the object still exists in this vCenter.".into(),
            Kind::DuplicateName { name, .. } => {
                format!("Rename or remove the object with the name {:?} in that folder.", printable(name, 100)).into()
            }
            Kind::InsufficientResources => {
                "Free capacity, raise the resource pool's limits, or reduce the reservations.".into()
            }
            Kind::InvalidState => "Check the state of the object in vCenter.".into(),
            Kind::Busy => "The object or its host cannot be used now; the call is tried again.".into(),
            Kind::Overloaded => "vCenter has no capacity for the call now; the call is tried again.".into(),
            Kind::Unreachable { .. } => "Check the address, the port and the network path to vCenter.".into(),
            Kind::AnswerLost { .. } | Kind::TimedOut => {
                "The outcome is checked before the call is tried again.".into()
            }
            Kind::TooLarge { .. } => {
                "Check in vCenter what makes it so large, such as the descriptor of a library item or guestinfo.".into()
            }
            Kind::Tls { shown: Some(shown), .. } => {
                format!("If this is the right server, trust its CA or the thumbprint {shown}.").into()
            }
            Kind::Tls { shown: None, .. } => "Check the certificate of vCenter and the CA bundle.".into(),
            Kind::Canceled => "The session or the server cancelled the call; the call is tried again.".into(),
            Kind::Unsupported { .. } => "Use a vCenter release or a setting that supports it.".into(),
            Kind::InvalidRequest | Kind::Unexpected { .. } | Kind::Fault => {
                "Check the task and its events in vCenter.".into()
            }
        }
    }
}

/// The maximum length of a displayed error in characters. Parts of an error come from users, guests and hosts.
const SHOWN: usize = 1000;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&Whole(&self.0).to_string(), SHOWN))
    }
}

/// Formats an error in full, including untrusted text.
struct Whole<'a>(&'a Inner);

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { method, object, kind, fault } = self.0;
        f.write_str(method)?;
        if let Some(object) = object {
            write!(f, " on {object}")?;
        }
        f.write_str(": ")?;
        if let Some(fault) = fault {
            return fmt::Display::fmt(fault, f);
        }
        match kind {
            Kind::Unreachable { cause } => write!(f, "vCenter can't be reached: {cause}"),
            Kind::AnswerLost { cause } => write!(f, "the answer was lost: {cause}"),
            Kind::TimedOut => f.write_str("no answer in time"),
            Kind::TooLarge { limit } => write!(f, "the answer is longer than {limit} bytes"),
            Kind::Tls { cause, shown: Some(shown) } => {
                write!(f, "the certificate of vCenter was refused: {cause} (it showed SHA-256 {shown})")
            }
            Kind::Tls { cause, shown: None } => write!(f, "TLS failed: {cause}"),
            Kind::Unsupported { what } => write!(f, "not supported: {what}"),
            Kind::Unexpected { cause } => write!(f, "the answer is not valid: {cause}"),
            Kind::NotFound { missing: Some(missing) } => write!(f, "{missing} does not exist"),
            Kind::NotFound { missing: None } => f.write_str("it does not exist"),
            Kind::InvalidLogin => f.write_str("vCenter refuses the user name or the password"),
            Kind::NotAuthenticated => f.write_str("the session is not authenticated"),
            Kind::Overloaded => f.write_str("vCenter is overloaded or starting"),
            Kind::Canceled => f.write_str("vCenter cancelled the call"),
            Kind::InvalidRequest => f.write_str("vCenter does not understand the request"),
            _ => f.write_str("it failed"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.category())
    }
}

impl std::error::Error for Error {}

/// Creates an error for an invalid response to `method`.
pub(crate) fn unexpected(method: &'static str, cause: &str) -> Error {
    Error::new(method, Kind::Unexpected { cause: cause.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MoRef, Object, Thumbprint};

    fn fault(type_name: &str) -> Error {
        let detail = Object::new(type_name.to_owned())
            .with("name", "cp-0")
            .with("object", MoRef::vm("vm-7"))
            .with("privilegeId", "Resource.AssignVMToPool");
        let outer = Object::new("LocalizedMethodFault")
            .with("fault", detail)
            .with("localizedMessage", "It went wrong.");
        Error::from_fault("CloneVM_Task", Fault::read(&outer.into())).on("cp-0")
    }

    #[test]
    fn the_advice_for_a_cluster_without_a_usable_host_names_the_hosts() {
        assert!(fault("NoCompatibleHost").advice().contains("maintenance mode"));
        assert!(fault("InsufficientMemoryResourcesFault").advice().contains("reduce the reservations"));
        assert!(fault("QuestionPending").advice().contains("vSphere Client"));
    }

    #[test]
    fn faults_are_sorted_by_type() {
        let cases = [
            ("NotAuthenticated", "NotAuthenticated", true),
            ("InvalidLogin", "InvalidLogin", false),
            ("ManagedObjectNotFound", "NotFound", false),
            ("DuplicateName", "DuplicateName", false),
            ("InsufficientMemoryResourcesFault", "InsufficientResources", false),
            ("TaskInProgress", "Busy", true),
            ("InvalidPowerState", "InvalidState", false),
            ("RequestCanceled", "Canceled", true),
            ("NoPermission", "NoPermission", false),
            ("SystemError", "Fault", false),
        ];
        for (type_name, category, retryable) in cases {
            let error = fault(type_name);
            assert_eq!(error.category(), category);
            assert_eq!(error.retryable(), retryable, "{type_name}");
            assert!(!error.outcome_unknown());
            assert_eq!(error.to_string(), format!("CloneVM_Task on cp-0: It went wrong ({type_name})"));
        }
        assert_eq!(
            fault("DuplicateName").kind(),
            &Kind::DuplicateName { name: "cp-0".into(), holder: Some(MoRef::vm("vm-7")) }
        );
        assert!(fault("NoPermission").advice().contains("Resource.AssignVMToPool"));
    }

    #[test]
    fn a_refused_certificate_says_which_one_was_shown() {
        let shown = Thumbprint::of(b"der");
        let error = Error::new("Login", Kind::Tls { cause: "unknown issuer".into(), shown: Some(shown) });
        assert!(error.to_string().contains(&shown.to_string()));
        assert!(error.advice().contains(&shown.to_string()));
    }
}
