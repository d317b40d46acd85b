//! vCenter faults and their classification.

use std::fmt;

use bounds::printable;

use crate::{Kind, Object, Value};

/// The maximum length of a message in characters. Messages contain text from users, guests and hosts.
pub(crate) const MESSAGE: usize = 800;

/// A fault that vCenter reported.
#[derive(Clone, PartialEq)]
pub struct Fault {
    /// The fault type, such as `DuplicateName`. Match on this, never on the message.
    pub type_name: String,
    /// The localized message, which may be empty.
    pub message: String,
    /// The fault's fields.
    pub detail: Value,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut closing = "";
        if !self.message.is_empty() {
            return write!(f, "{} ({})", self.message.trim_end_matches('.'), self.type_name);
        }
        f.write_str(&self.type_name)?;
        let fields = self.detail.as_object().into_iter().flat_map(Object::fields);
        for (at, (name, value)) in fields.filter_map(plain).enumerate() {
            write!(f, "{}{name} {value}", if at == 0 { " (" } else { ", " })?;
            closing = ")";
        }
        f.write_str(closing)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats a boolean, integer, string or reference field, and returns its name and text. Returns `None` for other values and for
/// empty strings.
fn plain<'a>((name, value): (&'a str, &'a Value)) -> Option<(&'a str, String)> {
    let text = match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Str(text) if !text.is_empty() => text.clone(),
        Value::Ref(moref) => moref.to_string(),
        _ => return None,
    };
    Some((name, text))
}

impl Fault {
    /// Reads a fault object, with or without the `LocalizedMethodFault` wrapper.
    ///
    /// VI/JSON doesn't use the wrapper, and some faults have a field called `fault` themselves. Therefore, only an
    /// object with the wrapper's type, or without a type as SOAP may send it, is unwrapped.
    pub fn read(value: &Value) -> Self {
        let inner = value.get("fault");
        let wraps = matches!(value.type_name(), "" | "LocalizedMethodFault") && inner.as_object().is_some();
        let (detail, outer) = if wraps { (inner, Some(value)) } else { (value, None) };
        let localized = outer.and_then(|outer| outer.get("localizedMessage").as_str());
        let mut message =
            localized.or_else(|| detail.get("faultstring").as_str()).unwrap_or_default().to_owned();
        // Append the nested messages, which contain the actual cause.
        for reason in
            detail.get("faultMessage").items().iter().filter_map(|reason| reason.get("message").as_str())
        {
            if message.is_empty() {
                reason.clone_into(&mut message);
            } else if !message.contains(reason) {
                message = format!("{}: {reason}", message.trim_end_matches('.'));
            }
        }
        let type_name = match detail.type_name() {
            "" => "MethodFault",
            name => name,
        };
        Self {
            type_name: type_name.to_owned(),
            message: printable(&message, MESSAGE),
            detail: detail.clone(),
        }
    }
}

/// Classifies a fault by its type. Subtypes are listed explicitly, because a response names only the concrete type.
pub(crate) fn classify_fault(fault: &Fault) -> Kind {
    let text = |name: &str| fault.detail.get(name).as_str().unwrap_or_default().to_owned();
    let moref = |name: &str| fault.detail.get(name).as_moref().cloned();
    match fault.type_name.as_str() {
        // The names after the first are from 9.x.
        "NotAuthenticated" | "AuthenticationRequired" | "SessionNotFound" | "InvalidToken" => {
            Kind::NotAuthenticated
        }
        "InvalidLogin" | "PasswordExpired" | "InvalidLocale" | "NoClientCertificate" => Kind::InvalidLogin,
        "NoPermission" | "RestrictedByAdministrator" => Kind::NoPermission { privilege: text("privilegeId") },
        "ManagedObjectNotFound" => Kind::NotFound { missing: moref("obj") },
        "NotFound" | "FileNotFound" => Kind::NotFound { missing: None },
        "DuplicateName" | "AlreadyExists" => {
            Kind::DuplicateName { name: text("name"), holder: moref("object") }
        }
        "NoDiskSpace"
        | "NoCompatibleHost"
        | "NoCompatibleHostWithAccessToDevice"
        | "NoCompatibleDatastore"
        | "NumVirtualCpusExceedsLimit"
        | "InvalidResourcePoolStructureFault" => Kind::InsufficientResources,
        name if name.starts_with("Insufficient") => Kind::InsufficientResources,
        "InvalidPowerState"
        | "InvalidState"
        | "InvalidVmState"
        | "QuestionPending"
        | "VmPowerOnDisabled"
        | "NoActiveHostInCluster"
        | "InvalidHostState"
        | "InvalidDatastoreState"
        | "InvalidHostConnectionState"
        | "ToolsUnavailable"
        | "NotSupported" => Kind::InvalidState,
        "TaskInProgress" | "ConcurrentAccess" | "ResourceInUse" | "VAppTaskInProgress"
        | "HostCommunication" | "HostNotReachable" | "HostNotConnected" => Kind::Busy,
        "RequestCanceled" => Kind::Canceled,
        "InvalidRequest" | "InvalidArgument" | "InvalidProperty" | "InvalidType" | "MethodNotFound"
        | "InvalidName" => Kind::InvalidRequest,
        _ => Kind::Fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_below_a_fault_are_reported() {
        let reason = |text: &str| Object::new("LocalizableMessage").with("key", "k").with("message", text);
        let detail = Object::new("SystemError")
            .with("faultMessage", vec![reason("disk is full"), reason("It failed")]);
        let outer =
            Object::new("LocalizedMethodFault").with("fault", detail).with("localizedMessage", "It failed.");
        assert_eq!(Fault::read(&outer.into()).to_string(), "It failed: disk is full (SystemError)");
    }

    #[test]
    fn a_fault_that_holds_a_fault_is_itself() {
        let held = Object::new("FileNotFound").with("file", "[ds0] cp-0/cp-0.vmdk");
        let disk = Object::new("CannotAccessVmDisk").with("fault", held.clone()).with("backing", "x");
        let wrapped = Object::new("LocalizedMethodFault").with("fault", disk.clone());
        for value in [disk, wrapped, Object::new("").with("fault", held.clone())] {
            let untyped = value.type_name().is_empty();
            let fault = Fault::read(&value.into());
            if untyped {
                assert_eq!(fault.type_name, "FileNotFound", "SOAP gives the wrapper no type");
            } else {
                assert_eq!(
                    (fault.type_name.as_str(), classify_fault(&fault)),
                    ("CannotAccessVmDisk", Kind::Fault)
                );
            }
        }
    }

    #[test]
    fn a_fault_without_a_message_tells_its_fields() {
        let fault = Object::new("InsufficientMemoryResourcesFault")
            .with("faultMessage", Vec::<Object>::new())
            .with("unreserved", 1024)
            .with("requested", 4096);
        let read = Fault::read(&fault.into());
        assert_eq!(read.to_string(), "InsufficientMemoryResourcesFault (unreserved 1024, requested 4096)");
        assert_eq!(Fault::read(&Object::new("SystemError").into()).to_string(), "SystemError");
    }

    #[test]
    fn faults_are_sorted_with_those_that_they_derive_from() {
        let kind = |name: &'static str| classify_fault(&Fault::read(&Object::new(name).into()));
        for name in ["NotAuthenticated", "AuthenticationRequired", "SessionNotFound", "InvalidToken"] {
            assert_eq!(kind(name), Kind::NotAuthenticated, "{name}");
        }
        for name in [
            "InvalidVmState",
            "QuestionPending",
            "VmPowerOnDisabled",
            "NoActiveHostInCluster",
            "InvalidPowerState",
        ] {
            assert_eq!(kind(name), Kind::InvalidState, "{name}");
        }
        for name in ["NoCompatibleHostWithAccessToDevice", "InvalidResourcePoolStructureFault"] {
            assert_eq!(kind(name), Kind::InsufficientResources, "{name}");
        }
    }
}
